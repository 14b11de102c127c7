import type { MeasuredStatistics } from "../types.ts";
import { DecayedMean, DecayedSum } from "./decayed.ts";

/**
 * How a stream ended. `success`: delivered whole. `fault`: the provider broke it or never answered. `busy`: refused for capacity.
 * `caller`: the request itself was at fault. `aborted`: the client left. Only the first two say anything of the provider's quality.
 */
export type StreamOutcome = "success" | "fault" | "busy" | "caller" | "aborted";

/** What is known of a stream at its end. */
export interface StreamEnd {
  readonly outcome: StreamOutcome;
  /** Tokens delivered. */
  readonly outputTokens?: number;
  /** Ms to the first token; what `firstToken` was told when absent. */
  readonly ttftMs?: number;
  /** Ms from acquiring to the end. */
  readonly durationMs: number;
  /**
   * The provider had bound itself to the job by its signature. Only then a fault counts in its reputation: before, the network in
   * between may be the cause.
   */
  readonly acknowledged?: boolean;
  /** False: the answer was to come in one piece, so that its first token was not to be seen. Default true. */
  readonly streamed?: boolean;
}

/** Half-lives of what is remembered of a provider and model, ms. */
export interface OutcomeHalfLives {
  readonly latencyMs: number;
  readonly outcomeMs: number;
  /** How long a failure counts as load. */
  readonly failureMs: number;
  /** How long a fault counts against a provider's reputation. */
  readonly reputationMs: number;
}

export const defaultHalfLives: OutcomeHalfLives = {
  latencyMs: 120_000,
  outcomeMs: 300_000,
  failureMs: 30_000,
  reputationMs: 604_800_000,
};

/** Faults so close together are one incident, and count once in reputation: a cable of ours may have cut all of a provider's streams. */
export const incidentMs = 600_000;

/** Successes assumed beforehand: one failure of one try is no verdict, and an old failure fades back to full trust. */
const priorSuccesses = 1;
/** Streams with fewer tokens after the first say nothing of speed. */
const leastSpeedTokens = 8;

/** Decayed outcomes of one provider and model. */
export class Outcomes {
  readonly #ttft: DecayedMean;
  readonly #tps: DecayedMean;
  readonly #successes: DecayedSum;
  readonly #faults: DecayedSum;
  readonly #recentFailures: DecayedSum;
  readonly #heldFaults: DecayedSum;
  readonly #reputationMs: number;
  #heldAtMs = Number.NEGATIVE_INFINITY;
  /** Monotonic ms of the last change. */
  touchedMs = 0;

  constructor(halfLives: OutcomeHalfLives) {
    this.#ttft = new DecayedMean(halfLives.latencyMs);
    this.#tps = new DecayedMean(halfLives.latencyMs);
    this.#successes = new DecayedSum(halfLives.outcomeMs);
    this.#faults = new DecayedSum(halfLives.outcomeMs);
    this.#recentFailures = new DecayedSum(halfLives.failureMs);
    this.#heldFaults = new DecayedSum(halfLives.reputationMs);
    this.#reputationMs = halfLives.reputationMs;
  }

  /** Takes the end of a stream. @param nowMs Monotonic ms. */
  record(end: StreamEnd, nowMs: number): void {
    this.touchedMs = nowMs;
    if (end.outcome === "success") this.#successes.add(1, nowMs);
    if (end.outcome === "fault") {
      this.#faults.add(1, nowMs);
      this.#recentFailures.add(1, nowMs);
      if (end.acknowledged === true) this.#hold(nowMs);
    }
    if (end.outcome !== "success" && end.outcome !== "aborted") return;
    this.#recordLatency(end, nowMs);
  }

  #hold(nowMs: number): void {
    if (nowMs - this.#heldAtMs < incidentMs) return;
    this.#heldAtMs = nowMs;
    this.#heldFaults.add(1, nowMs);
  }

  /** Takes a fault of long ago: it counts in reputation as far as it has not decayed, and as nothing else. */
  recallFault(agoMs: number, nowMs: number): void {
    this.#heldFaults.add(2 ** (-agoMs / this.#reputationMs), nowMs);
  }

  #recordLatency(end: StreamEnd, nowMs: number): void {
    if (end.ttftMs === undefined) {
      // An answer in one piece shows its end alone, which is as long after its first token as it is long itself.
      if (end.outcome === "success" || end.streamed === false) return;
      // The client left before the first token: the true time is longer than what it waited, so the wait may only raise the mean.
      const mean = this.#ttft.value(nowMs);
      if (mean !== undefined && end.durationMs > mean) this.#ttft.add(end.durationMs, nowMs);
      return;
    }
    this.#ttft.add(end.ttftMs, nowMs);
    const tokens = end.outputTokens ?? 0;
    const generatingMs = end.durationMs - end.ttftMs;
    if (tokens >= leastSpeedTokens && generatingMs > 0) this.#tps.add((1000 * (tokens - 1)) / generatingMs, nowMs);
  }

  /** The statistics at a time. */
  read(nowMs: number): MeasuredStatistics {
    const successes = this.#successes.value(nowMs);
    const faults = this.#faults.value(nowMs);
    return {
      ttftMs: this.#ttft.value(nowMs),
      outputTps: this.#tps.value(nowMs),
      successRatio: (successes + priorSuccesses) / (successes + faults + priorSuccesses),
      samples: successes + faults,
      recentFailures: this.#recentFailures.value(nowMs),
      faults: this.#heldFaults.value(nowMs),
    };
  }
}
