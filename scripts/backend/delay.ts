import type { Clock } from "../../protocol/clock.ts";

/** Waits by the given clock; at most 0 = not at all. Throws the signal's reason when it fires first. */
export async function delay(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (milliseconds <= 0) return;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = clock.after(milliseconds, resolve);
  const abort = () => {
    cancel();
    reject(signal.reason);
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
