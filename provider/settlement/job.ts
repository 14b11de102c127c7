import type { Address, Hex } from "viem";
import type { Usage } from "../../protocol/usage.ts";

/**
 * Stages of one job in this node's journal.
 *
 * `posted` (on chain, no request yet) -> `accepted` (acknowledged, stream runs) -> `delivered` (stream ended, our usage is signed) ->
 * `receipted` (the client signed) -> `settling` (a transaction is under way) -> `settled`.
 * `declining` leads to `declined`. `forfeited` = nothing to claim. `lost` = the chain ended the job in another way.
 */
export const jobStages = [
  "posted",
  "accepted",
  "delivered",
  "receipted",
  "declining",
  "settling",
  "settled",
  "declined",
  "forfeited",
  "lost",
] as const;

export type JobStage = (typeof jobStages)[number];

/** Stages in which nothing is left to do, unless the chain takes the end back. */
const terminalStages: ReadonlySet<JobStage> = new Set(["settled", "declined", "forfeited", "lost"]);

/** Whether nothing is left to do for a job. */
export function isTerminal(stage: JobStage): boolean {
  return terminalStages.has(stage);
}

/** What one transaction does for a job. */
export type SettlementAction = "complete" | "claim" | "decline";

/** Usage that the client signed. */
export interface SignedReceipt {
  readonly usage: Usage;
  readonly responseHash: Hex;
  readonly signature: Hex;
}

/** What the stream delivered, and our signed word on it. */
export interface Delivery {
  readonly usage: Usage;
  readonly responseHash: Hex;
  /** Our signature of the usage statement. */
  readonly statement: Hex;
  /** The usage was counted by us as the backend did not say it. */
  readonly estimated: boolean;
  /** The stream was cut: by the backend, the gateway, or a restart of this node. */
  readonly partial: boolean;
  /** Unix ms. */
  readonly at: number;
}

/** A transaction that was handed to the queue for this job. */
export interface JobTransaction {
  readonly key: string;
  readonly action: SettlementAction;
}

/** One job as this node remembers it. Amounts are decimal strings of wei, as the document is JSON. */
export interface ProviderJob {
  readonly jobId: Hex;
  readonly stage: JobStage;
  readonly client: Address;
  readonly inputPrice: string;
  readonly outputPrice: string;
  readonly maxPayment: string;
  readonly unsignedLimit: string;
  /** Unix seconds. */
  readonly deadline: number;
  /** Unix ms at which this node first heard of it. */
  readonly seenAt: number;
  readonly model?: string;
  readonly requestHash?: Hex;
  readonly acknowledgement?: Hex;
  /** Usage up to now while the stream runs, so that a crash loses little. */
  readonly checkpoint?: Usage;
  readonly delivery?: Delivery;
  readonly receipt?: SignedReceipt;
  /** A receipt for less than we delivered: settled only when nothing better comes. */
  readonly lowReceipt?: SignedReceipt;
  /** The receipt is no longer waited for: the client asked for its money back on chain. */
  readonly claimNow?: true;
  readonly transaction?: JobTransaction;
  /** Transactions that failed so far. */
  readonly attempts: number;
  /** Unix ms before which no other attempt is made. */
  readonly retryAt?: number;
  /** Wei paid, once settled. */
  readonly payment?: string;
  readonly transactionHash?: Hex;
  /** Block in which the job ended, where it is known: a reorganisation below it undoes the end. */
  readonly endBlock?: number;
  /** Bounded word: why the job ended as it did. */
  readonly reason?: string;
}

/** Prices of a job. */
export function pricesOf(job: ProviderJob): { readonly inputPrice: bigint; readonly outputPrice: bigint } {
  return { inputPrice: BigInt(job.inputPrice), outputPrice: BigInt(job.outputPrice) };
}
