import type { Candidate, MeasuredStatistics, Policy } from "../types.ts";
import { weightedOrder } from "../weighted-order.ts";
import { loadSample } from "./load-sample.ts";
import { choiceReason, rankedCount } from "./ranked.ts";

/** Settings of `least_inflight`. */
export interface LeastInflightSettings {
  /** Share of choices that go to an idle candidate of which no recent measurement is known. */
  readonly explore: number;
}

interface Judged {
  readonly candidate: Candidate;
  readonly load: number;
  readonly score: number;
  readonly isUnknown: boolean;
}

/**
 * Weighted random among the least loaded: no deterministic tie-break, so traffic that never overlaps still spreads. Load is
 * `(streams + recent failures + 1) / slots`, so a large machine gets its share and one that fails fast does not attract the traffic.
 */
export function leastInflightPolicy(settings: LeastInflightSettings): Policy {
  return {
    name: "least_inflight",
    rank: ({ pool, statistics, random }) => {
      const sample = loadSample(pool);
      // Looked up for all before one is judged: what is known of each lies far apart, and is fetched for several at once.
      const measured = sample.map(({ provider, modelId }) => statistics.measured(provider, modelId));
      const streams = sample.map(({ provider, generation }) => statistics.inFlight(provider, generation));
      const judged = sample.map((candidate, at) => judge(candidate, measured[at], streams[at] ?? 0));
      const explored = random() < settings.explore ? pickUnknown(judged, random()) : undefined;
      const least = Math.min(...judged.map(({ load }) => load));
      const tied = judged.filter(({ load }) => load === least);
      const others = judged.filter(({ load }) => load !== least).toSorted((a, b) => a.load - b.load);
      const drawn = tied.length === 1 ? tied : weightedOrder(tied, ({ score }) => score, random);
      const order = [...drawn, ...others];
      const ranked = explored === undefined ? order : [explored, ...order.filter((other) => other !== explored)];
      const reason = explored !== undefined ? "measure_unknown" : tied.length === 1 ? "least_loaded" : "weighted_draw";
      return {
        ranked: ranked.slice(0, rankedCount).map(({ candidate }) => candidate),
        reason: choiceReason(sample, reason),
        wait: false,
        excluded: [],
        scores: new Map(ranked.slice(0, rankedCount).map(({ candidate, score }) => [candidate.provider, score])),
      };
    },
  };
}

function judge(candidate: Candidate, measured: MeasuredStatistics | undefined, inFlight: number): Judged {
  // Rounded, so that the last trace of an old failure does not outweigh an equal machine without one.
  const failures = Math.round(measured?.recentFailures ?? 0);
  // A machine without a cap has said nothing of its size.
  const slots = candidate.maxConcurrentJobs === 0 ? 1 : candidate.maxConcurrentJobs;
  return {
    candidate,
    load: (inFlight + failures + 1) / slots,
    score: scoreOf(measured),
    isUnknown: inFlight === 0 && failures === 0 && (measured === undefined || measured.samples < 1),
  };
}

/** Keeps every live provider measured. */
const scoreFloor = 0.05;
/** Time to first token at which the score is half. */
const halfScoreMs = 1000;

/** In [0.05, 1]: falls with time to first token and with failures; 1 while nothing is known. */
function scoreOf(measured: MeasuredStatistics | undefined): number {
  if (measured === undefined) return 1;
  const speed = measured.ttftMs === undefined ? 1 : halfScoreMs / (halfScoreMs + measured.ttftMs);
  return Math.max(scoreFloor, measured.successRatio * speed);
}

function pickUnknown(judged: readonly Judged[], draw: number): Judged | undefined {
  const unknown = judged.filter(({ isUnknown }) => isUnknown);
  return unknown[Math.floor(draw * unknown.length)];
}
