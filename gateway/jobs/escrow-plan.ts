import type { Address } from "viem";
import { collateralFor, escrowFor, maxUint96 } from "../../protocol/money.ts";
import type { CompletionRequest } from "../openai/completion-request.ts";
import type { OfferedTerms } from "../routing/stake.ts";
import type { Candidate } from "../routing/types.ts";

/** How much is locked and bound. */
export interface EscrowPolicy {
  /** Tokens of one choice when the client set no bound. */
  readonly defaultMaxOutputTokens: number;
  /** Share on top of the estimate. */
  readonly headroomRatio: number;
  /** Share of the locked amount that a provider may claim without our receipt. */
  readonly unsignedLimitRatio: number;
  /** Most wei that one job may lock; undefined = no limit. */
  readonly maxPerJob: bigint | undefined;
  /** Least that the escrow accepts. */
  readonly minPayment: bigint;
  /** Basis points of the locked amount that the provider's stake must cover. */
  readonly collateralBps: number;
}

/** Terms of one post, fit for every candidate in it. */
export interface EscrowPlan {
  /** In the order of the ranking, all for one model. */
  readonly candidates: readonly Candidate[];
  readonly modelId: string;
  readonly maxPayment: bigint;
  readonly unsignedLimit: bigint;
  readonly maxInputPrice: bigint;
  readonly maxOutputPrice: bigint;
}

/** Most candidates of one `postJobAny`. */
export const maxCandidates = 8;

/**
 * Most tokens of one choice at a candidate: the client's bound, else the configured one as far as the context holds it beside the
 * prompt, so that a backend which adds both up does not refuse.
 */
export function maxTokensAt(request: CompletionRequest, contextLength: number, policy: EscrowPolicy): number {
  if (request.maxTokens !== undefined) return request.maxTokens;
  const likely = Math.min(request.inputTokensBound, Math.ceil(request.inputTokensEstimate * 1.5) + 256);
  return Math.max(1, Math.min(policy.defaultMaxOutputTokens, contextLength - likely));
}

/** Most output tokens of the whole answer at a candidate: what a usage statement may say at most. */
export function outputBoundAt(request: CompletionRequest, contextLength: number, policy: EscrowPolicy): number {
  return Math.min(maxTokensAt(request, contextLength, policy), contextLength) * request.choices;
}

/** Most input tokens at a candidate. */
export function inputBoundAt(request: CompletionRequest, contextLength: number): number {
  return Math.min(request.inputTokensBound, contextLength * request.choices);
}

/** Whether prompt and answer can be longer than the context, at a token for each byte: a backend that says so may be right. */
export function mayExceedContext(request: CompletionRequest, contextLength: number, policy: EscrowPolicy): boolean {
  return request.inputTokensBound + maxTokensAt(request, contextLength, policy) > contextLength;
}

/** Wei that one candidate's answer can cost at most, with headroom. */
export function escrowAt(request: CompletionRequest, terms: OfferedTerms, policy: EscrowPolicy): bigint {
  const amount = escrowFor({
    inputTokens: inputBoundAt(request, terms.contextLength),
    outputTokens: outputBoundAt(request, terms.contextLength, policy),
    prices: terms,
    headroomRatio: policy.headroomRatio,
    // Each choice has the whole context for itself.
    contextLength: terms.contextLength * request.choices,
  });
  return amount > policy.minPayment ? amount : policy.minPayment;
}

/**
 * Terms for one post to the best candidates. All of them are for the model of the first; those whose job would lock more than the
 * limit are left out, and those for which the first would need more stake than it has. undefined: every job would lock too much.
 */
export function planEscrow(
  request: CompletionRequest,
  ranked: readonly Candidate[],
  policy: EscrowPolicy,
): EscrowPlan | undefined {
  const limit = policy.maxPerJob !== undefined && policy.maxPerJob < maxUint96 ? policy.maxPerJob : maxUint96;
  const affordable = ranked
    .map((candidate) => ({ candidate, escrow: escrowAt(request, candidate, policy) }))
    .filter(({ escrow }) => escrow <= limit);
  const first = affordable[0]?.candidate;
  if (first === undefined) return undefined;
  const { modelId } = first;
  // One amount is locked, whoever takes the job: a dearer candidate in the post must not make it too much for the first one's stake.
  const leavesFirst = (escrow: bigint): boolean => collateralFor(escrow, policy.collateralBps) <= first.stake;
  const chosen = affordable
    .filter(({ candidate, escrow }) => candidate === first || (candidate.modelId === modelId && leavesFirst(escrow)))
    .slice(0, maxCandidates);
  const maxPayment = chosen.reduce((most, { escrow }) => (escrow > most ? escrow : most), 0n);
  const permille = BigInt(Math.floor(policy.unsignedLimitRatio * 1000));
  return {
    candidates: chosen.map(({ candidate }) => candidate),
    modelId,
    maxPayment,
    unsignedLimit: (maxPayment * permille) / 1000n,
    maxInputPrice: highest(chosen.map(({ candidate }) => candidate.inputPrice)),
    maxOutputPrice: highest(chosen.map(({ candidate }) => candidate.outputPrice)),
  };
}

/** The candidate that the chain chose. */
export function candidateOf(plan: EscrowPlan, provider: Address): Candidate | undefined {
  return plan.candidates.find((candidate) => candidate.provider.toLowerCase() === provider.toLowerCase());
}

function highest(values: readonly bigint[]): bigint {
  return values.reduce((most, value) => (value > most ? value : most), 0n);
}
