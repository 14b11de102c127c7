import type { Hex } from "viem";
import { sameUsage, type Usage } from "../../protocol/usage.ts";
import type { UsageStatementWire } from "../../protocol/wire.ts";

/** Most tokens that the terms of the job allow. */
export interface UsageBounds {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a statement is held against. */
export interface DeliveryCheck {
  /** undefined: the provider made none. Its signature has been checked already. */
  readonly statement: UsageStatementWire | undefined;
  /** Usage that the backend reported inside the answer. */
  readonly seenUsage: Usage | undefined;
  /** Hash of the bytes that came. */
  readonly seenHash: Hex;
  readonly bounds: UsageBounds;
  /** Most output tokens that what came can hold; undefined = not known. */
  readonly outputTokensSeen: number | undefined;
}

/** What to sign. */
export interface DeliveryVerdict {
  /** undefined: nothing can be signed; the provider is left with the unsigned limit. */
  readonly sign: { readonly usage: Usage; readonly responseHash: Hex } | undefined;
  /** What is wrong with the statement; bounded words, also a metric label. */
  readonly disagreement: "usage_differs" | "over_bounds" | "hash_differs" | "no_statement" | undefined;
}

/**
 * What the gateway signs for a whole answer: the provider's statement where it agrees with what was seen, else what was seen. Usage
 * is never more than the terms allow.
 */
export function checkDelivery(check: DeliveryCheck): DeliveryVerdict {
  const { statement, seenUsage, seenHash, bounds } = check;
  const own = seenUsage === undefined ? undefined : { usage: clamp(seenUsage, bounds), responseHash: seenHash };
  if (statement === undefined) return { sign: own, disagreement: "no_statement" };
  const said: Usage = { inputTokens: statement.inputTokens, outputTokens: statement.outputTokens };
  if (statement.responseHash !== seenHash) {
    return { sign: own ?? { usage: plausible(said, check), responseHash: seenHash }, disagreement: "hash_differs" };
  }
  if (seenUsage !== undefined && !sameUsage(said, seenUsage)) return { sign: own, disagreement: "usage_differs" };
  const usage = seenUsage === undefined ? plausible(said, check) : clamp(said, bounds);
  return { sign: { usage, responseHash: seenHash }, disagreement: sameUsage(usage, said) ? undefined : "over_bounds" };
}

/** What the gateway signs for the part of an answer that was delivered before the client went: no more than can have come. */
export function checkPartial(
  statement: UsageStatementWire,
  atMost: UsageBounds,
): { readonly usage: Usage; readonly responseHash: Hex } {
  return {
    usage: clamp({ inputTokens: statement.inputTokens, outputTokens: statement.outputTokens }, atMost),
    responseHash: statement.responseHash,
  };
}

/** Tokens that may have been on their way when the connection was cut. */
const tokensInFlight = 64;

/**
 * Most output tokens that a stream can have delivered: a token for every block, and one for every two bytes beyond the shortest
 * blocks, as some backends put several tokens into one.
 */
export function outputTokensAtMost(seen: { readonly contentFrames: number; readonly contentBytes: number }): number {
  return seen.contentFrames + Math.ceil(seen.contentBytes / 2) + tokensInFlight;
}

/** Most output tokens that a stream is journaled with before any of it has come. */
export const firstHorizon = 512;

/**
 * Most output tokens that the journal should hold as possible, where it holds `horizon` and `seen` can have come: written ahead of the
 * stream, so that a process that dies has never seen more, and seldom, as each is twice what was seen. Undefined: as it is.
 */
export function nextHorizon(horizon: number, seen: number): number | undefined {
  return seen * 4 > horizon * 3 ? seen * 2 : undefined;
}

function clamp(usage: Usage, bounds: UsageBounds): Usage {
  return {
    inputTokens: Math.min(usage.inputTokens, bounds.inputTokens),
    outputTokens: Math.min(usage.outputTokens, bounds.outputTokens),
  };
}

function plausible(usage: Usage, check: DeliveryCheck): Usage {
  const outputTokens = Math.min(check.bounds.outputTokens, check.outputTokensSeen ?? check.bounds.outputTokens);
  return clamp(usage, { inputTokens: check.bounds.inputTokens, outputTokens });
}
