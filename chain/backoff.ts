import type { Random } from "../protocol/clock.ts";

/** Bounds of a growing delay, milliseconds. */
export interface BackoffBounds {
  readonly baseMs: number;
  readonly maxMs: number;
}

/**
 * Delay before retry number `attempt` (0 = the first retry): doubles up to the bound, then a random share between half and all of
 * it, so that clients that failed together do not come back together.
 */
export function backoffDelay(attempt: number, bounds: BackoffBounds, random: Random): number {
  const ceiling = Math.min(bounds.maxMs, bounds.baseMs * 2 ** Math.min(attempt, 30));
  return ceiling * (0.5 + 0.5 * random());
}
