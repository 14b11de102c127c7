import type { Candidate } from "../types.ts";

/**
 * How many candidates a policy ranks: as many as one post can name, well under `maxListed`. A request that all of them failed selects
 * again with them in `tried`.
 */
export const rankedCount = 8;

/** Fewer where a key has its place: the owner, and who stands in for it. */
export const keyedCount = 4;

/** The reason for a choice, or that there is none: nobody looked at is free. */
export function choiceReason(ranked: readonly Candidate[], reason: string): string {
  return ranked.length === 0 ? "none_free" : reason;
}
