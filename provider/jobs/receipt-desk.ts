import type { Hex } from "viem";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import type { Clock } from "../../protocol/clock.ts";
import { receiptDigest } from "../../protocol/message-digest.ts";
import { decodeDelivered, type UsageStatementWire } from "../../protocol/wire.ts";
import type { ClientSignatures } from "../admission/client-signature.ts";
import { ProviderError } from "../errors.ts";
import type { Delivery, ProviderJob, SignedReceipt } from "../settlement/job.ts";
import type { JobBook } from "../settlement/job-book.ts";
import { receiptPayment } from "../settlement/next-step.ts";
import { judgeReceipt } from "../settlement/receipts.ts";
import type { ProviderSigner } from "../signer.ts";
import type { LiveJobs } from "./live-jobs.ts";
import type { StreamEnds } from "./stream-ends.ts";

/** Options of `ReceiptDesk`. */
export interface ReceiptDeskOptions {
  readonly book: JobBook;
  readonly live: LiveJobs;
  readonly ends: StreamEnds;
  readonly signatures: ClientSignatures;
  readonly signer: ProviderSigner;
  readonly clock: Clock;
}

/** How long a receipt that overtook the end of its stream waits for it: a gateway that cuts a stream signs at once. */
const patienceMs = 3_000;

/** Takes clients' receipts. */
export class ReceiptDesk {
  readonly #options: ReceiptDeskOptions;

  constructor(options: ReceiptDeskOptions) {
    this.#options = options;
  }

  /**
   * Takes a receipt; durable when it resolves. The same receipt again is no error.
   *
   * @throws ProviderError: `invalid_request`, `job_not_found`, `job_not_open`, `invalid_receipt`, or `receipt_below_usage` with our
   * statement. A receipt that is too low is kept, to be settled if nothing better comes.
   */
  async take(jobId: Hex, text: string): Promise<ProviderJob> {
    const { book, live, ends, clock } = this.#options;
    const decoded = decodeDelivered(text);
    if (decoded === undefined) throw new ProviderError("invalid_request", "the body is no receipt");
    const { inputTokens, outputTokens, responseHash, signature } = decoded;
    const receipt: SignedReceipt = { usage: { inputTokens, outputTokens }, responseHash, signature };
    if (live.has(jobId)) {
      const timeout = Promise.withResolvers<void>();
      const cancel = clock.after(patienceMs, timeout.resolve);
      await Promise.race([live.ended(jobId), timeout.promise]);
      cancel();
    }
    await ends.flush(jobId);
    const job = await book.get(jobId);
    if (job === undefined) throw new ProviderError("job_not_found", "the provider does not know the job");
    if (refuse(job, receipt) === "repeated") return job;
    await this.#checkSignature(job, receipt);
    return await this.#keep(jobId, receipt);
  }

  async #keep(jobId: Hex, receipt: SignedReceipt): Promise<ProviderJob> {
    const result = await this.#options.book.change(jobId, (now) => {
      switch (judgeReceipt(now, receipt)) {
        case "enough":
          return { ...now, stage: now.stage === "lost" ? "lost" : "receipted", receipt };
        case "low":
          return now.lowReceipt !== undefined && receiptPayment(now, now.lowReceipt) >= receiptPayment(now, receipt)
            ? undefined
            : { ...now, lowReceipt: receipt };
        default:
          return undefined;
      }
    });
    const job = result?.job;
    if (job === undefined) throw new ProviderError("job_not_found", "the provider does not know the job");
    if (job.receipt === receipt) return job;
    if (refuse(job, receipt) === "low" && job.delivery !== undefined) {
      throw new ProviderError("receipt_below_usage", "the receipt is for less than was delivered", {
        extra: { statement: statementOf(job.delivery) },
      });
    }
    return job;
  }

  async #checkSignature(job: ProviderJob, receipt: SignedReceipt): Promise<void> {
    const { signatures, signer } = this.#options;
    const { usage, responseHash, signature } = receipt;
    const digest = receiptDigest(signer.domain, { jobId: job.jobId, provider: signer.provider, usage, responseHash });
    let isByClient: boolean;
    try {
      isByClient = await signatures.isBy(job.client, digest, signature);
    } catch (error) {
      if (chainUnavailableIn(error) === undefined) throw error;
      throw new ProviderError("chain_unavailable", "the chain cannot be asked now", { cause: error });
    }
    if (!isByClient) throw new ProviderError("invalid_receipt", "the job's client did not sign this receipt");
  }
}

/** Throws for a receipt that no longer or not yet counts. */
function refuse(job: ProviderJob, receipt: SignedReceipt): "enough" | "low" | "repeated" {
  const verdict = judgeReceipt(job, receipt);
  if (verdict === "streaming") throw new ProviderError("job_not_open", "the answer has not ended yet");
  if (verdict === "closed") throw new ProviderError("job_not_open", `the job is ${job.stage}`);
  return verdict;
}

/** Our statement as it goes over the wire. */
export function statementOf(delivery: Delivery): UsageStatementWire {
  const { usage, responseHash, statement } = delivery;
  return { inputTokens: usage.inputTokens, outputTokens: usage.outputTokens, responseHash, signature: statement };
}
