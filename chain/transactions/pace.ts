import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";
import { sleep } from "../sleep.ts";

/** The queue was closed; journaled intents go on at the next start. */
export class QueueClosedError extends Error {
  override readonly name = "QueueClosedError";
}

const minRetryMs = 50;
const maxRetryMs = 5000;

/** How long the work of a queue may go on: until its caller's time is up, or the queue is closed. */
export class Pace {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #closed = new AbortController();

  constructor(options: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = options.clock;
    this.#random = options.random;
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted;
  }

  /** Ends every pause; what asks from now on is told that the queue is closed. */
  close(): void {
    if (!this.isClosed) this.#closed.abort(new QueueClosedError("the transaction queue is closed"));
  }

  /** Throws `QueueClosedError` once the queue is closed. */
  throwIfClosed(): void {
    this.#closed.signal.throwIfAborted();
  }

  /** Monotonic ms at which `withinMs` from now is up; undefined where there is no limit. */
  until(withinMs: number | undefined): number | undefined {
    return withinMs === undefined ? undefined : this.#clock.monotonic() + withinMs;
  }

  /** Whether a time that `until` gave is up. */
  isLate(until: number | undefined): boolean {
    return until !== undefined && this.#clock.monotonic() >= until;
  }

  /** Waits before try `attempt + 2`, longer each time. Rejects with `QueueClosedError` as soon as the queue is closed. */
  async retryPause(attempt: number): Promise<void> {
    await sleep(
      this.#clock,
      backoffDelay(attempt, { baseMs: minRetryMs, maxMs: maxRetryMs }, this.#random),
      this.#closed.signal,
    );
  }
}
