import type { Clock } from "../../../protocol/clock.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

/** A clock that stands still until it is told to go on. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000;
  #monotonic = 0;
  #order = 0;
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer: Timer = { at: this.#monotonic + Math.max(0, delayMs), order: this.#order++, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Timers that would still fire. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Lets time pass, firing timers in order, also those that they start. */
  advance(ms: number): void {
    const end = this.#monotonic + ms;
    for (;;) {
      const due = [...this.#timers]
        .filter((timer) => timer.at <= end)
        .toSorted((a, b) => a.at - b.at || a.order - b.order)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#go(due.at);
      due.callback();
    }
    this.#go(end);
  }

  #go(to: number): void {
    this.#now += to - this.#monotonic;
    this.#monotonic = to;
  }
}
