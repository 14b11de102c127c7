import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { ProviderJob } from "../settlement/job.ts";
import { type JobBook, JobConflictError } from "../settlement/job-book.ts";

/** How a stream's end changes its job; undefined leaves it. */
export type StreamEnd = (job: ProviderJob) => ProviderJob | undefined;

/** Options of `StreamEnds`. */
export interface StreamEndsOptions {
  readonly book: JobBook;
  readonly clock: Clock;
  /** Told of each failed attempt to write. */
  readonly onError: (error: unknown) => void;
}

interface WaitingEnd {
  readonly end: StreamEnd;
  failures: number;
  cancel: () => void;
}

/** Pause after a failed write: doubles from the first to the last. */
const firstPauseMs = 500;
const lastPauseMs = 15_000;

/**
 * Writes how streams ended. A journal that cannot be written for a while, such as on a full disk, delays an end and loses none: it is
 * tried again until it is in, as the job would else hold its slot and run into its deadline.
 */
export class StreamEnds {
  readonly #options: StreamEndsOptions;
  readonly #waiting = new Map<Hex, WaitingEnd>();
  #isStopped = false;

  constructor(options: StreamEndsOptions) {
    this.#options = options;
  }

  /** Writes an end; resolves once it is durable, or waits for the journal to take it. Never rejects. */
  async write(jobId: Hex, end: StreamEnd): Promise<void> {
    this.#waiting.set(jobId, { end, failures: 0, cancel: () => undefined });
    await this.flush(jobId).catch(() => undefined);
  }

  /** Whether a job's stream has ended, and the journal has not taken its end yet. */
  isWaiting(jobId: Hex): boolean {
    return this.#waiting.has(jobId);
  }

  /** Tries once more to write all that waits. Never rejects: what still cannot be written goes on waiting. */
  async flushAll(): Promise<void> {
    await Promise.allSettled([...this.#waiting.keys()].map(async (jobId) => await this.flush(jobId)));
  }

  /** Tries to write now what waits for a job. Rejects with the journal's error when it still cannot be written. */
  async flush(jobId: Hex): Promise<void> {
    const waiting = this.#waiting.get(jobId);
    if (waiting === undefined) return;
    waiting.cancel();
    try {
      await this.#options.book.change(jobId, waiting.end);
      this.#waiting.delete(jobId);
    } catch (error) {
      this.#options.onError(error);
      // Another process has the job: writing over it would lose what that one knows.
      if (error instanceof JobConflictError) this.#waiting.delete(jobId);
      else this.#retry(jobId, waiting);
      throw error;
    }
  }

  /** Gives up what waits; the next process takes it up from the last checkpoint. */
  stop(): void {
    this.#isStopped = true;
    for (const { cancel } of this.#waiting.values()) cancel();
  }

  #retry(jobId: Hex, waiting: WaitingEnd): void {
    if (this.#isStopped) return;
    const pauseMs = Math.min(lastPauseMs, firstPauseMs * 2 ** Math.min(waiting.failures, 20));
    waiting.failures += 1;
    waiting.cancel = this.#options.clock.after(pauseMs, () => {
      this.flush(jobId).catch(() => undefined);
    });
  }
}
