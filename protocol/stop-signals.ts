import type { Clock } from "./clock.ts";

/** Signals by which a process is asked to stop. */
export const stopSignals = ["SIGINT", "SIGTERM"] as const;

/** Where signals come from: a process. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
}

/** What to do when a process is asked to stop. */
export interface StopHandlers {
  /** At the first signal. */
  stop(): void;
  /** At a later one: somebody will not wait. */
  stopAtOnce(): void;
}

/** Signals within this time, in ms, are one wish: a terminal tells every process of its group, and npm tells its child once more. */
const sameWishMs = 500;

/** Listens for SIGINT and SIGTERM, and for more signals where they are named. */
export function onStopSignals(
  source: SignalSource,
  clock: Pick<Clock, "monotonic">,
  handlers: StopHandlers,
  signals: readonly NodeJS.Signals[] = stopSignals,
): void {
  let firstAt: number | undefined;
  const heard = (): void => {
    if (firstAt === undefined) {
      firstAt = clock.monotonic();
      handlers.stop();
    } else if (clock.monotonic() - firstAt >= sameWishMs) {
      handlers.stopAtOnce();
    }
  };
  for (const signal of signals) source.on(signal, heard);
}
