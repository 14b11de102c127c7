import type { Address } from "viem";
import { noWeights, scaledWeights, sumOfWeights, withWeight } from "./client-weights.ts";
import type { ProviderRecord, ReputationRecord } from "./types.ts";

/** How outcomes are kept. */
export interface Rating {
  /** Seconds of chain time in which an outcome loses half its weight; > 0. */
  readonly halfLifeSeconds: number;
  /** Wallets of this process: their jobs are counted apart from those of strangers. */
  readonly ownClients: ReadonlySet<Address>;
}

/** The end of a job that says something of its provider. `neither`: it says nothing, whatever the client did. */
export type JobOutcome = "completed" | "failed" | "neither";

/** An outcome with all that its weight depends on. */
export interface RatedEnd {
  readonly outcome: Exclude<JobOutcome, "neither">;
  readonly client: Address;
  /** Wei: the payment when completed, `maxPayment` when failed. */
  readonly amount: number;
  /** Chain time, Unix seconds. */
  readonly time: number;
}

/** A record with nothing in it. */
function emptyReputation(time: number, halfLifeSeconds: number): ReputationRecord {
  return { time, halfLifeSeconds, paid: noWeights, failed: noWeights, ownServed: 0, ownFaults: 0 };
}

/** Share of a weight that is left after some seconds; 1 for none or less. */
export function decayOver(seconds: number, halfLifeSeconds: number): number {
  return seconds <= 0 ? 1 : 2 ** (-seconds / halfLifeSeconds);
}

/** The record as it stands at a later time; the same object at its own time or before. */
function decayedTo(record: ReputationRecord, time: number): ReputationRecord {
  if (time <= record.time) return record;
  const factor = decayOver(time - record.time, record.halfLifeSeconds);
  return {
    ...record,
    time,
    paid: scaledWeights(record.paid, factor),
    failed: scaledWeights(record.failed, factor),
    ownServed: record.ownServed * factor,
    ownFaults: record.ownFaults * factor,
  };
}

/** A provider's record after one of its jobs for a model ended. Cost: bounded by the clients that are listed. */
export function withEnd(record: ProviderRecord, modelId: string, end: RatedEnd, rating: Rating): ProviderRecord {
  const known = record.reputation.get(modelId) ?? emptyReputation(end.time, rating.halfLifeSeconds);
  const before = decayedTo(known, end.time);
  // An end that is told late has decayed since.
  const share = decayOver(before.time - end.time, rating.halfLifeSeconds);
  return withReputation(record, modelId, added(before, end, share, rating));
}

function added(before: ReputationRecord, end: RatedEnd, share: number, rating: Rating): ReputationRecord {
  const { client, amount } = end;
  if (rating.ownClients.has(client)) {
    return end.outcome === "completed"
      ? { ...before, ownServed: before.ownServed + share }
      : { ...before, ownFaults: before.ownFaults + share };
  }
  return end.outcome === "completed"
    ? { ...before, paid: withWeight(before.paid, client, amount * share) }
    : { ...before, failed: withWeight(before.failed, client, amount * share) };
}

/** A provider's record with what was found out about its past added to it. */
export function withPast(record: ProviderRecord, modelId: string, past: ReputationRecord): ProviderRecord {
  const present = record.reputation.get(modelId);
  if (present === undefined) return withReputation(record, modelId, past);
  const time = Math.max(present.time, past.time);
  const [a, b] = [decayedTo(present, time), decayedTo(past, time)];
  return withReputation(record, modelId, {
    ...a,
    paid: sumOfWeights(a.paid, b.paid),
    failed: sumOfWeights(a.failed, b.failed),
    ownServed: a.ownServed + b.ownServed,
    ownFaults: a.ownFaults + b.ownFaults,
  });
}

/** Models of one provider whose record is kept: twice as many as it can offer at a time. */
const maxModels = 128;

function withReputation(record: ProviderRecord, modelId: string, added: ReputationRecord): ProviderRecord {
  const reputation = new Map(record.reputation).set(modelId, Object.freeze(added));
  if (reputation.size > maxModels) {
    const withdrawn = [...reputation].filter(([id]) => id !== modelId && !record.offerings.has(id));
    const oldest = withdrawn.toSorted(([, a], [, b]) => a.time - b.time)[0];
    if (oldest !== undefined) reputation.delete(oldest[0]);
  }
  return Object.freeze({ ...record, reputation });
}

/** What is left of a provider's reputation when it returns: what speaks for it is void, what speaks against it stays and decays. */
export function afterReturn(reputation: ProviderRecord["reputation"]): ProviderRecord["reputation"] {
  const left = new Map<string, ReputationRecord>();
  for (const [modelId, record] of reputation) {
    if (record.failed.total === 0 && record.ownFaults === 0) continue;
    left.set(modelId, Object.freeze({ ...record, paid: noWeights, ownServed: 0 }));
  }
  return left;
}
