import { shuffle } from "../../../gateway/routing/shuffle.ts";
import type { Policy } from "../../../gateway/routing/types.ts";

/** What others do: the least loaded, ties by the best score, always the same winner. Not part of the gateway. */
export function topScorePolicy(): Policy {
  return {
    name: "least_inflight",
    rank: ({ pool, statistics }) => {
      const ranked = pool
        .sample(64)
        .map((candidate) => {
          const measured = statistics.measured(candidate.provider, candidate.modelId);
          const speed = measured?.ttftMs === undefined ? 1 : 1000 / (1000 + measured.ttftMs);
          return {
            candidate,
            load: statistics.inFlight(candidate.provider),
            score: speed * (measured?.successRatio ?? 1),
          };
        })
        .toSorted(
          (a, b) => a.load - b.load || b.score - a.score || (a.candidate.provider < b.candidate.provider ? -1 : 1),
        );
      return { ranked: ranked.map(({ candidate }) => candidate), reason: "top_score", wait: false, excluded: [] };
    },
  };
}

/** Plain least in flight: no weights, failures forgotten at once. Not part of the gateway. */
export function plainLeastInflightPolicy(): Policy {
  return {
    name: "least_inflight",
    rank: ({ pool, statistics, random }) => {
      const ranked = shuffle(pool.sample(64), random).toSorted(
        (a, b) => statistics.inFlight(a.provider) - statistics.inFlight(b.provider),
      );
      return { ranked, reason: "plain", wait: false, excluded: [] };
    },
  };
}
