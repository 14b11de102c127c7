import type { Address } from "viem";
import type { RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import type { Clock } from "../../../protocol/clock.ts";
import type { ProviderStatus } from "../../../protocol/status.ts";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { LiveStatistics, MeasuredStatistics, ReportedStatistics, SlotWeights, WeightStatistic } from "../types.ts";
import { DecayedMean } from "./decayed.ts";
import { Loads, type LoadTicket } from "./loads.ts";
import { Draining } from "./draining.ts";
import { defaultHalfLives, type OutcomeHalfLives, Outcomes, type StreamEnd } from "./outcomes.ts";
import { PendingInput } from "./pending-input.ts";
import { type PostHandle, Posts } from "./posts.ts";
import { type ReportedModel, ReportedTable } from "./reported.ts";

/** Settings of the live statistics; all have defaults. */
export interface StatisticsOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly halfLives?: OutcomeHalfLives;
  /** Ms after which a provider's status counts as unknown; default 30,000. */
  readonly statusStaleAfterMs?: number;
  /** Providers whose outcomes are remembered; default 200,000. Beyond, the one unused for longest is forgotten. */
  readonly maxRemembered?: number;
}

/** One stream at one provider, from before its post until its end. */
export interface Lease {
  /** Unique in this process. */
  readonly id: string;
  readonly provider: Address;
  readonly generation: number;
  readonly modelId: string;
  /** Tells the ms from acquiring to the first token; only the first call counts. */
  firstToken(ttftMs: number): void;
  /** Ends the stream: frees its place and takes its outcome. False, and nothing else, when it had ended already. */
  end(end: StreamEnd): boolean;
}

const roundTripHalfLifeMs = 600_000;

/** What this gateway knows of providers while it runs: its own streams and posts, their outcomes, and the providers' signed status. */
export class RoutingStatistics implements LiveStatistics {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #halfLives: OutcomeHalfLives;
  readonly #maxRemembered: number;
  readonly #loads = new Loads();
  readonly #posts = new Posts();
  readonly #pending = new PendingInput();
  readonly #reported: ReportedTable;
  /** Least recently used provider first. */
  readonly #outcomes = new Map<Address, Map<string, Outcomes>>();
  readonly #roundTrips = new Map<Address, DecayedMean>();
  readonly #refused = new Set<Address>();
  readonly #draining = new Draining();
  /** Providers of which a failure is remembered. */
  readonly #failed = new Set<Address>();
  #leases = 0;

  constructor(options: StatisticsOptions) {
    this.#clock = options.clock;
    this.#halfLives = options.halfLives ?? defaultHalfLives;
    this.#maxRemembered = options.maxRemembered ?? 200_000;
    this.#reported = new ReportedTable(options.statusStaleAfterMs ?? 30_000);
  }

