import type { Address, Hex } from "viem";
import type { Prices } from "../../protocol/money.ts";

/** Names of `IJobEscrow.JobStatus`, in its order. */
export const jobStatuses = [
  "None",
  "Open",
  "Acknowledged",
  "CancelRequested",
  "Completed",
  "Declined",
  "Cancelled",
  "Expired",
  "Slashed",
] as const;

export type OnChainJobStatus = (typeof jobStatuses)[number];

/** A job as the escrow holds it. */
export interface OnChainJob {
  readonly jobId: Hex;
  readonly status: OnChainJobStatus;
  readonly client: Address;
  readonly provider: Address;
  readonly modelKey: Hex;
  readonly offeringId: number;
  readonly prices: Prices;
  readonly maxPayment: bigint;
  readonly unsignedLimit: bigint;
  /** Unix seconds. */
  readonly deadline: number;
}

/** Whether a job can still change on chain. */
export function isOpenOnChain(status: OnChainJobStatus): boolean {
  return status === "Open" || status === "Acknowledged" || status === "CancelRequested";
}
