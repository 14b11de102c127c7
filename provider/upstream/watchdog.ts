import type { Clock } from "../../protocol/clock.ts";

/** Calls back when nothing was heard for a time. One timer serves any number of touches, so that a token costs no timer. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onSilence: () => void;
  #limitMs: number;
  #lastMs: number;
  #cancel: (() => void) | undefined;

  /** Starts at once. */
  constructor(clock: Clock, limitMs: number, onSilence: () => void) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onSilence = onSilence;
    this.#lastMs = clock.monotonic();
    this.#arm(limitMs);
  }

  /** Something was heard. */
  touch(): void {
    this.#lastMs = this.#clock.monotonic();
  }

  /** Starts anew with another limit. */
  restart(limitMs: number): void {
    this.#limitMs = limitMs;
    this.touch();
    this.#arm(limitMs);
  }

  /** No call back any more, until `restart`. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(delayMs: number): void {
    this.stop();
    this.#cancel = this.#clock.after(delayMs, () => {
      const leftMs = this.#lastMs + this.#limitMs - this.#clock.monotonic();
      if (leftMs > 0) this.#arm(leftMs);
      else {
        this.#cancel = undefined;
        this.#onSilence();
      }
    });
  }
}
