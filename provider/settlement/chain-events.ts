import { type Address, encodeFunctionData, type Hex } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { TransactionQueue } from "../../chain/transactions/types.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { JobEvent } from "../escrow/event-follower.ts";
import type { ProviderJob } from "./job.ts";
import type { JobBook } from "./job-book.ts";
import type { Settler } from "./settler.ts";

/** Options of `ChainEvents`. */
export interface ChainEventsOptions {
  readonly book: JobBook;
  readonly settler: Settler;
  readonly queue: TransactionQueue;
  readonly escrow: Address;
  readonly clock: Clock;
  /** Whether the job's stream runs in this process. */
  readonly isLive: (jobId: Hex) => boolean;
  readonly isDraining: () => boolean;
  readonly onError: (error: unknown) => void;
}

/** Takes the escrow's events into the book. Each may come twice. */
export class ChainEvents {
  readonly #options: ChainEventsOptions;

  constructor(options: ChainEventsOptions) {
    this.#options = options;
  }

  /** Takes one event; its effects are durable when it resolves. */
  async take(event: JobEvent): Promise<void> {
    const { settler } = this.#options;
    switch (event.kind) {
      case "posted":
        await this.#posted(event);
        return;
      case "cancel_requested":
        await this.#cancelRequested(event.jobId);
        return;
      case "completed":
        await settler.completed(event.jobId, event.payment, event.transactionHash, event.block);
        return;
      case "declined":
        await settler.declined(event.jobId, event.transactionHash, event.block);
        return;
      default:
        await settler.lost(event.jobId, event.kind, event.block);
    }
  }

  async #posted(event: JobEvent & { readonly kind: "posted" }): Promise<void> {
    const { book, clock, isDraining } = this.#options;
    const job: ProviderJob = {
      jobId: event.jobId,
      stage: isDraining() ? "declining" : "posted",
      client: event.client,
      // Prices come with admission, which reads the job; nothing is claimed before.
      inputPrice: "0",
      outputPrice: "0",
      maxPayment: String(event.maxPayment),
      unsignedLimit: String(event.unsignedLimit),
      deadline: event.deadline,
      seenAt: clock.now(),
      attempts: 0,
    };
    await book.insert(job);
  }

  /** The client wants its money back: given at once for what was not begun, claimed for what was delivered, refused while we work. */
  async #cancelRequested(jobId: Hex): Promise<void> {
    const { book, isLive } = this.#options;
    const result = await book.change(jobId, (job) => {
      if (job.stage === "posted") return { ...job, stage: "declining", reason: "cancel_requested" };
      // A stream that has ended without its end being written yet is claimed as soon as it is.
      const isOver = job.stage === "delivered" || (job.stage === "accepted" && !isLive(jobId));
      return isOver && job.claimNow !== true ? { ...job, claimNow: true } : undefined;
    });
    if (result?.job.stage === "accepted" && isLive(jobId)) this.#showWork(jobId);
  }

  #showWork(jobId: Hex): void {
    const { queue, escrow, onError } = this.#options;
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "ackJob", args: [jobId] });
    queue.submit({ key: `ack:${jobId}`, to: escrow, data, kind: "ackJob" }).then(
      (outcome) => {
        if (outcome.status !== "success") onError(new Error(`ackJob was ${outcome.status}: ${outcome.message}`));
      },
      (error: unknown) => onError(error),
    );
  }
}
