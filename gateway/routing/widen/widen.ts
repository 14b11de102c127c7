import type { Random } from "../../../protocol/clock.ts";
import { shuffle } from "../shuffle.ts";
import type { Candidate, Exclusion } from "../types.ts";
import type { Estimate } from "./estimate.ts";

/** Settings of wait-and-widen; times in ms. */
export interface WidenSettings {
  /** Longest queue that a new request accepts, and one that has waited for the whole `slo_ms`. Both absent: no queue limits. */
  readonly queue_limit_floor_ms?: number | undefined;
  readonly queue_limit_ceil_ms?: number | undefined;
  readonly slo_ms: number;
  /** Candidates this much slower than the fastest are as good as it. */
  readonly bucket_ms: number;
  /** Part of a gap in time to first token that must have been waited before the slower side is unlocked. */
  readonly gap_cost: number;
  /** Streams that may wait at a provider beyond its slots. */
  readonly max_queued: number;
  /** How many of the unlocked are drawn; the fastest of them wins. */
  readonly choices: number;
}

/** What came of one set of candidates. */
export interface WidenOutcome {
  /** The choice first, then the other unlocked ones by time to first token; empty when there is no choice now. */
  readonly ranked: readonly Candidate[];
  /** Whether a longer wait may unlock somebody. */
  readonly wait: boolean;
  readonly excluded: readonly Exclusion[];
}

/** One round of wait-and-widen over some candidates. @param elapsedMs Ms that the request has waited. */
export function widen(
  estimates: readonly Estimate[],
  elapsedMs: number,
  settings: WidenSettings,
  random: Random,
): WidenOutcome {
  const excluded: Exclusion[] = [];
  const limit = queueLimit(elapsedMs, settings);
  const queuedLittle = estimates.filter(({ candidate, queueMs }) => {
    const isOver = queueMs !== undefined && queueMs > limit;
    if (isOver) excluded.push({ provider: candidate.provider, reason: "queue_over_limit" });
    return !isOver;
  });
  // Shuffled first, so that equal estimates come in random order.
  const byTtft = shuffle(queuedLittle, random).toSorted((a, b) => a.ttftMs - b.ttftMs);
  const unlocked = byTtft.slice(0, unlockedCount(byTtft, elapsedMs, settings));
  const able = unlocked.filter(({ candidate, running }) => {
    const isFull = candidate.maxConcurrentJobs !== 0 && running >= candidate.maxConcurrentJobs + settings.max_queued;
    if (isFull) excluded.push({ provider: candidate.provider, reason: "at_capacity" });
    return !isFull;
  });
  if (able.length === 0) return { ranked: [], wait: estimates.length > 0, excluded };
  const chosen = drawBest(able, settings.choices, random);
  const rest = able.filter((other) => other !== chosen);
  return { ranked: [chosen, ...rest].map(({ candidate }) => candidate), wait: false, excluded };
}

/** `floor + (ceil - floor) * clamp(elapsed / slo, 0, 1)`. */
function queueLimit(elapsedMs: number, settings: WidenSettings): number {
  const { queue_limit_floor_ms: floor, queue_limit_ceil_ms: ceil } = settings;
  if (floor === undefined && ceil === undefined) return Number.POSITIVE_INFINITY;
  const from = floor ?? 0;
  const to = ceil ?? Number.POSITIVE_INFINITY;
  const share = Math.min(1, Math.max(0, elapsedMs / settings.slo_ms));
  return share === 0 ? from : from + (to - from) * share;
}

/** How many of the candidates, fastest first, the elapsed time has paid for. */
function unlockedCount(byTtft: readonly Estimate[], elapsedMs: number, settings: WidenSettings): number {
  const fastest = byTtft[0]?.ttftMs;
  if (fastest === undefined) return 0;
  let paid = 0;
  let before = fastest;
  for (let index = 1; index < byTtft.length; index += 1) {
    const ttftMs = (byTtft[index] as Estimate).ttftMs;
    if (ttftMs - fastest > settings.bucket_ms) {
      paid += (ttftMs - before) * settings.gap_cost;
      if (paid > elapsedMs) return index;
    }
    before = ttftMs;
  }
  return byTtft.length;
}

/** The fastest of some drawn without replacement. */
function drawBest(able: readonly Estimate[], choices: number, random: Random): Estimate {
  const drawn = able.length <= choices ? able : shuffle(able, random).slice(0, choices);
  return drawn.reduce((best, other) => (other.ttftMs < best.ttftMs ? other : best));
}
