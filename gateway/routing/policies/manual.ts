import type { Address } from "viem";
import type { Policy } from "../types.ts";
import { choiceReason } from "./ranked.ts";

/** One provider; all checks apply to it. */
export function manualPolicy(settings: { readonly provider: Address }): Policy {
  return {
    name: "manual",
    only: settings.provider,
    rank: ({ pool }) => {
      const ranked = pool.sample(1);
      return { ranked, reason: choiceReason(ranked, "manual"), wait: false, excluded: [] };
    },
  };
}
