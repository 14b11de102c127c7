/** A source of time that can be passed in, so that policies and timers are tested without sleeping. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds that only grow, for durations. */
  monotonic(): number;
  /** Calls back once after `delayMs`; the returned function cancels and may be called at any time. */
  after(delayMs: number, callback: () => void): () => void;
}

/** A source of uniform numbers in [0, 1). */
export type Random = () => number;
