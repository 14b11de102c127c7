import type { Candidate, Exclusion, PolicyInput } from "../types.ts";
import type { PulsarRanking } from "./pulsar-ranker.ts";

/** A free candidate in the order of a Pulsar ranking. */
export interface PulsarCandidate {
  readonly candidate: Candidate;
  readonly score: number;
  /** Place of its cluster in the ranking; 0 is the owner. */
  readonly rank: number;
}

/** The gates that stand between a ranking and a choice. */
export interface PulsarGates {
  /** Skip those with unknown or fewer free tokens of KV cache than the input. */
  readonly consider_kv_free_tokens: boolean;
}

/**
 * Free candidates in the order of the ranking, gates applied; members of one cluster by their streams, because they are one engine and
 * any of them serves the key. Those left out are added to `excluded`.
 */
export function* pulsarCandidates(
  input: PolicyInput,
  ranking: PulsarRanking,
  gates: PulsarGates,
  excluded: Exclusion[],
): IterableIterator<PulsarCandidate> {
  let rank = 0;
  for (const { cluster, score } of ranking.clusters) {
    const members =
      cluster.members.length === 1
        ? cluster.members
        : cluster.members.toSorted((a, b) => input.statistics.inFlight(a) - input.statistics.inFlight(b));
    for (const provider of members) {
      const candidate = input.pool.find(provider);
      if (candidate === undefined) continue;
      if (gates.consider_kv_free_tokens && !hasRoom(input, candidate)) excluded.push({ provider, reason: "kv_full" });
      else yield { candidate, score, rank };
    }
    rank += 1;
  }
}

function hasRoom({ statistics, request }: PolicyInput, candidate: Candidate): boolean {
  const free = statistics.reported(candidate.provider, candidate.modelId)?.kvFreeTokens;
  return free !== undefined && free >= request.inputTokens;
}
