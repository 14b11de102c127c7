import type { Clock } from "../../protocol/clock.ts";

/** Real time. Its timers keep the process alive until they fire or are cancelled. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs: number, callback: () => void): () => void {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
});
