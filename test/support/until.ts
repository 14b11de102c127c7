import { setTimeout as delay } from "node:timers/promises";

/**
 * Waits until a condition of the world outside holds (a process, a chain); rejects with `what` when it does not in time.
 *
 * @param everyMs Pause between two probes; longer for a probe that costs what it watches.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  timeoutMs = 10_000,
  everyMs = 5,
): Promise<NonNullable<T>> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== null && value !== false) return value;
    if (performance.now() > end) throw new Error(`timed out after ${timeoutMs} ms: ${what}`);
    await delay(everyMs);
  }
}
