import type { Address } from "viem";
import type { ProviderRecord } from "../../chain/registry-index/types.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { MessageDomain } from "../../protocol/messages.ts";
import { SseSplitter } from "../../protocol/sse.ts";
import type { ProviderStatus } from "../../protocol/status.ts";
import { readSignedStatus, type StatusFault, StatusRejectedError } from "./status-message.ts";

/** An open status stream. */
export interface OpenStatusStream {
  readonly body: AsyncIterable<Uint8Array>;
  /** Newest measured round trip to the provider in ms (a TCP handshake, say), undefined while the client knows none. */
  readonly roundTripMs?: () => number | undefined;
}

/**
 * The HTTP client that status streams are read through. It must apply the gateway's endpoint guard (no private addresses, no
 * redirects) and reject when the answer is not a 200 with `text/event-stream`. The body ends or throws when `signal` aborts.
 */
export interface StatusTransport {
  open(request: {
    readonly provider: Address;
    readonly url: string;
    readonly signal: AbortSignal;
  }): Promise<OpenStatusStream>;
}

/** A provider sent more than it may. */
export class StatusFloodError extends Error {
  override readonly name = "StatusFloodError";
}

const maxFrameBytes = 128 * 1024;

/** What one connection needs. Times in ms; see `StatusFollowerOptions`. */
export interface StatusStreamOptions {
  readonly transport: StatusTransport;
  readonly clock: Clock;
  readonly domain: MessageDomain;
  readonly silenceMs: number;
  /** Asked after each check. */
  leastIntervalMs(): number;
  readonly maxBytesPerSecond: number;
  /** The record as it is now: an operator that rotates is believed from the next status on. */
  provider(): Pick<ProviderRecord, "address" | "operator" | "endpoint">;
  newestIssuedAt(): number;
  readonly signal: AbortSignal;
  onStatus(status: ProviderStatus): void;
  onRefused(fault: StatusFault): void;
  onRoundTrip(roundTripMs: number): void;
}

/** Reads one connection until it ends, is silent for too long, floods, or is aborted. Rejects with the cause. */
export async function readStatusStream(options: StatusStreamOptions): Promise<void> {
  const { clock, transport, silenceMs } = options;
  const abort = new AbortController();
  const stop = () => abort.abort();
  options.signal.addEventListener("abort", stop, { once: true });
  const checker = new NewestFirstChecker(options);
  const limit = new ByteBudget(options.maxBytesPerSecond, clock);
  const watchSilence = () => clock.after(silenceMs, stop);
  let cancelSilence = watchSilence();
  try {
    if (options.signal.aborted) return;
    const { address, endpoint } = options.provider();
    const url = `${endpoint.replace(/\/+$/, "")}/v1/status/events`;
    const stream = await transport.open({ provider: address, url, signal: abort.signal });
    const splitter = new SseSplitter(maxFrameBytes);
    for await (const chunk of stream.body) {
      limit.take(chunk.length);
      const statuses = splitter.push(chunk).filter(({ event, data }) => event === "status" && data !== undefined);
      const newest = statuses.at(-1)?.data;
      if (newest === undefined) continue;
      cancelSilence();
      cancelSilence = watchSilence();
      checker.offer(newest);
      const roundTripMs = stream.roundTripMs?.();
      if (roundTripMs !== undefined) options.onRoundTrip(roundTripMs);
    }
  } finally {
    cancelSilence();
    checker.stop();
    options.signal.removeEventListener("abort", stop);
    abort.abort();
  }
}

/** Checks the newest status at most once per interval: older ones that came meanwhile are skipped, so none is ever late. */
class NewestFirstChecker {
  readonly #options: StatusStreamOptions;
  #waiting: string | undefined;
  #resting = false;
  #cancelRest: (() => void) | undefined;

  constructor(options: StatusStreamOptions) {
    this.#options = options;
  }

  offer(text: string): void {
    this.#waiting = text;
    if (!this.#resting) this.#check();
  }

  stop(): void {
    this.#cancelRest?.();
  }

  #check(): void {
    const text = this.#waiting;
    if (text === undefined) return;
    this.#waiting = undefined;
    this.#resting = true;
    const options = this.#options;
    try {
      const { address, operator } = options.provider();
      const status = readSignedStatus(text, {
        domain: options.domain,
        provider: address,
        operator,
        nowMs: options.clock.now(),
        newerThan: options.newestIssuedAt(),
      });
      options.onStatus(status);
    } catch (error) {
      if (!(error instanceof StatusRejectedError)) throw error;
      options.onRefused(error.fault);
    }
    this.#cancelRest = options.clock.after(options.leastIntervalMs(), () => {
      this.#resting = false;
      this.#check();
    });
  }
}

/** One frame at once, then so many bytes a second. */
class ByteBudget {
  readonly #perSecond: number;
  readonly #clock: Pick<Clock, "monotonic">;
  #left: number = maxFrameBytes;
  #atMs: number;

  constructor(perSecond: number, clock: Pick<Clock, "monotonic">) {
    this.#perSecond = perSecond;
    this.#clock = clock;
    this.#atMs = clock.monotonic();
  }

  take(bytes: number): void {
    const nowMs = this.#clock.monotonic();
    this.#left = Math.min(maxFrameBytes, this.#left + ((nowMs - this.#atMs) * this.#perSecond) / 1000) - bytes;
    this.#atMs = nowMs;
    if (this.#left < 0) throw new StatusFloodError("a provider's status stream sends too much");
  }
}
