import type { Candidate, LiveStatistics, Policy } from "../types.ts";
import { weightedOrder } from "../weighted-order.ts";

/** Weighted random among the least loaded. */
export function leastInflightPolicy(): Policy {
  return {
    name: "least_inflight",
    rank: ({ candidates, statistics, random }) => {
      const loads = new Map(candidates.map((candidate) => [candidate, loadOf(candidate, statistics)]));
      const levels = [...new Set(loads.values())].toSorted((a, b) => a - b);
      const ranked: Candidate[] = [];
      let reason = "least_loaded";
      for (const level of levels) {
        const tied = candidates.filter((candidate) => loads.get(candidate) === level);
        if (ranked.length === 0) reason = tied.length === 1 ? "least_loaded" : "weighted_draw";
        ranked.push(...weightedOrder(tied, (candidate) => scoreOf(candidate, statistics), random));
      }
      return { ranked, reason, wait: false, excluded: [] };
    },
  };
}

/** Streams of this gateway and recent failures, over the number of slots where it is known. */
function loadOf(candidate: Candidate, statistics: LiveStatistics): number {
  const failures = statistics.measured(candidate.provider, candidate.modelId)?.recentFailures ?? 0;
  const slots = candidate.maxConcurrentJobs === 0 ? 1 : candidate.maxConcurrentJobs;
  return (statistics.inFlight(candidate.provider) + failures + 1) / slots;
}

const scoreFloor = 0.05;

function scoreOf(candidate: Candidate, statistics: LiveStatistics): number {
  const measured = statistics.measured(candidate.provider, candidate.modelId);
  if (measured === undefined) return 1;
  return Math.max(scoreFloor, measured.successRatio);
}
