import type { Address } from "viem";
import type { Policy } from "../types.ts";

/** One provider; all checks apply to it. */
export function manualPolicy(settings: { readonly provider: Address }): Policy {
  return {
    name: "manual",
    only: settings.provider,
    rank: ({ pool }) => ({ ranked: pool.sample(1), reason: "manual", wait: false, excluded: [] }),
  };
}
