import type { Hex } from "viem";
import type { TransactionQueue } from "../../chain/transactions/types.ts";
import type { JobReader } from "../escrow/job-reader.ts";
import type { ProviderJob } from "./job.ts";
import { type RecoveryParts, recoverStream } from "./recover.ts";
import { isEndUndone, reopened } from "./reopen.ts";
import { settlementKey } from "./settlement-calls.ts";

/** Options of `EndCheck`. */
export interface EndCheckOptions extends RecoveryParts {
  readonly reader: JobReader;
  readonly queue: Pick<TransactionQueue, "isPending">;
  /** How far chain time runs ahead of the clock, ms. */
  readonly aheadMs: () => number;
  /** Whether the job's stream runs in this process. */
  readonly isLive: (jobId: Hex) => boolean;
  /** Told of each job whose end the chain has taken back. */
  readonly onReopened: (job: ProviderJob) => void;
}

/** Jobs that are read at once. */
const readsAtOnce = 16;

/** Holds the ends in the book against the chain after a reorganisation, and opens the jobs again whose end is gone. */
export class EndCheck {
  readonly #options: EndCheckOptions;

  constructor(options: EndCheckOptions) {
    this.#options = options;
  }

  /**
   * Checks every job that ended above a block. Rejects when the chain or the journal cannot be asked; what was opened until then stays
   * so, and the next call goes on.
   */
  async endsAbove(block: number): Promise<void> {
    const doubtful = await this.#options.book.endedAbove(block);
    for (let at = 0; at < doubtful.length; at += readsAtOnce) {
      await Promise.all(doubtful.slice(at, at + readsAtOnce).map(async (job) => await this.#check(job)));
    }
  }

  async #check({ jobId }: ProviderJob): Promise<void> {
    const { reader, book, clock, aheadMs, isLive, onReopened } = this.#options;
    const onChain = await reader.read(jobId);
    const result = await book.change(jobId, (job) =>
      isEndUndone(job, onChain, clock.now() + aheadMs()) ? this.#reopen(job) : undefined,
    );
    if (result?.changed !== true) return;
    onReopened(result.job);
    if (!isLive(jobId)) await recoverStream(this.#options, jobId, "reorganised");
  }

  /** A transaction that the queue still looks after is waited for, not sent a second time. */
  #reopen(job: ProviderJob): ProviderJob {
    const own = { key: settlementKey(job, "complete"), action: "complete" } as const;
    const transaction = job.transaction ?? (job.receipt === undefined ? undefined : own);
    if (transaction === undefined || !this.#options.queue.isPending(transaction.key)) return reopened(job);
    return { ...reopened(job), attempts: job.attempts, stage: "settling", transaction };
  }
}
