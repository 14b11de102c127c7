import type { Address, PublicClient } from "viem";
import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";
import { nodeMessage } from "../rpc-errors.ts";
import { abortReason } from "../sleep.ts";
import { ChainMovedError } from "./advance.ts";
import { findDrift, IndexDriftError } from "./audit.ts";
import { type BlockHeader, type ChainReader, chainReader } from "./chain-reader.ts";
import { Follower } from "./follower.ts";
import type { Contracts } from "./logs.ts";
import { followNewHeads } from "./new-heads.ts";
import { PageReader } from "./page-reader.ts";
import { Publisher } from "./publisher.ts";
import { RangePacer } from "./range-pacer.ts";
import { IndexInconsistencyError } from "./state.ts";
import type { ChainHead, Derive, IndexHealth, JobEvent, Published, RegistryDelta, RegistryIndex } from "./types.ts";

/** Options of `createRegistryIndex`. Times in milliseconds. */
export interface RegistryIndexOptions<D> {
  readonly client: PublicClient;
  readonly contracts: Contracts;
  /** Block of the first contract: reputation comes from the events since. Undefined: only from events from now on. */
  readonly deployedAtBlock: number | undefined;
  readonly derive: Derive<D>;
  readonly clock: Clock;
  readonly random: Random;
  readonly pollMs?: number;
  /** A WebSocket of the node, only to learn of new blocks sooner. */
  readonly wsUrl?: string;
  /** Blocks that a reorganisation can reach back without everything being read again. */
  readonly keepBlocks?: number;
  /** Most blocks of one `eth_getLogs`; less when the node refuses. */
  readonly maxRange?: number;
  /** A chain with at most so many blocks since the deployment is replayed from its events; a longer one is read in pages first. */
  readonly maxReplayBlocks?: number;
  /** Seconds of chain time in which outcomes lose half their weight in reputation. */
  readonly reputationHalfLifeSeconds?: number;
  /** Wallets of this process, whose jobs count apart from those of strangers. */
  readonly ownClients?: Iterable<Address>;
  /** How often random providers are compared with the chain's views; 0 = never. */
  readonly auditEveryMs?: number;
  /** Providers of one audit. */
  readonly auditSample?: number;
  /** How long a head below the block that was reached is taken for a node that lags; then for a chain that was cut back. */
  readonly lagPatienceMs?: number;
  /** Age of the last successful look from which the index does not count as ready. */
  readonly staleAfterMs?: number;
  /** Told of every failed look, of drift, and of listeners that throw; for logs. */
  readonly onError?: (error: unknown) => void;
}

/** Waiting ended because the index was stopped. */
export class IndexStoppedError extends Error {
  override readonly name = "IndexStoppedError";
}

/** Makes an index of one registry; `start` lets it follow the chain. */
export function createRegistryIndex<D>(options: RegistryIndexOptions<D>): RegistryIndex<D> {
  return new FollowingIndex(options);
}

/** A week. */
const defaultHalfLifeSeconds = 604_800;
const backoff = { baseMs: 200, maxMs: 10_000 };
/** Reading everything again may not become a load of its own. */
const repairEveryMs = 60_000;

class FollowingIndex<D> implements RegistryIndex<D> {
  readonly #options: RegistryIndexOptions<D>;
  readonly #clock: Clock;
  readonly #reader: ChainReader;
  readonly #pages: PageReader;
  readonly #publisher: Publisher<D>;
  readonly #follower: Follower;
  readonly #pollMs: number;
  readonly #auditEveryMs: number;
  readonly #headListeners = new Set<(head: ChainHead) => void>();
  readonly #stop = new AbortController();

  #running: Promise<void> | undefined;
  #stopNewHeads: (() => void) | undefined;
  #timeToLive: number | undefined;
  #head: BlockHeader | undefined;
  #behindSince: number | undefined;

  /** Somebody asked for a look while one was running. */
  #wanted = false;
  #wake: (() => void) | undefined;
  #failures = 0;
  #lastLook: number | undefined;
  #lastError: string | undefined;
  #drift = 0;
  #nextAudit: number;
  #repairWanted = false;
  #nextRepair = Number.NEGATIVE_INFINITY;

