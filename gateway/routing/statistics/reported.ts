import type { Address } from "viem";
import type { ProviderStatus } from "../../../protocol/status.ts";
import type { ReportedStatistics, WeightStatistic } from "../types.ts";

/** What a provider reported of one model, with the model generation it belongs to. */
export interface ReportedModel extends ReportedStatistics {
  readonly generation: string;
}

interface Entry {
  readonly receivedMs: number;
  readonly models: ReadonlyMap<string, ReportedModel>;
}

/**
 * The newest status of each provider, dropped when it is older than the stale age. Counts, per model and statistic, the changes that
 * a ranking by that statistic would notice, so that a cached ranking is checked by one comparison of numbers.
 */
export class ReportedTable {
  readonly #staleAfterMs: number;
  /** In the order of receipt, oldest first, because every entry is put back at its end. */
  readonly #entries = new Map<Address, Entry>();
  readonly #epochs = new Map<string, { max: number; mean: number }>();

  /** @param staleAfterMs Age in ms after which a status says nothing any more. */
  constructor(staleAfterMs: number) {
    this.#staleAfterMs = staleAfterMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Takes a checked status. @param nowMs Monotonic ms of its receipt. */
  put(provider: Address, status: ProviderStatus, nowMs: number): void {
    const before = this.#entries.get(provider)?.models;
    const models = new Map(status.models.map((model) => [model.model, normalise(model)]));
    this.#entries.delete(provider);
    this.#entries.set(provider, { receivedMs: nowMs, models });
    this.#noteChanges(before, models);
  }

  /** Forgets a provider that left. */
  delete(provider: Address): void {
    const before = this.#entries.get(provider)?.models;
    if (this.#entries.delete(provider)) this.#noteChanges(before, undefined);
  }

  /** What a provider reported of a model; undefined when nothing fresh is known. @param nowMs Monotonic ms. */
  get(provider: Address, modelId: string, nowMs: number): ReportedModel | undefined {
    const entry = this.#entries.get(provider);
    if (entry === undefined || nowMs - entry.receivedMs > this.#staleAfterMs) return undefined;
    return entry.models.get(modelId);
  }

  /** Ms since the newest status of a provider; undefined when there is none. */
  ageMs(provider: Address, nowMs: number): number | undefined {
    const entry = this.#entries.get(provider);
    return entry === undefined ? undefined : nowMs - entry.receivedMs;
  }

  /** Grows with every change, by report or by age, of a model's selected statistic or cluster at any provider. */
  epoch(modelId: string, statistic: WeightStatistic, nowMs: number): number {
    this.#expire(nowMs);
    const epochs = this.#epochs.get(modelId);
    if (epochs === undefined) return 0;
    return statistic === "max-input-tps" ? epochs.max : epochs.mean;
  }

  /** Fresh entries, oldest first. */
  *fresh(nowMs: number): IterableIterator<readonly [Address, ReadonlyMap<string, ReportedModel>]> {
    for (const [provider, entry] of this.#entries) {
      if (nowMs - entry.receivedMs <= this.#staleAfterMs) yield [provider, entry.models];
    }
  }

  #expire(nowMs: number): void {
    for (const [provider, entry] of this.#entries) {
      if (nowMs - entry.receivedMs <= this.#staleAfterMs) return;
      this.#entries.delete(provider);
      this.#noteChanges(entry.models, undefined);
    }
  }

  #noteChanges(
    before: ReadonlyMap<string, ReportedModel> | undefined,
    after: ReadonlyMap<string, ReportedModel> | undefined,
  ): void {
    for (const modelId of new Set([...(before?.keys() ?? []), ...(after?.keys() ?? [])])) {
      const old = before?.get(modelId);
      const now = after?.get(modelId);
      const regrouped = old?.clusterId !== now?.clusterId;
      const epochs = this.#epochs.get(modelId) ?? { max: 0, mean: 0 };
      if (regrouped || old?.maxInputTps !== now?.maxInputTps) epochs.max += 1;
      if (regrouped || old?.lastMeanInputTps !== now?.lastMeanInputTps) epochs.mean += 1;
      this.#epochs.set(modelId, epochs);
    }
  }
}

function normalise(model: ProviderStatus["models"][number]): ReportedModel {
  return {
    generation: model.generation,
    lastMeanInputTps: rate(model.lastMeanInputTps),
    maxInputTps: rate(model.maxInputTps),
    running: count(model.running),
    queuedInputTokens: count(model.queuedInputTokens),
    kvFreeTokens: count(model.kvFreeTokens),
    clusterId: model.clusterId === "" ? undefined : model.clusterId,
  };
}

/** A rate that is absent, not finite or not positive is no value. */
function rate(value: number | undefined): number | undefined {
  return value !== undefined && Number.isFinite(value) && value > 0 ? value : undefined;
}

function count(value: number | undefined): number | undefined {
  return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
}
