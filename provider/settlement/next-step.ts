import { settlementFor } from "../../protocol/money.ts";
import { isTerminal, type ProviderJob, pricesOf, type SettlementAction } from "./job.ts";

/** Times that settlement goes by. */
export interface SettlementPolicy {
  /** Ms that a delivered job waits for the client's receipt. */
  readonly receiptGraceMs: number;
  /** Seconds before the deadline by which a job must be on its way to an end. */
  readonly settleMarginSeconds: number;
  /** Ms after which a posted job that no request came for is declined. */
  readonly unfetchedDeclineMs: number;
}

/** What to do for a job: act now, or look again at a time (Unix ms), or nothing until it changes. */
export type NextStep =
  | { readonly kind: "act"; readonly action: SettlementAction }
  | { readonly kind: "wait"; readonly untilMs: number }
  | { readonly kind: "none" };

const none: NextStep = { kind: "none" };

/** The next step of a job. Pure. `aheadMs`: how far chain time, in which deadlines are, runs ahead of `nowMs`. */
export function nextStep(job: ProviderJob, nowMs: number, policy: SettlementPolicy, aheadMs = 0): NextStep {
  if (isTerminal(job.stage)) return none;
  const dueAt = dueTime(job, policy, aheadMs);
  if (dueAt === undefined) return none;
  const untilMs = Math.max(dueAt.atMs, job.retryAt ?? 0);
  return nowMs >= untilMs ? { kind: "act", action: dueAt.action } : { kind: "wait", untilMs };
}

function dueTime(
  job: ProviderJob,
  policy: SettlementPolicy,
  aheadMs: number,
): { readonly atMs: number; readonly action: SettlementAction } | undefined {
  const latestMs = (job.deadline - policy.settleMarginSeconds) * 1000 - aheadMs;
  switch (job.stage) {
    case "posted":
      return { atMs: Math.min(job.seenAt + policy.unfetchedDeclineMs, latestMs), action: "decline" };
    case "delivered": {
      const graceEnds = job.claimNow === true ? 0 : (job.delivery?.at ?? 0) + policy.receiptGraceMs;
      return { atMs: Math.min(graceEnds, latestMs), action: claimAction(job) };
    }
    case "receipted":
      return { atMs: 0, action: "complete" };
    case "declining":
      return { atMs: 0, action: "decline" };
    default:
      return undefined;
  }
}

/**
 * The best end of a delivered job without a receipt for what was delivered: the client's lower receipt, or the unsigned claim,
 * whichever pays more; with neither the job is given back, as an acknowledged job must not run into its deadline.
 */
function claimAction(job: ProviderJob): SettlementAction {
  const unsigned = unsignedClaim(job);
  const low = job.lowReceipt === undefined ? 0n : receiptPayment(job, job.lowReceipt);
  if (low > 0n && low >= unsigned) return "complete";
  return unsigned > 0n ? "claim" : "decline";
}

/** Wei that a claim without receipt pays. */
export function unsignedClaim(job: ProviderJob): bigint {
  if (job.delivery === undefined) return 0n;
  const payment = settlementFor(pricesOf(job), job.delivery.usage, BigInt(job.maxPayment));
  const limit = BigInt(job.unsignedLimit);
  return payment < limit ? payment : limit;
}

/** Wei that a receipt pays. */
export function receiptPayment(job: ProviderJob, receipt: NonNullable<ProviderJob["receipt"]>): bigint {
  return settlementFor(pricesOf(job), receipt.usage, BigInt(job.maxPayment));
}
