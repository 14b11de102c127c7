import type { Hex } from "viem";
import type { AbortCause, RunAbort } from "../upstream/answer.ts";

/** A job whose stream runs in this process. */
interface LiveJob {
  readonly abort: RunAbort;
  readonly ended: Promise<void>;
}

/** The jobs that run in this process now. */
export class LiveJobs {
  readonly #jobs = new Map<Hex, LiveJob>();

  /** Number of running jobs. */
  get size(): number {
    return this.#jobs.size;
  }

  /** Whether a job's stream runs here. */
  has(jobId: Hex): boolean {
    return this.#jobs.has(jobId);
  }

  /** Registers a run; the returned function ends it. */
  add(jobId: Hex, abort: RunAbort): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#jobs.set(jobId, { abort, ended: promise });
    return () => {
      this.#jobs.delete(jobId);
      resolve();
    };
  }

  /** Resolves when the job does not run here, at once when it does not now. */
  async ended(jobId: Hex): Promise<void> {
    await this.#jobs.get(jobId)?.ended;
  }

  /** Resolves when nothing runs any more. */
  async allEnded(): Promise<void> {
    while (this.#jobs.size > 0) await Promise.all([...this.#jobs.values()].map(async (job) => await job.ended));
  }

  /** Ends every run. */
  abortAll(cause: AbortCause): void {
    for (const job of this.#jobs.values()) job.abort.abort(cause);
  }
}
