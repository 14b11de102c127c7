import type { Candidate, Policy, PolicyInput } from "../types.ts";
import { choiceReason, rankedCount } from "./ranked.ts";

/**
 * Cheapest among the seasoned; where there are none the cheapest of all, but for those that this gateway's own jobs speak against: else
 * whoever is cheap enough could fail on as long as nobody has a name. A small share of choices goes to a random newcomer, so that one can
 * become seasoned.
 */
export function topRepCheapestPolicy(settings: { readonly explore: number }): Policy {
  return {
    name: "top_rep_cheapest",
    rank: ({ pool, random }) => {
      const seasoned = pool.cheapest(rankedCount, "seasoned");
      if (seasoned.length === 0) {
        const unblamed = pool.cheapest(rankedCount, "unblamed");
        const ranked = unblamed.length > 0 ? unblamed : pool.cheapest(rankedCount);
        return { ranked, reason: choiceReason(ranked, "none_seasoned"), wait: false, excluded: [] };
      }
      const ranked = withFallback(seasoned, pool);
      const [newcomer] = random() < settings.explore ? pool.sample(1, "newcomer") : [];
      if (newcomer === undefined) return { ranked, reason: "cheapest_seasoned", wait: false, excluded: [] };
      const rest = ranked.filter(({ provider }) => provider !== newcomer.provider);
      return { ranked: [newcomer, ...rest], reason: "newcomer", wait: false, excluded: [] };
    },
  };
}

/** Behind the seasoned those that are left when they have failed: newcomers, then those with a poor record, cheapest first. */
function withFallback(seasoned: readonly Candidate[], pool: PolicyInput["pool"]): Candidate[] {
  const ranked = [...seasoned];
  for (const standing of ["newcomer", "poor"] as const) {
    if (ranked.length < rankedCount) ranked.push(...pool.cheapest(rankedCount - ranked.length, standing));
  }
  return ranked;
}
