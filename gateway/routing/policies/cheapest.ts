import { expectedCost } from "../expected-cost.ts";
import type { Candidate, Policy, PolicyInput } from "../types.ts";
import { shuffle } from "../shuffle.ts";

/** Least expected cost of this request; ties in random order. */
export function cheapestPolicy(): Policy {
  return {
    name: "cheapest",
    rank: (input) => ({
      ranked: byCost(input.candidates, input),
      reason: "least_cost",
      wait: false,
      excluded: [],
    }),
  };
}

/** Candidates by expected cost, cheapest first, ties in random order. */
export function byCost(candidates: readonly Candidate[], input: Pick<PolicyInput, "request" | "random">): Candidate[] {
  const costs = new Map(candidates.map((candidate) => [candidate, expectedCost(candidate, input.request)]));
  return shuffle(candidates, input.random).toSorted((a, b) => compareCost(costs.get(a) ?? 0n, costs.get(b) ?? 0n));
}

function compareCost(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
