import type { Address, Hex } from "viem";
import { inputTokensEstimate, paymentFor, type Prices, tokensPerPrice } from "../../protocol/money.ts";
import { ProviderError } from "../errors.ts";
import type { OnChainJob } from "../escrow/on-chain-job.ts";
import type { CompletionRequest } from "./completion-request.ts";

/** Bytes of text that no tokenizer packs into one token: estimates made with it are lower bounds. */
const mostBytesPerToken = 16;

/** Refuses an authorisation that is over, or made for a time so far ahead that it would be a standing permission. */
export function checkAuthorizationTime(expiresAt: number, nowSeconds: number, maxAheadSeconds: number): void {
  if (expiresAt <= nowSeconds) throw new ProviderError("invalid_authorization", "the authorisation has expired");
  if (expiresAt > nowSeconds + maxAheadSeconds) {
    throw new ProviderError("invalid_authorization", `the authorisation is valid for more than ${maxAheadSeconds} s`);
  }
}

/** What this node sells under one model id. */
export interface OfferedModel {
  readonly modelKey: Hex;
  readonly prices: Prices;
  /** Tokens. */
  readonly contextLength: number;
}

/** Inputs of `checkJob`. */
export interface JobCheck {
  readonly job: OnChainJob;
  /** This provider's identity on chain. */
  readonly provider: Address;
  readonly request: CompletionRequest;
  readonly offered: OfferedModel;
  /** Prices of the record that the job names, when this node knows it as its own. */
  readonly recordPrices: Prices | undefined;
  /** Chain time now, Unix seconds. */
  readonly nowSeconds: number;
  /** Least time to the deadline in which a job can be served and settled. */
  readonly minRemainingSeconds: number;
}

/** Whether the job on chain pays this node for this request. Throws `ProviderError` with the first reason that it does not. */
export function checkJob(check: JobCheck): void {
  const { job, request, offered } = check;
  if (job.provider.toLowerCase() !== check.provider.toLowerCase()) {
    throw new ProviderError("job_not_found", "the job was posted to another provider");
  }
  if (job.status !== "Open" && job.status !== "Acknowledged") {
    throw new ProviderError("job_not_open", `the job is ${job.status} on chain`);
  }
  if (job.modelKey !== offered.modelKey) {
    throw new ProviderError("model_not_offered", "the job was posted for another model", { param: "model" });
  }
  // A job keeps the price of the record it was posted under. A record that we published ourselves binds us at its price.
  const floor = check.recordPrices ?? offered.prices;
  if (job.prices.inputPrice < floor.inputPrice || job.prices.outputPrice < floor.outputPrice) {
    throw new ProviderError("insufficient_payment", "the job's price is below the offering's");
  }
  if (job.deadline < check.nowSeconds + check.minRemainingSeconds) {
    throw new ProviderError("deadline_too_close", `the deadline leaves less than ${check.minRemainingSeconds} s`);
  }
  if (job.maxPayment < lowerCost(request, job.prices, offered.contextLength)) {
    throw new ProviderError(
      "insufficient_payment",
      "the job's largest payment does not cover its prompt and max_tokens",
    );
  }
}

/** Least that the request can cost when the answer is as long as it allows, in wei. */
export function lowerCost(request: CompletionRequest, prices: Prices, contextLength: number): bigint {
  return paymentFor(prices, {
    inputTokens: Math.min(Math.floor(request.promptBytes / mostBytesPerToken), contextLength),
    outputTokens: Math.min(request.maxOutputTokens ?? 1, contextLength) * request.choices,
  });
}

/**
 * Most tokens of one choice that the job's largest payment covers beside its prompt, for a request that sets no bound itself: the
 * backend would write until its context is full, and what is not paid for is lost. undefined when the payment covers a full context.
 */
export function paidOutputTokens(
  request: CompletionRequest,
  { maxPayment, prices }: Pick<OnChainJob, "maxPayment" | "prices">,
  contextLength: number,
): number | undefined {
  if (request.maxOutputTokens !== undefined || prices.outputPrice === 0n) return undefined;
  const inputTokens = Math.min(inputTokensEstimate(request.promptBytes), contextLength * request.choices);
  const left = maxPayment * tokensPerPrice - BigInt(inputTokens) * prices.inputPrice;
  const perChoice = left / prices.outputPrice / BigInt(request.choices);
  if (perChoice >= BigInt(contextLength)) return undefined;
  return perChoice < 1n ? 1 : Number(perChoice);
}
