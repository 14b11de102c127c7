import type { Address } from "viem";
import { abortReason } from "../sleep.ts";
import type { JobLog } from "./advance.ts";
import { Snapshot, type SnapshotBlock } from "./snapshot.ts";
import type { RegistryState } from "./state.ts";
import type { Derive, JobEvent, Published, RegistryDelta } from "./types.ts";

/** What a publication brings. */
export interface Publication {
  readonly state: RegistryState;
  readonly block: SnapshotBlock;
  /** Addresses whose record may differ from the last snapshot's; `"all"` when nobody kept track. */
  readonly touched: Iterable<Address> | "all";
  /** Job events taken back, newest first, then those that are new, in order. */
  readonly removed: readonly JobLog[];
  readonly added: readonly JobLog[];
}

interface Waiter<D> {
  readonly blockNumber: number;
  resolve(published: Published<D>): void;
  reject(error: Error): void;
}

/** Holds what readers see, and tells them when it changes. */
export class Publisher<D> {
  readonly #derive: Derive<D>;
  readonly #onError: (error: unknown) => void;
  readonly #listeners = new Set<(published: Published<D>, delta: RegistryDelta) => void>();
  readonly #jobListeners = new Set<(event: JobEvent) => void>();
  readonly #waiters = new Set<Waiter<D>>();
  #snapshot: Snapshot | undefined;
  #current: Published<D> | undefined;

  /** @param onError Told of listeners that throw: one reader's fault is not another's. */
  constructor(derive: Derive<D>, onError: (error: unknown) => void) {
    this.#derive = derive;
    this.#onError = onError;
  }

  get current(): Published<D> | undefined {
    return this.#current;
  }

  /** Snapshot of the last publication. */
  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  subscribe(listener: (published: Published<D>, delta: RegistryDelta) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onJobEvent(listener: (event: JobEvent) => void): () => void {
    this.#jobListeners.add(listener);
    return () => this.#jobListeners.delete(listener);
  }

  /**
   * Builds the next snapshot and what is derived from it, and only then lets anyone see either. Throws what deriving throws, with
   * nothing published. Events are told from the second publication on: the first has all of the past in it.
   */
  publish(publication: Publication, timeToLive: number): void {
    const previous = this.#snapshot ?? Snapshot.empty(timeToLive);
    const touched = publication.touched === "all" ? everyAddress(previous, publication.state) : publication.touched;
    const { snapshot, delta } = previous.next(publication.state, publication.block, touched);
    const derived = this.#derive(snapshot, delta, this.#current?.derived);
    const tellEvents = this.#current !== undefined;
    const published = Object.freeze({ snapshot, derived });
    this.#snapshot = snapshot;
    this.#current = published;
    for (const waiter of this.#waiters) {
      if (waiter.blockNumber > snapshot.blockNumber) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(published);
    }
    for (const listener of this.#listeners) this.#guard(() => listener(published, delta));
    if (!tellEvents) return;
    for (const log of publication.removed) this.#tellJob(log, true);
    for (const log of publication.added) this.#tellJob(log, false);
  }

  /** The first publication at or after a block. */
  waitFor(blockNumber: number, signal: AbortSignal | undefined): Promise<Published<D>> {
    const published = this.#current;
    if (published !== undefined && published.snapshot.blockNumber >= blockNumber) return Promise.resolve(published);
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(abortReason(signal));
        return;
      }
      const onAbort = (): void => {
        this.#waiters.delete(waiter);
        if (signal !== undefined) reject(abortReason(signal));
      };
      const waiter: Waiter<D> = {
        blockNumber,
        resolve: (value) => {
          signal?.removeEventListener("abort", onAbort);
          resolve(value);
        },
        reject: (error) => {
          signal?.removeEventListener("abort", onAbort);
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Ends every wait with an error. */
  rejectWaiters(error: Error): void {
    for (const waiter of this.#waiters) waiter.reject(error);
    this.#waiters.clear();
  }

  #tellJob(log: JobLog, removed: boolean): void {
    const event: JobEvent = Object.freeze({
      ...log.change,
      jobId: log.jobId,
      provider: log.provider,
      place: log.place,
      removed,
    });
    for (const listener of this.#jobListeners) this.#guard(() => listener(event));
  }

  #guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#onError(error);
    }
  }
}

function everyAddress(snapshot: Snapshot, state: RegistryState): Set<Address> {
  const addresses = new Set<Address>();
  for (const record of snapshot.providers()) addresses.add(record.address);
  for (const record of state.providers.values()) addresses.add(record.address);
  return addresses;
}
