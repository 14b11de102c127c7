import type { Clock } from "../../../protocol/clock.ts";

/** Runs events in the order of their times; events of one time in the order in which they were planned. The simulated clock stands still between them. */
export class Simulator implements Clock {
  readonly #times: number[] = [];
  readonly #orders: number[] = [];
  readonly #events: (() => void)[] = [];
  #nowMs = 0;
  #planned = 0;

  now(): number {
    return this.#nowMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  /** Plans an event; the returned function cancels it. */
  after(delayMs: number, callback: () => void): () => void {
    let cancelled = false;
    this.at(this.#nowMs + delayMs, () => {
      if (!cancelled) callback();
    });
    return () => {
      cancelled = true;
    };
  }

  /** Plans an event that is never cancelled. */
  at(timeMs: number, event: () => void): void {
    const order = this.#planned;
    this.#planned += 1;
    let at = this.#times.length;
    this.#times.push(timeMs);
    this.#orders.push(order);
    this.#events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(timeMs, order, parent)) break;
      this.#copy(parent, at);
      at = parent;
    }
    this.#set(at, timeMs, order, event);
  }

  /** Runs all events up to a time. */
  runUntil(timeMs: number): void {
    while (this.#times.length > 0 && (this.#times[0] as number) <= timeMs) {
      this.#nowMs = this.#times[0] as number;
      this.#pop()();
    }
    this.#nowMs = timeMs;
  }

  #pop(): () => void {
    const least = this.#events[0] as () => void;
    const time = this.#times.pop() as number;
    const order = this.#orders.pop() as number;
    const event = this.#events.pop() as () => void;
    if (this.#times.length === 0) return least;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.#times.length) break;
      const right = child + 1;
      if (
        right < this.#times.length &&
        this.#isBefore(this.#times[right] as number, this.#orders[right] as number, child)
      ) {
        child = right;
      }
      if (this.#isBefore(time, order, child)) break;
      this.#copy(child, at);
      at = child;
    }
    this.#set(at, time, order, event);
    return least;
  }

  #isBefore(time: number, order: number, other: number): boolean {
    const otherTime = this.#times[other] as number;
    return time === otherTime ? order < (this.#orders[other] as number) : time < otherTime;
  }

  #copy(from: number, to: number): void {
    this.#set(to, this.#times[from] as number, this.#orders[from] as number, this.#events[from] as () => void);
  }

  #set(at: number, time: number, order: number, event: () => void): void {
    this.#times[at] = time;
    this.#orders[at] = order;
    this.#events[at] = event;
  }
}
