import { type Address, encodeFunctionData, type Hex, keccak256, parseEventLogs, stringToBytes } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { TransactionOutcome, TransactionRequest } from "../../chain/transactions/types.ts";
import type { ProviderJob, SettlementAction } from "./job.ts";

/** One job with what is to be done for it. */
export interface SettlementItem {
  readonly job: ProviderJob;
  readonly action: SettlementAction;
}

/** The completion of a job as the escrow takes it: with the client's receipt, or unsigned with our own count. */
function completionOf({ job, action }: SettlementItem) {
  const receipt = action === "complete" ? (job.receipt ?? job.lowReceipt) : undefined;
  const usage = receipt?.usage ?? job.delivery?.usage ?? { inputTokens: 0, outputTokens: 0 };
  const responseHash: Hex = receipt?.responseHash ?? job.delivery?.responseHash ?? `0x${"0".repeat(64)}`;
  return {
    jobId: job.jobId,
    usage: { inputTokens: BigInt(usage.inputTokens), outputTokens: BigInt(usage.outputTokens) },
    responseHash,
    clientSignature: receipt?.signature ?? "0x",
  } as const;
}

/** Key of the transaction of one job alone. */
export function settlementKey(job: ProviderJob, action: SettlementAction): string {
  return `${action}:${job.jobId}:${job.attempts}`;
}

/**
 * The transaction for items of one kind: a decline, a completion, or a batch of completions. Its key names jobs and attempts, so the
 * same attempt is never sent twice and the next one is another transaction.
 */
export function settlementRequest(escrow: Address, items: readonly SettlementItem[]): TransactionRequest {
  const [first] = items;
  if (first === undefined) throw new RangeError("a settlement needs at least one item");
  if (items.length > 1) {
    const names = items.map(({ job, action }) => settlementKey(job, action)).join(",");
    return {
      key: `settle-batch:${keccak256(stringToBytes(names))}`,
      to: escrow,
      kind: "completeJobs",
      data: encodeFunctionData({
        abi: jobEscrowAbi,
        functionName: "completeJobs",
        args: [items.map((item) => completionOf(item))],
      }),
    };
  }
  const { job, action } = first;
  const key = settlementKey(job, action);
  if (action === "decline") {
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "declineJob", args: [job.jobId] });
    return { key, to: escrow, kind: "declineJob", data };
  }
  const { jobId, usage, responseHash, clientSignature } = completionOf(first);
  const data = encodeFunctionData({
    abi: jobEscrowAbi,
    functionName: "completeJob",
    args: [jobId, usage, responseHash, clientSignature],
  });
  return { key, to: escrow, kind: "completeJob", data };
}

/** How the chain ended one job of a transaction. */
export type SettledItem =
  | { readonly kind: "completed"; readonly payment: bigint }
  | { readonly kind: "declined" }
  | { readonly kind: "open" };

/** What a mined transaction did for each of its jobs; `open` = nothing. */
export function settledItems(
  outcome: TransactionOutcome & { readonly status: "success" },
  escrow: Address,
): ReadonlyMap<Hex, SettledItem> {
  const items = new Map<Hex, SettledItem>();
  const logs = outcome.receipt.logs.filter((log) => log.address.toLowerCase() === escrow.toLowerCase());
  for (const log of parseEventLogs({ abi: jobEscrowAbi, logs })) {
    if (log.eventName === "JobCompleted") {
      items.set(log.args.jobId, { kind: "completed", payment: log.args.payment });
    } else if (log.eventName === "JobDeclined") {
      items.set(log.args.jobId, { kind: "declined" });
    }
  }
  return items;
}
