import type { Clock } from "../protocol/clock.ts";

/** The longest delay that Node's timers take; a longer one would fire at once. */
const longestDelayMs = 2_147_483_647;

/** Real time. Its timers keep the process alive until they fire or are cancelled. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs: number, callback: () => void): () => void {
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs), longestDelayMs));
    return () => clearTimeout(timer);
  },
});
