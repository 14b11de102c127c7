import type { Address, Hex } from "viem";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { DecisionRecord } from "../routing/decision-record.ts";
import type { UsageBounds } from "./usage-check.ts";
import type { CompletionKind } from "../openai/completion-request.ts";

/**
 * States of one job on chain as this gateway knows it.
 *
 * `posting` (the transaction may or may not arrive) -> `posted` -> `acknowledged` -> `delivered` (our receipt is signed) -> `settled`.
 * `abandoned`: another provider took over, or the client went before anything came; the money is on its way back.
 * The last six are terminal.
 */
export const attemptStates = [
  "posting",
  "posted",
  "acknowledged",
  "delivered",
  "abandoned",
  "not_posted",
  "settled",
  "declined",
  "cancelled",
  "expired",
  "slashed",
] as const;

export type AttemptState = (typeof attemptStates)[number];

const terminalStates: ReadonlySet<AttemptState> = new Set([
  "not_posted",
  "settled",
  "declined",
  "cancelled",
  "expired",
  "slashed",
]);

/** Whether a job on chain can still change. */
export function isTerminalState(state: AttemptState): boolean {
  return terminalStates.has(state);
}

/** What we signed, or would sign, for one job. */
export interface SignedUsage {
  readonly usage: Usage;
  readonly responseHash: Hex;
  readonly signature: Hex;
}

/** One job on chain. Amounts are decimal strings of wei, as the document is JSON. */
export interface AttemptDocument {
  /** Known before the post: a hash of chain, escrow, client and nonce. */
  readonly jobId: Hex;
  readonly nonce: string;
  readonly state: AttemptState;
  /** Key of its newest post in the transaction queue; earlier ones were refused. */
  readonly postKey?: string;
  readonly modelId: string;
  readonly candidates: readonly Address[];
  readonly maxPayment: string;
  /** Unix seconds. */
  readonly deadline: number;
  /** Unix ms at which it was posted, by our clock. */
  readonly postedAt?: number;
  readonly provider?: Address;
  readonly endpoint?: string;
  readonly postTransaction?: Hex;
  readonly postBlock?: number;
  /** Most tokens that the terms allow: what a statement is held against, also by a later process. */
  readonly bounds?: UsageBounds;
  /** Most output tokens of a stream that can have come: ahead of what was seen, as a process that dies tells of nothing more. */
  readonly outputHorizon?: number;
  /** The request was sent to the provider. */
  readonly sent?: true;
  readonly requestHash?: Hex;
  /** The provider's signed consent: what a slash needs. */
  readonly acknowledgement?: Hex;
  /** The provider broke its word after the acknowledgement. */
  readonly fault?: true;
  /** The client went while it was being answered: the part delivered is still to be agreed with the provider. */
  readonly partial?: PartialObservation;
  readonly receipt?: SignedUsage;
  /** Unix ms at which the receipt was signed. */
  readonly deliveredAt?: number;
  /** Why this provider: what the selection that led to the job knew. */
  readonly decision?: DecisionRecord;
  /** The provider has our receipt. */
  readonly receiptTaken?: true;
  /** Wei paid, once settled. */
  readonly payment?: string;
  readonly usage?: Usage;
  /** Transaction that ended the job on chain. */
  readonly endTransaction?: Hex;
}

/** What was seen of an answer that was not seen to its end. */
export interface PartialObservation {
  /** Most tokens that can have been used. */
  readonly atMost: UsageBounds;
  /** Unix ms at which the answer was left. */
  readonly at: number;
}

/** A progress event with its place in the job's own sequence. */
export interface StoredEvent {
  readonly id: number;
  /** Unix ms. */
  readonly at: number;
  readonly event: ProgressEvent;
}

/** How the request ended for the client. */
export interface RequestOutcome {
  readonly status: "completed" | "failed" | "cancelled";
  readonly code?: string;
  readonly message?: string;
}

/** One request with all jobs that it led to: what the journal keeps. */
export interface JobDocument {
  readonly version: 1;
  /** The job id of the first attempt. */
  readonly id: Hex;
  readonly kind: CompletionKind;
  /** As requested; null = any. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly source: "openai" | "jobs";
  readonly requestId: string;
  /** Digest prefix of the API key that asked; null without keys. */
  readonly owner: string | null;
  /** Unix ms. */
  readonly createdAt: number;
  readonly attempts: readonly AttemptDocument[];
  readonly events: readonly StoredEvent[];
  readonly outcome: RequestOutcome | null;
  /** JSON answer of a job that was not streamed; jobs API only. */
  readonly result: string | null;
  /** The selection that found nobody, of a request that ended with it. */
  readonly decision?: DecisionRecord;
}

/** Why the provider that was asked last was chosen; of a request that ended because nobody was, why not. */
export function decisionOf({ decision, attempts }: JobDocument): DecisionRecord | undefined {
  return decision ?? attempts.at(-1)?.decision;
}

/** Status of a request as one word, for the API and the journal's column. */
export function statusOf(document: JobDocument): string {
  const { outcome } = document;
  const last = document.attempts.at(-1);
  if (outcome === null) {
    if (last === undefined || last.state === "abandoned" || isTerminalState(last.state)) return "waiting";
    if (last.state === "posting") return "posting";
    return "running";
  }
  if (outcome.status !== "completed") return outcome.status;
  return document.attempts.some(({ state }) => state === "settled") ? "settled" : "delivered";
}

/** Whether something is left to do for it. */
export function isOpen(document: JobDocument): boolean {
  return document.outcome === null || document.attempts.some(({ state }) => !isTerminalState(state));
}

/** Wei that its jobs hold in the escrow now, as far as this gateway knows. */
export function lockedBy(document: JobDocument): bigint {
  return document.attempts.reduce(
    (sum, attempt) => (isTerminalState(attempt.state) ? sum : sum + BigInt(attempt.maxPayment)),
    0n,
  );
}
