import type { Policy } from "../types.ts";
import { take } from "./ranked.ts";

/** Least expected cost of this request; ties in random order. */
export function cheapestPolicy(): Policy {
  return {
    name: "cheapest",
    rank: ({ pool }) => ({ ranked: take(pool.byCost()), reason: "least_cost", wait: false, excluded: [] }),
  };
}
