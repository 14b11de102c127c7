import type { Address } from "viem";
import type { ModelStatus, ProviderStatus } from "../../../protocol/status.ts";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { ReportedStatistics, SlotWeights, WeightStatistic } from "../types.ts";
import { SlotWeightTable } from "./slot-weights.ts";

/** What a provider reported of one model, with the model generation it belongs to. */
export interface ReportedModel extends ReportedStatistics {
  readonly generation: string;
  /** Monotonic ms of the receipt. */
  readonly receivedMs: number;
}

interface Receipt {
  readonly receivedMs: number;
  readonly models: readonly string[];
}

/** Reports of one model, and how often a ranking by each statistic would have noticed a change. */
interface ModelReports {
  readonly byProvider: Map<Address, ReportedModel>;
  /** Number of the last change; numbers are never used twice. */
  maxChange: number;
  meanChange: number;
  /** The same reports by slot, once a decision has asked for them so. */
  bySlot: SlotWeightTable | undefined;
}

const noWeights: SlotWeights = {
  weightsOf: (slots) => slots.map(() => 0),
  clustersOf: () => undefined,
  texts: { write: () => undefined },
};

/**
 * The newest status of each provider, dropped when it is older than the stale age. Counts, per model and statistic, the changes that
 * a ranking by that statistic would notice, so that a cached ranking is checked by one comparison of numbers.
 */
export class ReportedTable {
  readonly #staleAfterMs: number;
  /** In the order of receipt, oldest first, because every receipt is put back at its end. */
  readonly #receipts = new Map<Address, Receipt>();
  /** By model first: a decision looks up many providers of one model. */
  readonly #models = new Map<string, ModelReports>();
  #changes = 0;

  /** @param staleAfterMs Age in ms after which a status says nothing any more. */
  constructor(staleAfterMs: number) {
    this.#staleAfterMs = staleAfterMs;
  }

  /** Takes a checked status. @param nowMs Monotonic ms of its receipt. */
  put(provider: Address, status: ProviderStatus, nowMs: number): void {
    const before = this.#receipts.get(provider);
    const models = status.models.map(({ model }) => model);
    this.#receipts.delete(provider);
    this.#receipts.set(provider, { receivedMs: nowMs, models });
    for (const model of status.models) this.#set(provider, model.model, normalise(model, nowMs));
    for (const model of before?.models ?? []) if (!models.includes(model)) this.#set(provider, model, undefined);
  }

  /** Forgets a provider that left. */
  delete(provider: Address): void {
    const receipt = this.#receipts.get(provider);
    if (receipt === undefined) return;
    this.#receipts.delete(provider);
    for (const model of receipt.models) this.#set(provider, model, undefined);
  }

  /** What a provider reported of a model; undefined when nothing fresh is known. @param nowMs Monotonic ms. */
  get(provider: Address, modelId: string, nowMs: number): ReportedModel | undefined {
    const report = this.#models.get(modelId)?.byProvider.get(provider);
    return report === undefined || nowMs - report.receivedMs > this.#staleAfterMs ? undefined : report;
  }

  /** Ms since the newest status of a provider; undefined when there is none. */
  ageMs(provider: Address, nowMs: number): number | undefined {
    const receipt = this.#receipts.get(provider);
    return receipt === undefined ? undefined : nowMs - receipt.receivedMs;
  }

  /** Changes with every change, by report or by age, of a model's selected statistic or cluster at any provider; 0 without reports. */
  epoch(modelId: string, statistic: WeightStatistic, nowMs: number): number {
    this.#expire(nowMs);
    const reports = this.#models.get(modelId);
    if (reports === undefined) return 0;
    return statistic === "max-input-tps" ? reports.maxChange : reports.meanChange;
  }

  /** The selected statistic of a model by slots of a ring, the same that `get` says of their providers. For use at once. */
  slotWeights(modelId: string, statistic: WeightStatistic, slots: MemberSlots, nowMs: number): SlotWeights {
    this.#expire(nowMs);
    const reports = this.#models.get(modelId);
    if (reports === undefined) return noWeights;
    if (reports.bySlot?.slots !== slots) reports.bySlot = new SlotWeightTable(slots, reports.byProvider);
    return reports.bySlot.read(statistic);
  }

  /** Fresh reports: provider, model and what was reported. */
  *fresh(nowMs: number): IterableIterator<readonly [Address, string, ReportedModel]> {
    this.#expire(nowMs);
    for (const [modelId, { byProvider }] of this.#models) {
      for (const [provider, report] of byProvider) yield [provider, modelId, report];
    }
  }

  #expire(nowMs: number): void {
    for (const [provider, receipt] of this.#receipts) {
      if (nowMs - receipt.receivedMs <= this.#staleAfterMs) return;
      this.delete(provider);
    }
  }

  #set(provider: Address, modelId: string, report: ReportedModel | undefined): void {
    let reports = this.#models.get(modelId);
    if (reports === undefined) {
      reports = { byProvider: new Map(), maxChange: 0, meanChange: 0, bySlot: undefined };
      this.#models.set(modelId, reports);
    }
    const before = reports.byProvider.get(provider);
    if (report === undefined) reports.byProvider.delete(provider);
    else reports.byProvider.set(provider, report);
    reports.bySlot?.put(provider, report);
    // A provider may name any model: one that nobody reports must not be remembered.
    if (reports.byProvider.size === 0) this.#models.delete(modelId);
    this.#changes += 1;
    const isRegrouped = before?.clusterId !== report?.clusterId;
    if (isRegrouped || before?.maxInputTps !== report?.maxInputTps) reports.maxChange = this.#changes;
    if (isRegrouped || before?.lastMeanInputTps !== report?.lastMeanInputTps) reports.meanChange = this.#changes;
  }
}

function normalise(model: ModelStatus, receivedMs: number): ReportedModel {
  return {
    generation: model.generation,
    receivedMs,
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
