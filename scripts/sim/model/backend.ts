import type { Address } from "viem";
import type { ModelStatus, ProviderStatus } from "../../../protocol/status.ts";
import { ModelStatistics, type StreamStatistics } from "../../../provider/statistics/model-statistics.ts";
import type { Simulator } from "../engine/simulator.ts";
import { PrefixCache } from "./prefix-cache.ts";

/** How one backend behaves. Times in ms, rates in tokens per second. */
export interface BackendConfig {
  readonly address: Address;
  readonly region: number;
  readonly slots: number;
  readonly prefillTps: number;
  /** Of one stream alone; with all slots taken it is `1 - crowding` of that. */
  readonly decodeTps: number;
  readonly crowding: number;
  /** Fixed work of a prefill, whatever is cached. */
  readonly overheadMs: number;
  readonly cacheTokens: number;
  /** Whether prefills of concurrent requests wait for one another. */
  readonly sharedPrefill: boolean;
  /** Whether cached tokens are left out of the measured throughput. */
  readonly excludeCached: boolean;
  /** Stands in its status until measured. */
  readonly initialTps: number | undefined;
  /** Whether its status has the maximum: older ones have not. */
  readonly reportsMaximum: boolean;
  /** Factor on all speeds at a time; 1 is healthy. */
  readonly health?: (nowMs: number) => number;
  /** Every request fails after so many ms. */
  readonly failsAfterMs?: number;
}

/** One request as a backend sees it. */
export interface BackendRequest {
  readonly session: number;
  readonly inputTokens: number;
  /** Tokens at the start that another request of the session may have left in the cache. */
  readonly prefixTokens: number;
  readonly outputTokens: number;
}

/** What a backend tells of a request. */
export interface BackendEvents {
  firstToken(cachedTokens: number): void;
  done(): void;
  failed(): void;
}

interface Prefill {
  readonly run: () => void;
  readonly isAborted: () => boolean;
}

export const simModel = "sim/model";

/** A simulated engine behind a provider, measured by the provider's real statistics. */
export class Backend {
  readonly config: BackendConfig;
  readonly #simulator: Simulator;
  readonly #cache: PrefixCache;
  readonly #statistics: ModelStatistics;
  readonly #waiting: Prefill[] = [];
  #prefilling = false;
  #running = 0;
  /** Prompts accepted, since the start. */
  accepted = 0;
  /** Ms of prefill done, and of that for clients who had left when it was done. */
  prefillMs = 0;
  vainPrefillMs = 0;

  constructor(config: BackendConfig, simulator: Simulator) {
    this.config = config;
    this.#simulator = simulator;
    this.#cache = new PrefixCache(config.cacheTokens);
    this.#statistics = new ModelStatistics(simModel, "g1", config.initialTps);
  }

  get running(): number {
    return this.#running;
  }

  /** Takes a request, or refuses it for capacity (undefined). The returned function aborts it. */
  start(request: BackendRequest, events: BackendEvents): (() => void) | undefined {
    if (this.#running >= this.config.slots) return undefined;
    this.#running += 1;
    this.accepted += 1;
    const statistics = this.#statistics.begin(request.inputTokens, this.#simulator.monotonic());
    const stream = { aborted: false, ended: false };
    const leave = (uncached: number | undefined): void => {
      if (stream.ended) return;
      stream.ended = true;
      this.#running -= 1;
      statistics.end(uncached);
    };
    if (this.config.failsAfterMs === undefined) this.#enqueue(request, events, statistics, stream, leave);
    else {
      this.#simulator.after(this.config.failsAfterMs, () => {
        if (stream.ended) return;
        leave(undefined);
        events.failed();
      });
    }
    return () => {
      stream.aborted = true;
      leave(undefined);
    };
  }

  /** The provider's status as it would sign it now. */
  status(): ProviderStatus {
    const { maxInputTps, ...rest } = this.#statistics.read();
    const model: ModelStatus =
      this.config.reportsMaximum && maxInputTps !== undefined ? { ...rest, maxInputTps } : rest;
    return {
      provider: this.config.address,
      issuedAt: this.#simulator.now(),
      draining: false,
      maxConcurrentJobs: this.config.slots,
      running: this.#running,
      models: [model],
    };
  }

  #enqueue(
    request: BackendRequest,
    events: BackendEvents,
    statistics: StreamStatistics,
    stream: { readonly aborted: boolean; readonly ended: boolean },
    leave: (uncached: number | undefined) => void,
  ): void {
    const run = (): void => {
      const cached = Math.min(request.prefixTokens, this.#cache.touch(request.session));
      const uncached = request.inputTokens - cached;
      const workMs = (this.config.overheadMs + (1000 * uncached) / this.config.prefillTps) / this.#health();
      this.#simulator.after(workMs, () => {
        this.prefillMs += workMs;
        if (stream.aborted) this.vainPrefillMs += workMs;
        if (this.config.sharedPrefill) this.#nextPrefill();
        this.#cache.put(request.session, request.inputTokens + request.outputTokens);
        if (stream.aborted) return;
        statistics.firstOutput(this.#simulator.monotonic());
        events.firstToken(cached);
        this.#simulator.after(this.#decodeMs(request.outputTokens), () => {
          if (stream.ended) return;
          leave(this.config.excludeCached ? uncached : request.inputTokens);
          events.done();
        });
      });
    };
    if (!this.config.sharedPrefill) {
      run();
      return;
    }
    this.#waiting.push({ run, isAborted: () => stream.aborted });
    if (!this.#prefilling) this.#nextPrefill();
  }

  #nextPrefill(): void {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (next.isAborted()) continue;
      this.#prefilling = true;
      next.run();
      return;
    }
    this.#prefilling = false;
  }

  #decodeMs(tokens: number): number {
    const rate = this.config.decodeTps * (1 - (this.config.crowding * this.#running) / this.config.slots);
    return (1000 * tokens) / (rate * this.#health());
  }

  #health(): number {
    return this.config.health?.(this.#simulator.now()) ?? 1;
  }
}
