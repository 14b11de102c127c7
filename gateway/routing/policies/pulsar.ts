import { PulsarRanker, type PulsarRankingSettings } from "../pulsar/pulsar-ranker.ts";
import { type PulsarGates, PulsarWalk } from "../pulsar/pulsar-walk.ts";
import { unmeasuredCandidate, type Unweighted } from "../pulsar/unmeasured.ts";
import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, Exclusion, Policy, PolicyInput, Ranking } from "../types.ts";
import { keyedCount } from "./ranked.ts";

/** Settings of `pulsar`. */
export type PulsarSettings = PulsarRankingSettings &
  PulsarGates & {
    /** Share of requests that go to a free provider without any statistic, so that it comes to have one. */
    readonly explore: number;
  };

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
      const answer: Ranking = {
        ranked: chosen.map(({ candidate }) => candidate),
        reason:
          ranking.isEqual && chosen.length > 0 ? "no_statistics" : reasonOf(chosen[0]?.rank, input.request.affinityKey),
        wait: false,
        excluded: walk.excluded,
        scores: new Map(chosen.map(({ candidate, score }) => [candidate.provider, score])),
      };
      return withUnranked(answer, input, ring, { slots: ranking.unweighted, candidates: walk.unweighted }, settings);
    },
  };
}

/**
 * What a ranking says of those that it left out for lack of the statistic: they are named, and one that was never measured is asked
 * first in a small share of the requests, and when no ranked one is free. It answers from then on for itself.
 */
export function withUnranked(
  answer: Ranking,
  input: PolicyInput,
  ring: HashRing,
  unweighted: Unweighted,
  settings: PulsarSettings,
): Ranking {
  // Whoever waits for its owner goes on waiting.
  const share = answer.ranked.length > 0 ? settings.explore : answer.wait ? 0 : 1;
  const explored = unmeasuredCandidate(input, ring, unweighted, settings, share);
  const excluded: Exclusion[] = [...answer.excluded];
  const leftOut =
    answer.ranked.length > 0 ? unweighted.slots : unweighted.slots.filter((slot) => input.pool.find(slot));
  const providers = new Set(leftOut.map((slot) => ring.addressOf(slot)));
  for (const { provider } of unweighted.candidates) providers.add(provider);
  for (const provider of providers) {
    if (provider !== explored?.provider) excluded.push({ provider, reason: "no_statistic" });
  }
  if (explored !== undefined) {
    const ranked: Candidate[] = [explored, ...answer.ranked];
    return { ...answer, ranked, reason: "measure_unknown", wait: false, excluded };
  }
  // Who could serve but has not reported yet is followed and will: that is no reason to say that nobody serves the model.
  return { ...answer, wait: answer.wait || (answer.ranked.length === 0 && excluded.length > 0), excluded };
}

function reasonOf(rank: number | undefined, key: string | undefined): string {
  if (rank === undefined) return "none_ranked";
  if (key === undefined) return "no_key";
  return rank === 0 ? "pulsar_owner" : "pulsar_successor";
}
