import { paymentFor } from "../../protocol/money.ts";
import { type ProviderJob, pricesOf, type SignedReceipt } from "./job.ts";

/** What a receipt for a job is worth. */
export type ReceiptVerdict =
  /** Pays for what we delivered, or more. */
  | "enough"
  /** Pays for less than we delivered. */
  | "low"
  /** The stream has not ended yet. */
  | "streaming"
  /** The same receipt came before. */
  | "repeated"
  /** The job has been, or is being, settled or given back. What others ended is not closed: the chain may take that back. */
  | "closed";

/**
 * Judges a receipt whose signature is right. It is enough when neither count is below our statement: then it pays no less, and the
 * client signed no less than it got.
 */
export function judgeReceipt(job: ProviderJob, receipt: SignedReceipt): ReceiptVerdict {
  switch (job.stage) {
    case "posted":
    case "accepted":
      return "streaming";
    case "lost":
    case "delivered": {
      if (isSame(job.receipt, receipt)) return "repeated";
      const said = job.delivery?.usage;
      if (said === undefined) return "closed";
      const { inputTokens, outputTokens } = receipt.usage;
      if (inputTokens >= said.inputTokens && outputTokens >= said.outputTokens) return "enough";
      // Other counts that pay at least as much, such as more output for less input, are as good.
      const prices = pricesOf(job);
      return paymentFor(prices, receipt.usage) >= paymentFor(prices, said) && job.delivery?.estimated === true
        ? "enough"
        : "low";
    }
    case "receipted":
    case "settling":
    case "settled":
      return isSame(job.receipt, receipt) ? "repeated" : "closed";
    default:
      return "closed";
  }
}

function isSame(a: SignedReceipt | undefined, b: SignedReceipt): boolean {
  return (
    a !== undefined &&
    a.usage.inputTokens === b.usage.inputTokens &&
    a.usage.outputTokens === b.usage.outputTokens &&
    a.responseHash === b.responseHash
  );
}