  /**
   * Counts a stream at a provider until the lease ends. Take it before posting; `generation` is the candidate's.
   * @param inputTokens Likely prompt tokens: they count as queued at the provider until the first token, before its status can say so.
   */
  acquire(provider: Address, generation: number, modelId: string, inputTokens = 0): Lease {
    this.#leases += 1;
    const id = `lease-${this.#leases}`;
    const ticket: LoadTicket = this.#loads.take(provider, generation, modelId);
    const leaveQueue = this.#pending.add(provider, modelId, inputTokens);
    let firstTokenMs: number | undefined;
    return {
      id,
      provider,
      generation,
      modelId,
      firstToken: (ttftMs) => {
        leaveQueue();
        firstTokenMs ??= ttftMs;
      },
      end: (end) => {
        if (!ticket.release()) return false;
        leaveQueue();
        if (end.outcome === "fault") this.#failed.add(provider);
        const ttftMs = end.ttftMs ?? firstTokenMs;
        this.#outcomesOf(provider, modelId).record(
          ttftMs === undefined ? end : { ...end, ttftMs },
          this.#clock.monotonic(),
        );
        return true;
      },
    };
  }

  /** Counts a post until it is dropped, or mined and indexed. @param provider The first of the post's candidates. */
  openPost(provider: Address): PostHandle {
    return this.#posts.open(provider);
  }

  /**
   * A post was refused with `ProviderAtCapacity`, or the provider itself said it is full: it is left out until the index has reached the
   * block as of which that holds (the next one when the refusal came from a simulation).
   */
  noteFull(provider: Address, blockNumber: number): void {
    this.#posts.refused(provider, blockNumber);
  }

  /** Call with every snapshot that the index publishes: settles mined posts, and forgets streams of former registrations. */
  indexed(snapshot: Pick<RegistrySnapshot, "blockNumber" | "blockTimestamp" | "provider">): void {
    this.#posts.indexed(snapshot.blockNumber);
    this.#draining.indexed(snapshot);
    this.#loads.retain((provider) => snapshot.provider(provider)?.generation);
  }

  /** Takes a status whose signature was checked. */
  report(provider: Address, status: ProviderStatus): void {
    this.#reported.put(provider, status, this.#clock.monotonic());
    if (status.draining) this.#draining.add(provider);
    else this.#draining.delete(provider);
  }

  /** A provider refused a job because it shuts down. */
  noteDraining(provider: Address): void {
    this.#draining.add(provider);
  }

  /** Forgets the status of a provider that is not followed any more, and the way to it. */
  forgetReport(provider: Address): void {
    this.#reported.delete(provider);
    this.forgetRoundTrip(provider);
  }

  /** Forgets the way to a provider, which is another one since its endpoint moved. */
  forgetRoundTrip(provider: Address): void {
    this.#roundTrips.delete(provider);
  }

  /** Takes a fault that an earlier process of this gateway saw, for the provider's reputation. @param agoMs Its age. */
  recallFault(provider: Address, modelId: string, agoMs: number): void {
    this.#failed.add(provider);
    this.#outcomesOf(provider, modelId).recallFault(agoMs, this.#clock.monotonic());
  }

  /** Takes a measured round trip to a provider, ms. */
  recordRoundTrip(provider: Address, roundTripMs: number): void {
    let mean = this.#roundTrips.get(provider);
    if (mean === undefined) {
      mean = new DecayedMean(roundTripHalfLifeMs);
      this.#roundTrips.set(provider, mean);
      bound(this.#roundTrips, this.#maxRemembered);
    }
    mean.add(roundTripMs, this.#clock.monotonic());
  }

  /** Remembers whether the gateway refuses the provider's endpoint. */
  setEndpointRefused(provider: Address, refused: boolean): void {
    if (refused) this.#refused.add(provider);
    else this.#refused.delete(provider);
  }

  inFlight(provider: Address, generation?: number): number {
    return this.#loads.of(provider, generation);
  }

  modelInFlight(provider: Address, modelId: string): number {
    return this.#loads.ofModel(provider, modelId);
  }

  totalInFlight(modelId: string | undefined): number {
    return this.#loads.total(modelId);
  }

  pendingInputTokens(provider: Address, modelId: string): number {
    return this.#pending.of(provider, modelId);
  }

  unconfirmedPosts(provider: Address): number {
    return this.#posts.of(provider);
  }

  knownFull(provider: Address): boolean {
    return this.#posts.isKnownFull(provider);
  }

  isDraining(provider: Address): boolean {
    return this.#draining.size > 0 && this.#draining.has(provider);
  }

  measured(provider: Address, modelId: string): MeasuredStatistics | undefined {
    return this.#outcomes.get(provider)?.get(modelId)?.read(this.#clock.monotonic());
  }

  hasFailed(provider: Address): boolean {
    return this.#failed.size > 0 && this.#failed.has(provider);
  }

  reported(provider: Address, modelId: string): ReportedStatistics | undefined {
    return this.#reported.get(provider, modelId, this.#clock.monotonic());
  }

  weightEpoch(modelId: string, statistic: WeightStatistic): number {
    return this.#reported.epoch(modelId, statistic, this.#clock.monotonic());
  }

  slotWeights(modelId: string, statistic: WeightStatistic, slots: MemberSlots): SlotWeights {
    return this.#reported.slotWeights(modelId, statistic, slots, this.#clock.monotonic());
  }

  roundTripMs(provider: Address): number {
    return this.#roundTrips.get(provider)?.value(this.#clock.monotonic()) ?? 0;
  }

  endpointRefused(provider: Address): boolean {
    return this.#refused.size > 0 && this.#refused.has(provider);
  }

  /** Ms since the newest status of a provider. */
  statusAgeMs(provider: Address): number | undefined {
    return this.#reported.ageMs(provider, this.#clock.monotonic());
  }

  /** All fresh reports, for metrics and pages. */
  reports(): IterableIterator<readonly [Address, string, ReportedModel]> {
    return this.#reported.fresh(this.#clock.monotonic());
  }

  /** All outcomes, those of the provider used last first, for metrics and pages. */
  *outcomes(): IterableIterator<readonly [Address, string, MeasuredStatistics]> {
    const nowMs = this.#clock.monotonic();
    for (const [provider, models] of [...this.#outcomes].toReversed()) {
      for (const [modelId, outcomes] of models) yield [provider, modelId, outcomes.read(nowMs)];
    }
  }

  /** How many `outcomes` yields, without reading them. */
  get outcomeCount(): number {
    let count = 0;
    for (const models of this.#outcomes.values()) count += models.size;
    return count;
  }

  /** Measured round trips to the providers that are followed, ms, for metrics and pages. */
  *roundTrips(): IterableIterator<readonly [Address, number]> {
    for (const provider of this.#roundTrips.keys()) yield [provider, this.roundTripMs(provider)];
  }

  /** Providers with open streams, for metrics and pages. */
  *loads(): IterableIterator<readonly [Address, number]> {
    for (const provider of this.#loads.providers()) yield [provider, this.#loads.of(provider)];
  }

  #outcomesOf(provider: Address, modelId: string): Outcomes {
    const models = this.#outcomes.get(provider) ?? new Map<string, Outcomes>();
    this.#outcomes.delete(provider);
    this.#outcomes.set(provider, models);
    for (const forgotten of bound(this.#outcomes, this.#maxRemembered)) this.#failed.delete(forgotten);
    const known = models.get(modelId);
    if (known !== undefined) return known;
    const outcomes = new Outcomes(this.#halfLives);
    models.set(modelId, outcomes);
    return outcomes;
  }
}

/** Drops the oldest entries of an insertion-ordered map, and returns their keys. */
function bound<K, V>(map: Map<K, V>, limit: number): K[] {
  const dropped: K[] = [];
  for (const key of map.keys()) {
    if (map.size <= limit) break;
    map.delete(key);
    dropped.push(key);
  }
  return dropped;
}
