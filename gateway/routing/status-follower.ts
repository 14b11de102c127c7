import type { Address } from "viem";
import type { ProviderRecord } from "../../chain/registry-index/types.ts";
import type { Clock, Random } from "../../protocol/clock.ts";
import type { MessageDomain } from "../../protocol/messages.ts";
import type { ProviderStatus } from "../../protocol/status.ts";
import type { StatusFault } from "./status-message.ts";
import { statusPaceMs } from "./status-pace.ts";
import { readStatusStream, type StatusTransport } from "./status-stream.ts";

/** Where the follower puts what it learns; `RoutingStatistics` is one. */
export interface StatusSink {
  report(provider: Address, status: ProviderStatus): void;
  forgetReport(provider: Address): void;
  recordRoundTrip(provider: Address, roundTripMs: number): void;
  forgetRoundTrip(provider: Address): void;
}

/** Settings of the follower; all times in ms. */
export interface StatusFollowerOptions {
  readonly transport: StatusTransport;
  readonly sink: StatusSink;
  readonly clock: Clock;
  readonly random: Random;
  readonly domain: MessageDomain;
  /**
   * Connections open at a time; the rest wait for their turn, and nothing is known of them meanwhile but what outlives their status.
   * Default 1,024.
   */
  readonly maxConnections?: number;
  /** Age after which a connection gives its place to one that waits. Default 300,000. */
  readonly turnMs?: number;
  /** Silence after which a connection is given up. Default 30,000: the age at which a status is stale. */
  readonly silenceMs?: number;
  /** First and greatest delay before a reconnect; the real one is random up to it. Default 1,000 and 60,000. */
  readonly reconnectMs?: number;
  readonly maxReconnectMs?: number;
  /** Least time between two checked statuses of one provider: what comes faster is dropped, the newest kept. Default 250. */
  readonly leastIntervalMs?: number;
  /** Statuses checked a second, of all providers together: the more connections, the longer the least time. Default 400. */
  readonly maxChecksPerSecond?: number;
  /** Bytes a second that a provider may send, beside one frame; more ends the connection. Default 65,536. */
  readonly maxBytesPerSecond?: number;
  /** Called with every refused status, for a metric. */
  readonly onRefused?: (provider: Address, fault: StatusFault) => void;
}

/** Counts for metrics. */
export interface StatusFollowerState {
  readonly following: number;
  readonly connected: number;
  readonly waiting: number;
}

const turnIsOver = Symbol("a waiting provider takes the place");

type FollowedProvider = Pick<ProviderRecord, "address" | "operator" | "endpoint">;

/** One followed provider over its connections. */
interface Followed {
  provider: FollowedProvider;
  /** Connections in a row that gave no status. */
  failures: number;
  newestIssuedAt: number;
  abort: AbortController | undefined;
  cancelDelay: (() => void) | undefined;
}

/**
 * Follows the signed status streams of providers: one connection each, a bounded number at a time, reconnecting with jitter. Nothing
 * that a provider sends can make it throw, grow without bound or check signatures faster than the stated interval.
 */
export class StatusFollower {
  readonly #options: Required<Omit<StatusFollowerOptions, "onRefused">> & Pick<StatusFollowerOptions, "onRefused">;
  readonly #followed = new Map<Address, Followed>();
  /** Providers that wait for a place, the one that waited longest first. */
  readonly #queue = new Set<Followed>();
  #open = 0;
  #closed = false;

