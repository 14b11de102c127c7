import type { Address } from "viem";
import type { TraceRequest } from "./trace.ts";

/** What happened in one stretch of a run. */
export interface Window {
  readonly ttftMs: number[];
  readonly e2eMs: number[];
  arrived: number;
  completed: number;
  failures: number;
  /** Attempts beyond the first. */
  retries: number;
  cachedTokens: number;
  prefixTokens: number;
}

/** Takes down what happens in a run; latencies count from the scheduled arrival. */
export class RunRecorder {
  readonly windows: Window[];
  readonly #ends: readonly number[];
  readonly shares = new Map<Address, number>();
  readonly ttftOf = new Map<Address, number[]>();
  readonly failureCauses = new Map<string, number>();
  readonly faults = new Map<Address, number>();
  waits = 0;

  /** @param ends Ends of the windows, ms; a request belongs to the window of its arrival. */
  constructor(ends: readonly number[]) {
    this.#ends = ends;
    this.windows = ends.map(() => ({
      ttftMs: [],
      e2eMs: [],
      arrived: 0,
      completed: 0,
      failures: 0,
      retries: 0,
      cachedTokens: 0,
      prefixTokens: 0,
    }));
  }

  arrived(request: TraceRequest): void {
    this.#windowOf(request).arrived += 1;
  }

  firstToken(request: TraceRequest, nowMs: number, cachedTokens: number, provider: Address): void {
    const window = this.#windowOf(request);
    const ttftMs = nowMs - request.atMs;
    window.ttftMs.push(ttftMs);
    window.cachedTokens += cachedTokens;
    window.prefixTokens += request.prefixTokens;
    this.shares.set(provider, (this.shares.get(provider) ?? 0) + 1);
    const list = this.ttftOf.get(provider);
    if (list === undefined) this.ttftOf.set(provider, [ttftMs]);
    else list.push(ttftMs);
  }

  done(request: TraceRequest, nowMs: number): void {
    const window = this.#windowOf(request);
    window.completed += 1;
    window.e2eMs.push(nowMs - request.atMs);
  }

  failed(request: TraceRequest, cause: string): void {
    this.#windowOf(request).failures += 1;
    this.failureCauses.set(cause, (this.failureCauses.get(cause) ?? 0) + 1);
  }

  retried(request: TraceRequest): void {
    this.#windowOf(request).retries += 1;
  }

  /** Attempts beyond the first, of all requests. */
  get retries(): number {
    return this.windows.reduce((sum, window) => sum + window.retries, 0);
  }

  waited(): void {
    this.waits += 1;
  }

  faulted(provider: Address): void {
    this.faults.set(provider, (this.faults.get(provider) ?? 0) + 1);
  }

  #windowOf(request: TraceRequest): Window {
    let index = 0;
    while (index < this.#ends.length - 1 && request.atMs >= (this.#ends[index] as number)) index += 1;
    return this.windows[index] as Window;
  }
}
