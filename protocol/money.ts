import type { Usage } from "./usage.ts";

/** Prices are quoted per this many tokens. */
export const tokensPerPrice = 1_000_000n;

/** Greatest amount that a job can lock (uint96 in the escrow). */
export const maxUint96 = (1n << 96n) - 1n;

/** Prices of one offering, in wei of the payment token per million tokens of text. */
export interface Prices {
  readonly inputPrice: bigint;
  readonly outputPrice: bigint;
}

/**
 * What a usage costs, in wei, before the cap at the job's `maxPayment`. Rounded down, against the claimant, exactly as
 * `JobEscrow.paymentFor`: floor((input x inputPrice + output x outputPrice) / 1e6).
 */
export function paymentFor(prices: Prices, usage: Usage): bigint {
  const raw = BigInt(usage.inputTokens) * prices.inputPrice + BigInt(usage.outputTokens) * prices.outputPrice;
  return raw / tokensPerPrice;
}

/** What the escrow will pay for a usage of a job, in wei: `paymentFor` capped at what the job locked. */
export function settlementFor(prices: Prices, usage: Usage, maxPayment: bigint): bigint {
  const payment = paymentFor(prices, usage);
  return payment < maxPayment ? payment : maxPayment;
}

/** Wei of stake that a job holds, rounded down, exactly as `ProviderRegistry.collateralFor`. @param bps Part of `maxPayment`, 0..10,000. */
export function collateralFor(maxPayment: bigint, bps: number): bigint {
  return (maxPayment * BigInt(bps)) / 10_000n;
}

/**
 * Upper bound of the tokens of a text, for money: a byte-level tokenizer makes at most one token of each UTF-8 byte.
 * What is locked too much comes back at settlement; what is locked too little is never paid.
 */
export function inputTokensBound(promptBytes: number): number {
  return promptBytes;
}

/** Likely tokens of a text, for limits and routing: four bytes a token, rounded up. */
export function inputTokensEstimate(promptBytes: number): number {
  return Math.ceil(promptBytes / 4);
}

/** Inputs of `escrowFor`. */
export interface EscrowSize {
  /** Upper bound of the prompt's tokens. */
  readonly inputTokens: number;
  /** Most tokens that the answer may have. */
  readonly outputTokens: number;
  readonly prices: Prices;
  /** Share added on top, 0..10 (`T4T_ESCROW_HEADROOM_RATIO`). */
  readonly headroomRatio: number;
  /** Tokens that the offering can hold: neither side can exceed it. */
  readonly contextLength: number;
}

/** Wei to lock for one job: bounded usage at the offering's prices plus headroom, rounded up, at least 1. */
export function escrowFor(size: EscrowSize): bigint {
  const input = BigInt(Math.min(size.inputTokens, size.contextLength));
  const output = BigInt(Math.min(size.outputTokens, size.contextLength));
  const raw = input * size.prices.inputPrice + output * size.prices.outputPrice;
  const permille = BigInt(1000 + Math.ceil(size.headroomRatio * 1000));
  const divisor = tokensPerPrice * 1000n;
  const amount = (raw * permille + divisor - 1n) / divisor;
  return amount > 0n ? amount : 1n;
}
