import type { Policy } from "../types.ts";
import { choiceReason, rankedCount } from "./ranked.ts";

/** Least expected cost of this request; ties in random order. */
export function cheapestPolicy(): Policy {
  return {
    name: "cheapest",
    rank: ({ pool }) => {
      const ranked = pool.cheapest(rankedCount);
      return { ranked, reason: choiceReason(ranked, "least_cost"), wait: false, excluded: [] };
    },
  };
}
