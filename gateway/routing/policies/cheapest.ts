import type { Policy } from "../types.ts";
import { rankedCount } from "./ranked.ts";

/** Least expected cost of this request; ties in random order. */
export function cheapestPolicy(): Policy {
  return {
    name: "cheapest",
    rank: ({ pool }) => ({ ranked: pool.cheapest(rankedCount), reason: "least_cost", wait: false, excluded: [] }),
  };
}
