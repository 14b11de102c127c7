import type { Policy } from "../types.ts";
import { estimate } from "../widen/estimate.ts";
import { type WidenSettings, widen } from "../widen/widen.ts";
import { loadSample } from "./load-sample.ts";
import { rankedCount } from "./ranked.ts";

/** Takes the fastest now, and slower ones only as far as the wait so far has paid for the difference. */
export function waitAndWidenPolicy(settings: WidenSettings): Policy {
  return {
    name: "wait_and_widen",
    rank: ({ pool, request, statistics, random }) => {
      const estimates = loadSample(pool).map((candidate) => estimate(candidate, request, statistics));
      const outcome = widen(estimates, request.elapsedMs, settings, random);
      return {
        ranked: outcome.ranked.slice(0, rankedCount),
        reason: outcome.ranked.length > 0 ? "unlocked" : outcome.wait ? "wait_to_widen" : "none_free",
        wait: outcome.wait,
        ...(outcome.recheckMs === undefined ? {} : { recheckMs: outcome.recheckMs }),
        excluded: outcome.excluded,
      };
    },
  };
}
