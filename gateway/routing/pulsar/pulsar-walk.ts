import type { Address } from "viem";
import type { Candidate, Exclusion, PolicyInput } from "../types.ts";
import type { PulsarRanking, RankedCluster } from "./pulsar-ranker.ts";

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

/** Some clusters side by side in the ranking. */
export interface PulsarBand {
  readonly candidates: readonly PulsarCandidate[];
  /** Clusters of which nobody is free, but somebody will be once a slot is. */
  readonly full: number;
  /** False when the ranking had no cluster left. */
  readonly isThere: boolean;
}

/**
 * Walks the free candidates in the order of a ranking, gates applied; members of one cluster by their streams, because they are one
 * engine and any of them serves the key.
 */
export class PulsarWalk {
  readonly #input: PolicyInput;
  readonly #ranking: PulsarRanking;
  readonly #gates: PulsarGates;
  readonly #waiting: PulsarCandidate[] = [];
  /** Those that a gate left out. */
  readonly excluded: Exclusion[] = [];
  readonly #given: Address[] = [];
  /** Free candidates without the selected statistic that the ranking did not come to. */
  unweighted: readonly Candidate[] = [];
  #rank = 0;
  #ended = false;
  #wentBeyond = false;

  constructor(input: PolicyInput, ranking: PulsarRanking, gates: PulsarGates) {
    this.#input = input;
    this.#ranking = ranking;
    this.#gates = gates;
  }

  /** At most `count` free candidates more. */
  take(count: number): PulsarCandidate[] {
    const taken = this.#waiting.splice(0, count);
    while (taken.length < count && !this.#ended) {
      // A provider that is alone gives one candidate at most, so as many as are wanted must be looked at: those all at once.
      const alone = this.#nextAlone(count - taken.length);
      if (alone.length === 0) this.#openCluster();
      else this.#openAlone(alone);
      taken.push(...this.#waiting.splice(0, count - taken.length));
    }
    if (taken.length < count && !this.#wentBeyond) {
      this.#openBeyond();
      taken.push(...this.#waiting.splice(0, count - taken.length));
    }
    return taken;
  }

  /** Of a ranking that was left before its end: makes the free candidates wait that it has not given. */
  #openBeyond(): void {
    this.#wentBeyond = true;
    const beyond = this.#ranking.beyond?.();
    if (beyond === undefined) return;
    const given = new Set(this.#given);
    for (const found of beyond.ranked) {
      if (!given.has(found.candidate.provider)) this.#admit(found.candidate, found);
    }
    this.unweighted = beyond.unweighted;
  }

  /** The next `count` clusters of the ranking, whether somebody is free there or not. */
  takeClusters(count: number): PulsarBand {
    const candidates: PulsarCandidate[] = [];
    let full = 0;
    let clusters = 0;
    for (; clusters < count; clusters += 1) {
      const isFull = this.#openCluster();
      if (this.#ended) break;
      if (isFull) full += 1;
      candidates.push(...this.#waiting.splice(0));
    }
    return { candidates, full, isThere: clusters > 0 };
  }

  /** The next clusters as far as each is a single provider, at most `count`. */
  #nextAlone(count: number): RankedCluster[] {
    const alone: RankedCluster[] = [];
    while (alone.length < count) {
      const next = this.#ranking.at(this.#rank + alone.length);
      if (next === undefined || next.members.length !== 1) break;
      alone.push(next);
    }
    return alone;
  }

  /** Makes those of some single providers wait to be taken that are free. */
  #openAlone(clusters: readonly RankedCluster[]): void {
    const found = this.#input.pool.findAll(clusters.map(({ members }) => members[0] as number));
    for (let index = 0; index < clusters.length; index += 1) {
      const candidate = found[index];
      if (candidate !== undefined) this.#admit(candidate, clusters[index] as RankedCluster);
      this.#rank += 1;
    }
  }

  #admit(candidate: Candidate, { score }: Pick<RankedCluster, "score">): void {
    this.#given.push(candidate.provider);
    if (hasRoom(this.#input, candidate, this.#gates)) this.#waiting.push({ candidate, score, rank: this.#rank });
    else this.excluded.push({ provider: candidate.provider, reason: "kv_full" });
  }

  /** Makes the free members of the next cluster wait to be taken. True when it has none but somebody there is merely full. */
  #openCluster(): boolean {
    const next = this.#ranking.at(this.#rank);
    if (next === undefined) {
      this.#ended = true;
      return false;
    }
    const { pool } = this.#input;
    const { members } = next;
    const free: Candidate[] = [];
    for (const slot of members) {
      const candidate = pool.find(slot);
      if (candidate !== undefined) free.push(candidate);
    }
    for (const candidate of free.length > 1 ? this.#byStreams(free) : free) this.#admit(candidate, next);
    this.#rank += 1;
    return this.#waiting.length === 0 && members.some((slot) => pool.isFull(slot));
  }

  #byStreams(candidates: readonly Candidate[]): Candidate[] {
    const streams = ({ provider }: Candidate): number => this.#input.statistics.inFlight(provider);
    return candidates.toSorted((a, b) => streams(a) - streams(b));
  }
}

/** Whether the gate of the KV cache lets a candidate through. */
export function hasRoom({ statistics, request }: PolicyInput, candidate: Candidate, gates: PulsarGates): boolean {
  if (!gates.consider_kv_free_tokens) return true;
  const free = statistics.reported(candidate.provider, candidate.modelId)?.kvFreeTokens;
  return free !== undefined && free >= request.inputTokens;
}
