import type { Random } from "../../../protocol/clock.ts";
import { shuffle } from "../shuffle.ts";
import { statusPaceMs } from "../status-pace.ts";
import type { Candidate, Exclusion } from "../types.ts";
import type { Estimate } from "./estimate.ts";

/** Settings of wait-and-widen; times in ms. */
export interface WidenSettings {
  /** Longest queue that a new request accepts, and one that has waited for the whole `slo_ms`; absent: 0 and any. Both absent: no limits. */
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
  /** With `wait`: ms after which time or a newer status may give a choice; absent when there was nobody to judge. */
  readonly recheckMs?: number;
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
  const byTtft = inOrder(queuedLittle, random);
  const { count, nextMs } = unlock(byTtft, elapsedMs, settings);
  const unlocked = byTtft.slice(0, count);
  const able = unlocked.filter(({ candidate, running }) => {
    const isFull = candidate.maxConcurrentJobs !== 0 && running >= candidate.maxConcurrentJobs + settings.max_queued;
    if (isFull) excluded.push({ provider: candidate.provider, reason: "at_capacity" });
    return !isFull;
  });
  if (able.length === 0) {
    // A queue limit rises steadily: there is no single moment at which it lets somebody in.
    const limitMs = queuedLittle.length < estimates.length ? limitStepMs : Number.POSITIVE_INFINITY;
    const statusMs = unlocked.length > 0 ? statusPaceMs : Number.POSITIVE_INFINITY;
    const recheckMs = Math.min(nextMs ?? Number.POSITIVE_INFINITY, limitMs, statusMs);
    return {
      ranked: [],
      wait: estimates.length > 0,
      excluded,
      ...(Number.isFinite(recheckMs) ? { recheckMs } : {}),
    };
  }
  const chosen = drawBest(able, settings.choices, random);
  const rest = able.filter((other) => other !== chosen);
  return { ranked: [chosen, ...rest].map(({ candidate }) => candidate), wait: false, excluded };
}

/** By time to first token, equal ones in random order. One alone, as the owner of a key is, costs nothing. */
function inOrder(estimates: readonly Estimate[], random: Random): readonly Estimate[] {
  if (estimates.length < 2) return estimates;
  return shuffle(estimates, random).toSorted((a, b) => a.ttftMs - b.ttftMs);
}

/** `floor + (ceil - floor) * clamp(elapsed / slo, 0, 1)`; without a ceiling the floor until then, and no limit after. */
function queueLimit(elapsedMs: number, settings: WidenSettings): number {
  const { queue_limit_floor_ms: floor, queue_limit_ceil_ms: ceil } = settings;
  const share = Math.min(1, Math.max(0, elapsedMs / settings.slo_ms));
  const from = floor ?? 0;
  if (ceil !== undefined) return from + (ceil - from) * share;
  return floor === undefined || share === 1 ? Number.POSITIVE_INFINITY : from;
}

const limitStepMs = 100;

/** How many of the candidates, fastest first, the elapsed time has paid for, and in how many ms it will have paid for one more. */
function unlock(
  byTtft: readonly Estimate[],
  elapsedMs: number,
  settings: WidenSettings,
): { readonly count: number; readonly nextMs: number | undefined } {
  const fastest = byTtft[0]?.ttftMs ?? 0;
  let price = 0;
  let before = fastest;
  for (let index = 1; index < byTtft.length; index += 1) {
    const { ttftMs } = byTtft[index] as Estimate;
    if (ttftMs - fastest > settings.bucket_ms) {
      price += (ttftMs - before) * settings.gap_cost;
      if (price > elapsedMs) return { count: index, nextMs: price - elapsedMs };
    }
    before = ttftMs;
  }
  return { count: byTtft.length, nextMs: undefined };
}

/** The fastest of some drawn without replacement. */
function drawBest(able: readonly Estimate[], choices: number, random: Random): Estimate {
  const drawn = able.length <= choices ? able : shuffle(able, random).slice(0, choices);
  return drawn.reduce((best, other) => (other.ttftMs < best.ttftMs ? other : best));
}