  constructor(options: StatusFollowerOptions) {
    this.#options = {
      maxConnections: 1024,
      turnMs: 300_000,
      silenceMs: 30_000,
      reconnectMs: 1000,
      maxReconnectMs: 60_000,
      leastIntervalMs: statusPaceMs,
      maxChecksPerSecond: 400,
      maxBytesPerSecond: 65_536,
      ...options,
    };
  }

  /** Follows a provider, or takes note of its new operator or endpoint. After `close` it does nothing. */
  follow(provider: FollowedProvider): void {
    if (this.#closed) return;
    const known = this.#followed.get(provider.address);
    if (known === undefined) {
      const followed = { provider, failures: 0, newestIssuedAt: 0, abort: undefined, cancelDelay: undefined };
      this.#followed.set(provider.address, followed);
      this.#enqueue(followed);
      return;
    }
    const moved = known.provider.endpoint !== provider.endpoint;
    known.provider = provider;
    if (!moved) return;
    // The stream of the old endpoint says nothing of the new one, nor do the way to it and the failures there.
    this.#options.sink.forgetRoundTrip(provider.address);
    known.failures = 0;
    known.abort?.abort();
    if (known.cancelDelay === undefined) return;
    known.cancelDelay();
    this.#comeBack(known, false);
  }

  /** Stops following a provider and forgets what it reported. */
  unfollow(provider: Address): void {
    const followed = this.#followed.get(provider);
    if (followed === undefined) return;
    this.#followed.delete(provider);
    this.#queue.delete(followed);
    followed.cancelDelay?.();
    followed.abort?.abort();
    this.#options.sink.forgetReport(provider);
  }

  /** Follows the live ones and drops the others among the providers that changed. Call with every published snapshot. */
  sync(changed: Iterable<Address>, liveProvider: (address: Address) => FollowedProvider | undefined): void {
    for (const address of changed) {
      const provider = liveProvider(address);
      if (provider === undefined) this.unfollow(address);
      else this.follow(provider);
    }
  }

  get state(): StatusFollowerState {
    return { following: this.#followed.size, connected: this.#open, waiting: this.#queue.size };
  }

  /** Ends every connection and follows nobody any more, whatever snapshots still come. */
  close(): void {
    this.#closed = true;
    for (const provider of this.#followed.keys()) this.unfollow(provider);
  }

  #enqueue(followed: Followed): void {
    this.#queue.add(followed);
    this.#fillPlaces();
  }

  #fillPlaces(): void {
    for (const followed of this.#queue) {
      if (this.#open >= this.#options.maxConnections) return;
      this.#queue.delete(followed);
      this.#open += 1;
      void this.#connect(followed);
    }
  }

  async #connect(followed: Followed): Promise<void> {
    const abort = new AbortController();
    followed.abort = abort;
    const takeTurns = (): (() => void) =>
      this.#options.clock.after(this.#options.turnMs, () => {
        if (this.#queue.size > 0) abort.abort(turnIsOver);
        else cancelTurn = takeTurns();
      });
    let cancelTurn = takeTurns();
    let statuses = 0;
    try {
      await readStatusStream({
        ...this.#options,
        leastIntervalMs: () =>
          Math.max(this.#options.leastIntervalMs, (1000 * this.#open) / this.#options.maxChecksPerSecond),
        provider: () => followed.provider,
        newestIssuedAt: () => followed.newestIssuedAt,
        signal: abort.signal,
        onStatus: (status) => {
          if (abort.signal.aborted) return;
          statuses += 1;
          followed.newestIssuedAt = status.issuedAt;
          this.#options.sink.report(followed.provider.address, status);
        },
        onRefused: (fault) => this.#options.onRefused?.(followed.provider.address, fault),
        onRoundTrip: (ms) => {
          if (!abort.signal.aborted) this.#options.sink.recordRoundTrip(followed.provider.address, ms);
        },
      });
    } catch {
      // Every way for a stream to end leads to the same reconnect; refused statuses were counted one by one.
    } finally {
      cancelTurn();
      followed.abort = undefined;
      this.#open -= 1;
    }
    followed.failures = statuses > 0 ? 0 : followed.failures + 1;
    this.#comeBack(followed, abort.signal.reason === turnIsOver && statuses > 0);
    this.#fillPlaces();
  }

  #comeBack(followed: Followed, atOnce: boolean): void {
    if (this.#followed.get(followed.provider.address) !== followed) return;
    if (atOnce) {
      this.#enqueue(followed);
      return;
    }
    const { reconnectMs, maxReconnectMs, random, clock } = this.#options;
    const ceiling = Math.min(maxReconnectMs, reconnectMs * 2 ** Math.min(followed.failures, 16));
    // Between half and all of the delay: a fleet that lost its gateway does not come back as one wave, nor anyone at once.
    const delayMs = ceiling * (0.5 + 0.5 * random());
    followed.cancelDelay = clock.after(delayMs, () => {
      followed.cancelDelay = undefined;
      this.#enqueue(followed);
    });
  }
}
