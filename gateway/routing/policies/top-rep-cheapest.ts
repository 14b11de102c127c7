import type { Candidate, Policy, PolicyInput } from "../types.ts";
import { rankedCount, take } from "./ranked.ts";

/** Cheapest among the seasoned; a small share of choices goes to a random newcomer, so that one can become seasoned. */
export function topRepCheapestPolicy(settings: { readonly explore: number }): Policy {
  return {
    name: "top_rep_cheapest",
    rank: ({ pool, random }) => {
      const seasoned = take(pool.byCost("seasoned"));
      if (seasoned.length === 0) {
        return { ranked: take(pool.byCost()), reason: "none_seasoned", wait: false, excluded: [] };
      }
      const ranked = [...seasoned, ...take(othersByCost(pool), rankedCount - seasoned.length)];
      const [newcomer] = random() < settings.explore ? pool.sample(1, "newcomer") : [];
      if (newcomer === undefined) return { ranked, reason: "cheapest_seasoned", wait: false, excluded: [] };
      const rest = ranked.filter(({ provider }) => provider !== newcomer.provider);
      return { ranked: [newcomer, ...rest], reason: "newcomer", wait: false, excluded: [] };
    },
  };
}

/** What is left when the seasoned have failed: newcomers and those with a poor record, cheapest first. */
function* othersByCost(pool: PolicyInput["pool"]): IterableIterator<Candidate> {
  yield* pool.byCost("newcomer");
  yield* pool.byCost("poor");
}
