import { type PulsarGates, PulsarWalk } from "../pulsar/pulsar-walk.ts";
import { PulsarRanker, type PulsarRankingSettings } from "../pulsar/pulsar-ranker.ts";
import type { Policy } from "../types.ts";
import { keyedCount } from "./ranked.ts";

/** Settings of `pulsar`. */
export type PulsarSettings = PulsarRankingSettings & PulsarGates;

/** Weighted rendezvous: a key's owner is drawn in proportion to throughput and stays while members and weights stay. */
export function pulsarPolicy(settings: PulsarSettings): Policy {
  const ranker = new PulsarRanker(settings);
  return {
    name: "pulsar",
    rank: (input) => {
      const { ring } = input.pool;
      if (ring === undefined) return { ranked: [], reason: "no_ring", wait: false, excluded: [] };
      const ranking = ranker.rank(input, ring);
      const walk = new PulsarWalk(input, ranking, settings);
      const chosen = walk.take(keyedCount);
      for (const provider of ranking.unweighted) walk.excluded.push({ provider, reason: "no_statistic" });
      return {
        ranked: chosen.map(({ candidate }) => candidate),
        reason: reasonOf(chosen[0]?.rank, input.request.affinityKey),
        // Who has not reported yet is followed and will: that is no reason to say that nobody serves the model.
        wait: chosen.length === 0 && walk.excluded.length > 0,
        excluded: walk.excluded,
        scores: new Map(chosen.map(({ candidate, score }) => [candidate.provider, score])),
      };
    },
  };
}

function reasonOf(rank: number | undefined, key: string | undefined): string {
  if (rank === undefined) return "none_ranked";
  if (key === undefined) return "no_key";
  return rank === 0 ? "pulsar_owner" : "pulsar_successor";
}
