import { isNewcomer, isSeasoned } from "../reputation.ts";
import { shuffle } from "../shuffle.ts";
import type { Policy } from "../types.ts";
import { byCost } from "./cheapest.ts";

/** Cheapest among the seasoned; a small share of choices goes to a random newcomer, so that one can become seasoned. */
export function topRepCheapestPolicy(settings: { readonly explore: number }): Policy {
  return {
    name: "top_rep_cheapest",
    rank: (input) => {
      const seasoned = input.candidates.filter(isSeasoned);
      const newcomers = input.candidates.filter(isNewcomer);
      const cheapestFirst = byCost(input.candidates, input);
      if (seasoned.length === 0) return { ranked: cheapestFirst, reason: "none_seasoned", wait: false, excluded: [] };
      const fallback = cheapestFirst.filter((candidate) => !isSeasoned(candidate));
      const ranked = [...cheapestFirst.filter(isSeasoned), ...fallback];
      if (newcomers.length > 0 && input.random() < settings.explore) {
        const first = shuffle(newcomers, input.random)[0];
        if (first !== undefined) {
          const rest = ranked.filter((candidate) => candidate !== first);
          return { ranked: [first, ...rest], reason: "newcomer", wait: false, excluded: [] };
        }
      }
      return { ranked, reason: "cheapest_seasoned", wait: false, excluded: [] };
    },
  };
}
