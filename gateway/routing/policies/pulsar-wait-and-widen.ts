import { PulsarWalk } from "../pulsar/pulsar-candidates.ts";
import { PulsarRanker } from "../pulsar/pulsar-ranker.ts";
import type { Candidate, Policy } from "../types.ts";
import { estimate } from "../widen/estimate.ts";
import { type WidenSettings, widen } from "../widen/widen.ts";
import type { PulsarSettings } from "./pulsar.ts";
import { rankedCount } from "./ranked.ts";

/** Candidates walked in bands of 1, 2, 4, 8, 16 and 32. */
const mostWalked = 63;
/** Once a band has a choice, later bands are only for the case that it fails: no more than give so many in all. */
const enoughRanked = 4;

/**
 * Walks the Pulsar ranking in disjoint bands of 1, 2, 4, 8, ... and applies wait-and-widen inside each; the first band with a choice
 * wins. Without queue limits an owner with a free slot wins outright.
 */
export function pulsarWaitAndWidenPolicy(settings: PulsarSettings & WidenSettings): Policy {
  const ranker = new PulsarRanker(settings);
  return {
    name: "pulsar_wait_and_widen",
    rank: (input) => {
      const { ring } = input.pool;
      if (ring === undefined) return { ranked: [], reason: "no_ring", wait: false, excluded: [] };
      const ranking = ranker.rank(input, ring);
      const walk = new PulsarWalk(input, ranking, settings);
      const { excluded } = walk;
      const scores = new Map<`0x${string}`, number>();
      const ranked: Candidate[] = [];
      let wait = false;
      let firstBand: number | undefined;
      let walked = 0;
      for (let band = 0; walked < mostWalked && ranked.length < enoughRanked; band += 1) {
        const members = walk.take(2 ** band);
        if (members.length === 0) break;
        walked += members.length;
        for (const { candidate, score } of members) scores.set(candidate.provider, score);
        const estimates = members.map(({ candidate }) => estimate(candidate, input.request, input.statistics));
        const outcome = widen(estimates, input.request.elapsedMs, settings, input.random);
        wait ||= outcome.wait;
        excluded.push(...outcome.excluded);
        if (outcome.ranked.length > 0) firstBand ??= band;
        ranked.push(...outcome.ranked);
      }
      for (const provider of ranking.unweighted) excluded.push({ provider, reason: "no_statistic" });
      return {
        ranked: ranked.slice(0, rankedCount),
        reason: reasonOf(firstBand, wait),
        wait: wait && ranked.length === 0,
        excluded,
        scores,
      };
    },
  };
}

function reasonOf(band: number | undefined, wait: boolean): string {
  if (band === undefined) return wait ? "wait_to_widen" : "none_ranked";
  return band === 0 ? "pulsar_owner" : "widened_band";
}