  constructor(options: RegistryIndexOptions<D>) {
    this.#options = options;
    this.#clock = options.clock;
    this.#reader = chainReader(options.client, options.contracts);
    this.#pages = new PageReader(options.client, options.contracts.registry);
    this.#publisher = new Publisher(options.derive, (error) => this.#report(error));
    this.#follower = new Follower({
      context: {
        reader: this.#reader,
        contracts: options.contracts,
        pacer: new RangePacer(options.maxRange ?? 10_000),
        keepBlocks: options.keepBlocks ?? 256,
        rating: {
          halfLifeSeconds: options.reputationHalfLifeSeconds ?? defaultHalfLifeSeconds,
          ownClients: new Set(options.ownClients),
        },
      },
      pages: this.#pages,
      deployedAtBlock: options.deployedAtBlock,
      maxReplayBlocks: options.maxReplayBlocks ?? 20_000,
      publish: (publication) => {
        // What a hanging node answered after the stop is nobody's business any more.
        if (this.#stop.signal.aborted) throw abortReason(this.#stop.signal);
        this.#publisher.publish(publication, this.#timeToLive ?? 0);
      },
    });
    this.#pollMs = options.pollMs ?? 1000;
    this.#auditEveryMs = options.auditEveryMs ?? 60_000;
    this.#nextAudit = options.clock.monotonic() + this.#auditEveryMs;
  }

  start(): void {
    if (this.#running !== undefined || this.#stop.signal.aborted) return;
    const { wsUrl, random } = this.#options;
    if (wsUrl !== undefined) {
      this.#stopNewHeads = followNewHeads({ url: wsUrl, clock: this.#clock, random, onWake: () => this.poke() });
    }
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    const stopped = new IndexStoppedError("the registry index was stopped");
    this.#stop.abort(stopped);
    this.#stopNewHeads?.();
    this.#wake?.();
    this.#publisher.rejectWaiters(stopped);
    await this.#running;
  }

  current(): Published<D> | undefined {
    return this.#publisher.current;
  }

  subscribe(listener: (published: Published<D>, delta: RegistryDelta) => void): () => void {
    return this.#publisher.subscribe(listener);
  }

  onJobEvent(listener: (event: JobEvent) => void): () => void {
    return this.#publisher.onJobEvent(listener);
  }

  onHead(listener: (head: ChainHead) => void): () => void {
    this.#headListeners.add(listener);
    return () => this.#headListeners.delete(listener);
  }

  async waitForBlock(blockNumber: number, signal?: AbortSignal): Promise<Published<D>> {
    if (this.#stop.signal.aborted) throw abortReason(this.#stop.signal);
    const published = this.#publisher.current;
    if (published === undefined || published.snapshot.blockNumber < blockNumber) this.poke();
    return await this.#publisher.waitFor(blockNumber, signal);
  }

  poke(): void {
    this.#wanted = true;
    // While the node fails, asking it more often would not help it.
    if (this.#failures === 0) this.#wake?.();
  }

  health(): IndexHealth {
    const age = this.#lastLook === undefined ? undefined : this.#clock.monotonic() - this.#lastLook;
    const snapshot = this.#publisher.current?.snapshot;
    return {
      ready: snapshot !== undefined && age !== undefined && age <= (this.#options.staleAfterMs ?? 30_000),
      blockNumber: snapshot?.blockNumber,
      sinceLastPollMs: age,
      lastError: this.#lastError,
      reorganisations: this.#follower.reorganisations,
      drift: this.#drift,
    };
  }

  /** One look after another until stopped. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const stopped = new Promise<false>((resolve) => {
      signal.addEventListener("abort", () => resolve(false), { once: true });
    });
    while (!signal.aborted) {
      this.#wanted = false;
      let delay = this.#pollMs;
      try {
        const look = this.#look();
        // A node that hangs must not hold up the stop; what becomes of this look then is of no interest.
        look.catch(() => undefined);
        const more = await Promise.race([look, stopped]);
        this.#failures = 0;
        this.#lastError = undefined;
        if (more) delay = 0;
      } catch (error) {
        delay = this.#failed(error);
      }
      await this.#pause(delay);
    }
  }

  /** True when there is more to read at once. */
  async #look(): Promise<boolean> {
    const head = await this.#reader.head();
    if (this.#mayLag(head)) return false;
    if (head.hash !== this.#head?.hash) {
      this.#head = head;
      for (const listener of this.#headListeners) this.#guard(() => listener(head));
    }
    this.#timeToLive ??= await this.#pages.timeToLive();
    if (this.#repairWanted && this.#clock.monotonic() >= this.#nextRepair) {
      // One that fails is tried again with the next look, which is put off further after each failure.
      await this.#follower.repair();
      this.#nextRepair = this.#clock.monotonic() + repairEveryMs;
      this.#repairWanted = false;
    }
    await this.#follower.follow(head);
    this.#lastLook = this.#clock.monotonic();
    if (await this.#follower.readHistory()) return true;
    await this.#auditWhenDue();
    return false;
  }

  /**
   * Behind one address often stand several nodes, some a block or two behind the others: going back with them would take events back
   * that stand. Only a head that stays behind is believed.
   */
  #mayLag(head: BlockHeader): boolean {
    if (!this.#follower.isBehind(head)) {
      this.#behindSince = undefined;
      return false;
    }
    const now = this.#clock.monotonic();
    this.#behindSince ??= now;
    return now - this.#behindSince < (this.#options.lagPatienceMs ?? 5000);
  }

  async #auditWhenDue(): Promise<void> {
    const { snapshot } = this.#publisher;
    if (this.#auditEveryMs === 0 || snapshot === undefined || this.#clock.monotonic() < this.#nextAudit) return;
    this.#nextAudit = this.#clock.monotonic() + this.#auditEveryMs;
    const { random, auditSample } = this.#options;
    const drifted = await findDrift({
      reader: this.#reader,
      pages: this.#pages,
      snapshot,
      sampleSize: auditSample ?? 3,
      random,
    });
    if (drifted.length === 0) return;
    this.#drift += drifted.length;
    throw new IndexDriftError(drifted, snapshot.blockNumber);
  }

  /** Notes a failed look; returns how long to wait before the next. */
  #failed(error: unknown): number {
    if (this.#stop.signal.aborted) return 0;
    this.#lastError = nodeMessage(error);
    if (error instanceof IndexInconsistencyError || error instanceof IndexDriftError) this.#repairWanted = true;
    this.#report(error);
    this.#failures += 1;
    // The chain moved while it was read; nothing is wrong with the node.
    if (error instanceof ChainMovedError && this.#failures === 1) return 0;
    return backoffDelay(this.#failures - 1, backoff, this.#options.random);
  }

  async #pause(delayMs: number): Promise<void> {
    if (this.#stop.signal.aborted || (this.#wanted && this.#failures === 0)) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
      const cancel = this.#clock.after(delayMs, wake);
      this.#wake = wake;
    });
  }

  #guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    this.#options.onError?.(error);
  }
}
