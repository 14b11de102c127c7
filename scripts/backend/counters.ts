/** Counts since the start, and what goes on now. A snapshot. */
export interface BackendStats {
  /** Requests for answers that were read and found valid. */
  readonly requests: number;
  /** Requests that hold a slot now. */
  readonly active: number;
  readonly peakActive: number;
  /** Requests that wait for a slot now. */
  readonly waiting: number;
  readonly completed: number;
  /** The client left before its answer was complete. */
  readonly aborted: number;
  /** Broken off by the hook. */
  readonly cut: number;
  /** The engine failed, or there was no slot and no room in the line. */
  readonly failed: number;
  readonly promptTokens: number;
  /** Of `promptTokens`, those that the engine already knew. */
  readonly cachedTokens: number;
  /** Tokens written, whether or not somebody got them. */
  readonly completionTokens: number;
}

/** The counts that only grow, one object per backend. */
export type Counters = { -readonly [Name in Exclude<keyof BackendStats, "active" | "waiting">]: number };

export function createCounters(): Counters {
  return {
    requests: 0,
    peakActive: 0,
    completed: 0,
    aborted: 0,
    cut: 0,
    failed: 0,
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
  };
}
