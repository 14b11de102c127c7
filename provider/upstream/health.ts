import type { Clock } from "../../protocol/clock.ts";

/** What a probe found. */
export type ProbeResult =
  | {
      readonly healthy: true;
      /** Changes when the engine restarts; undefined when the backend does not tell. */
      readonly process: string | undefined;
      /** Changes when the models that it serves change; undefined when the backend does not tell. */
      readonly models: string | undefined;
    }
  | { readonly healthy: false; readonly reason: string };

/** Rhythm of the probes, in ms. */
export interface ProbeRhythm {
  readonly healthyMs: number;
  /** First re-probe after a failure; doubles up to `suspectMaxMs`. */
  readonly suspectMs: number;
  readonly suspectMaxMs: number;
}

export const defaultProbeRhythm: ProbeRhythm = { healthyMs: 5_000, suspectMs: 250, suspectMaxMs: 5_000 };

/**
 * Health of one backend: probed now and then, and marked down at once by a connection error of a real request, so that a slow death
 * is not waited for. While down it is probed quickly.
 */
export class BackendHealth {
  readonly #clock: Clock;
  readonly #probe: () => Promise<ProbeResult>;
  readonly #rhythm: ProbeRhythm;
  readonly #changed: () => void;
  #state: "unknown" | "healthy" | "down" = "unknown";
  #reason: string | undefined;
  #process: string | undefined;
  #models: string | undefined;
  #epoch = 0;
  #failures = 0;
  #cancel: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  /** @param changed Called after each change of state or epoch. */
  constructor(
    clock: Clock,
    probe: () => Promise<ProbeResult>,
    changed: () => void,
    rhythm: ProbeRhythm = defaultProbeRhythm,
  ) {
    this.#clock = clock;
    this.#probe = probe;
    this.#changed = changed;
    this.#rhythm = rhythm;
  }

  /** True after a good probe or answer; false before the first probe. */
  get isHealthy(): boolean {
    return this.#state === "healthy";
  }

  /** True once a probe or a connection failed, until one works. */
  get isDown(): boolean {
    return this.#state === "down";
  }

  /** Why it is down. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Grows whenever another backend process or model set answers than before. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Probes now and goes on; resolves after the first probe. */
  async start(): Promise<void> {
    await this.probeNow();
  }

  /** Ends the probing. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  /** A request could not reach the backend. */
  connectionFailed(reason: string): void {
    this.#down(reason);
    this.#schedule(this.#rhythm.suspectMs);
  }

  /** Probes at once; probes that run together share one call. */
  async probeNow(): Promise<void> {
    this.#running ??= this.#probeOnce().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async #probeOnce(): Promise<void> {
    this.#cancel();
    let result: ProbeResult;
    try {
      result = await this.#probe();
    } catch {
      result = { healthy: false, reason: "the probe failed" };
    }
    if (this.#stopped) return;
    if (result.healthy) {
      this.#up(result);
      this.#schedule(this.#rhythm.healthyMs);
    } else {
      this.#down(result.reason);
      const delay = Math.min(this.#rhythm.suspectMaxMs, this.#rhythm.suspectMs * 2 ** Math.min(this.#failures - 1, 20));
      this.#schedule(delay);
    }
  }

  #up(found: ProbeResult & { readonly healthy: true }): void {
    const before = this.#state;
    // Where a process does not say who it is, one that was down is taken for another: a wrong reset only costs samples.
    const restarted = found.process === undefined ? before === "down" : differs(this.#process, found.process);
    const replaced = restarted || differs(this.#models, found.models);
    this.#process = found.process ?? this.#process;
    this.#models = found.models ?? this.#models;
    this.#failures = 0;
    this.#reason = undefined;
    this.#state = "healthy";
    if (replaced) this.#epoch += 1;
    if (before !== "healthy" || replaced) this.#changed();
  }

  #down(reason: string): void {
    this.#failures += 1;
    this.#reason = reason;
    if (this.#state === "down") return;
    this.#state = "down";
    this.#changed();
  }

  #schedule(delayMs: number): void {
    this.#cancel();
    if (this.#stopped) return;
    this.#cancel = this.#clock.after(delayMs, () => {
      void this.probeNow();
    });
  }
}

/** Whether both are known and not the same. */
function differs(before: string | undefined, now: string | undefined): boolean {
  return before !== undefined && now !== undefined && before !== now;
}
