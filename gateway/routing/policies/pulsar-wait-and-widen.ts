import type { Address } from "viem";
import { PulsarRanker } from "../pulsar/pulsar-ranker.ts";
import { type PulsarBand, PulsarWalk } from "../pulsar/pulsar-walk.ts";
import type { Candidate, Policy, PolicyInput, Ranking } from "../types.ts";
import { estimate } from "../widen/estimate.ts";
import { type WidenSettings, widen } from "../widen/widen.ts";
import { type PulsarSettings, withUnranked } from "./pulsar.ts";
import { rankedCount } from "./ranked.ts";

/** Settings of `pulsar_wait_and_widen`. */
export interface PulsarWidenSettings extends PulsarSettings, WidenSettings {
  /**
   * Ms that a request waits in line for each band before the next one is opened to it; 0: the next band at once. With patience the bands
   * are cut from the whole ranking, full clusters too: the owner that is full for a moment is worth a short wait, because another one
   * would compute the whole prompt anew and push somebody else's prefix out of its cache. A request without an affinity key does not
   * wait: it has no owner.
   */
  readonly band_patience_ms: number;
  /** Each band gets so many times the patience of the one before. */
  readonly band_patience_growth: number;
}

/** Clusters walked in bands of 1, 2, 4, 8, 16 and 32. */
const mostBands = 6;
/** Once a band has a choice, later bands are only for the case that it fails: no more than give so many in all. */
const enoughRanked = 2;

/**
 * Walks the Pulsar ranking in disjoint bands of 1, 2, 4, 8, ... and applies wait-and-widen inside each; the first band with a choice
 * wins. Without queue limits an owner with a free slot wins outright.
 */
export function pulsarWaitAndWidenPolicy(settings: PulsarWidenSettings): Policy {
  const ranker = new PulsarRanker(settings);
  return {
    name: "pulsar_wait_and_widen",
    waitsByKey: settings.band_patience_ms > 0,
    rank: (input) => {
      const { ring } = input.pool;
      if (ring === undefined) return { ranked: [], reason: "no_ring", wait: false, excluded: [] };
      const ranking = ranker.rank(input, ring);
      const walk = new PulsarWalk(input, ranking, settings);
      const answer = walkBands(input, walk, settings);
      const reason = ranking.isEqual && answer.ranked.length > 0 ? "no_statistics" : answer.reason;
      const unweighted = { slots: ranking.unweighted, candidates: walk.unweighted };
      return withUnranked({ ...answer, reason }, input, ring, unweighted, settings);
    },
  };
}

function walkBands(
  input: PolicyInput,
  walk: PulsarWalk,
  settings: PulsarWidenSettings,
  patienceMs = patienceOf(input.request, settings),
): Ranking {
  const { request, statistics, random } = input;
  const scores = new Map<Address, number>();
  const ranked: Candidate[] = [];
  const { excluded } = walk;
  let wait = false;
  let recheckMs = Number.POSITIVE_INFINITY;
  let firstBand: number | undefined;
  for (let band = 0; band < mostBands && ranked.length < enoughRanked; band += 1) {
    const { candidates, full, isThere } = nextBand(walk, band, patienceMs);
    if (!isThere) break;
    for (const { candidate, score } of candidates) scores.set(candidate.provider, score);
    const estimates = candidates.map(({ candidate }) => estimate(candidate, request, statistics));
    const outcome = widen(estimates, request.elapsedMs, settings, random);
    excluded.push(...outcome.excluded);
    if (outcome.ranked.length > 0) firstBand ??= band;
    ranked.push(...outcome.ranked);
    wait ||= outcome.wait || full > 0;
    recheckMs = Math.min(recheckMs, outcome.recheckMs ?? Number.POSITIVE_INFINITY);
    if (patienceMs === 0) continue;
    // With patience a band is left only when nobody in it can ever serve, or when it has had its time.
    if (ranked.length > 0) break;
    const opensMs = bandOpensMs(band + 1, patienceMs, settings.band_patience_growth) - request.elapsedMs;
    if (wait && opensMs > 0) {
      recheckMs = Math.min(recheckMs, opensMs);
      break;
    }
  }
  if (patienceMs > 0 && ranked.length === 0 && !wait) {
    // Nobody in any band can ever serve: whoever else can is as good as an owner.
    const { reason, ...others } = walkBands(input, walk, settings, 0);
    return { ...others, reason: reason === "pulsar_owner" ? "widened_band" : reason };
  }
  const waits = wait && ranked.length === 0;
  return {
    ranked: ranked.slice(0, rankedCount),
    reason: reasonOf(firstBand, waits),
    wait: waits,
    ...(waits && Number.isFinite(recheckMs) ? { recheckMs } : {}),
    excluded,
    scores,
  };
}

/** 0 for a request without an owner to wait for, and when every band has had its time: then any free candidate will do. */
function patienceOf(
  { affinityKey, elapsedMs }: PolicyInput["request"],
  { band_patience_ms: patienceMs, band_patience_growth: growth }: PulsarWidenSettings,
): number {
  return affinityKey === undefined || elapsedMs >= bandOpensMs(mostBands, patienceMs, growth) ? 0 : patienceMs;
}

/** Ms of waiting after which a band is opened: `patience (1 + growth + growth^2 + ...)`, one term for each band before it. */
function bandOpensMs(band: number, patienceMs: number, growth: number): number {
  return patienceMs * (growth === 1 ? band : (growth ** band - 1) / (growth - 1));
}

/** Bands of the free candidates; with patience, of the ranking as it is. */
function nextBand(walk: PulsarWalk, band: number, patienceMs: number): PulsarBand {
  if (patienceMs > 0) return walk.takeClusters(2 ** band);
  const candidates = walk.take(2 ** band);
  return { candidates, full: 0, isThere: candidates.length > 0 };
}

function reasonOf(band: number | undefined, waits: boolean): string {
  if (band === undefined) return waits ? "wait_to_widen" : "none_ranked";
  return band === 0 ? "pulsar_owner" : "widened_band";
}
