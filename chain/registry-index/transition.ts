import type { Address, Hex } from "viem";
import type { HexTrieEditor } from "./hex-trie.ts";
import type { IndexedLog, ProviderChange } from "./logs.ts";
import { indexedModelKey } from "./model-keys.ts";
import { withReputation } from "./reputation.ts";
import { IndexInconsistencyError, type OpenJob, type RegistryState, type UnresolvedEnd } from "./state.ts";
import type { JobChange, OfferingRecord, ProviderRecord } from "./types.ts";

/** Chain time of a block, Unix seconds. */
export type TimestampOf = (blockNumber: number) => number;

/** A state and whose records differ from the one before. */
export interface Transition {
  readonly state: RegistryState;
  readonly touched: ReadonlySet<Address>;
}

const noOfferings: ReadonlyMap<string, OfferingRecord> = new Map();
const noReputation: ProviderRecord["reputation"] = new Map();

/**
 * The state after some logs, in chain order. Pure: the same logs on the same state give the same state, however they are cut into
 * calls.
 *
 * @throws IndexInconsistencyError when a log speaks of a provider that the state does not have.
 */
export function applyLogs(state: RegistryState, logs: Iterable<IndexedLog>, timestampOf: TimestampOf): Transition {
  const providers = state.providers.edit();
  const jobs = state.jobs.edit();
  const touched = new Set<Address>();
  let { unresolved } = state;
  for (const log of logs) {
    if (log.subject === "provider") {
      const time = (): number => timestampOf(log.place.blockNumber);
      const record = providerAfter(providers.get(log.provider), log.provider, log.change, time);
      providers.set(record.address, record);
      touched.add(record.address);
    } else {
      const end = jobAfter(providers, jobs, log, touched, state.historyComplete);
      if (end !== undefined) unresolved = { ...end, earlier: unresolved };
    }
  }
  return {
    state: { providers: providers.done(), jobs: jobs.done(), historyComplete: state.historyComplete, unresolved },
    touched,
  };
}

/** Whether a log may move `lastSeen`, so that its block's time must be known. */
export function needsTimestamp(log: IndexedLog): boolean {
  return log.subject === "provider" && log.change.type !== "slots" && log.change.type !== "deactivated";
}

function providerAfter(
  before: ProviderRecord | undefined,
  address: Address,
  change: ProviderChange,
  time: () => number,
): ProviderRecord {
  if (change.type === "registered") {
    const { operator, payout, endpoint, generation, maxConcurrentJobs } = change;
    return Object.freeze({
      address,
      operator,
      payout,
      endpoint,
      active: true,
      lastSeen: time(),
      generation,
      maxConcurrentJobs,
      openJobs: 0,
      offerings: noOfferings,
      reputation: noReputation,
    });
  }
  if (before === undefined)
    throw new IndexInconsistencyError(`an event of ${address}, which is not known to be registered`);
  switch (change.type) {
    case "slots":
      return Object.freeze({ ...before, openJobs: change.openJobs, maxConcurrentJobs: change.maxConcurrentJobs });
    case "deactivated":
      return Object.freeze({ ...before, active: false });
    case "reactivated":
      return Object.freeze({ ...before, active: true, generation: change.generation, lastSeen: time() });
    case "operator":
      return seen(before, { operator: change.operator }, time);
    case "endpoint":
      return seen(before, { endpoint: change.endpoint }, time);
    case "payout":
      return seen(before, { payout: change.payout }, time);
    case "cap":
      return seen(before, { maxConcurrentJobs: change.maxConcurrentJobs, openJobs: change.openJobs }, time);
    case "offering":
      return seen(before, { offerings: withOffering(before, offeringOf(before.address, change)) }, time);
    case "offering_removed":
      return seen(before, { offerings: withoutOffering(before, change.modelKey) }, time);
    case "seen":
      return seen(before, {}, time);
  }
}

/** The registry refreshes `lastSeen` at every act of owner or operator while the provider is active. */
function seen(before: ProviderRecord, change: Partial<ProviderRecord>, time: () => number): ProviderRecord {
  return Object.freeze({ ...before, ...change, lastSeen: before.active ? time() : before.lastSeen });
}

/**
 * An offering as a record, or undefined when its model id is not well-formed UTF-8: no request can name such a model, and several of
 * them would share one decoded id.
 */
export function offeringOf(provider: Address, fields: Omit<OfferingRecord, "provider">): OfferingRecord | undefined {
  const { offeringId, modelId, modelKey, inputPrice, outputPrice, contextLength } = fields;
  if (indexedModelKey(modelId) !== modelKey) return undefined;
  return Object.freeze({ offeringId, provider, modelId, modelKey, inputPrice, outputPrice, contextLength });
}

function withOffering(
  record: ProviderRecord,
  offering: OfferingRecord | undefined,
): ReadonlyMap<string, OfferingRecord> {
  if (offering === undefined) return record.offerings;
  return new Map(record.offerings).set(offering.modelId, offering);
}

function withoutOffering(record: ProviderRecord, modelKey: Hex): ReadonlyMap<string, OfferingRecord> {
  for (const offering of record.offerings.values()) {
    if (offering.modelKey !== modelKey) continue;
    const offerings = new Map(record.offerings);
    offerings.delete(offering.modelId);
    return offerings;
  }
  return record.offerings;
}

function jobAfter(
  providers: HexTrieEditor<ProviderRecord>,
  jobs: HexTrieEditor<OpenJob>,
  log: IndexedLog & { readonly subject: "job" },
  touched: Set<Address>,
  historyComplete: boolean,
): Omit<UnresolvedEnd, "earlier"> | undefined {
  const { jobId, change } = log;
  const record = providers.get(log.provider);
  if (record === undefined)
    throw new IndexInconsistencyError(`a job of ${log.provider}, which is not known to be registered`);
  if (change.type === "posted") {
    for (const offering of record.offerings.values()) {
      if (offering.offeringId === change.offeringId)
        jobs.set(jobId, { provider: record.address, modelId: offering.modelId });
    }
    return undefined;
  }
  if (!isEnd(change)) return undefined;
  const outcome = outcomeOf(change);
  const job = jobs.get(jobId);
  if (job === undefined) {
    // Posted before what this state knows, or for a model that is not indexed.
    return historyComplete ? undefined : { jobId, provider: record.address, ...outcome };
  }
  jobs.delete(jobId);
  const rated = rate(record, job.modelId, outcome);
  if (rated !== record) {
    providers.set(record.address, rated);
    touched.add(record.address);
  }
  return undefined;
}

/** How a job ended, for reputation. */
export type Outcome = Pick<UnresolvedEnd, "outcome" | "earned">;

/** A provider's record after one of its jobs ended. */
export function rate(record: ProviderRecord, modelId: string, { outcome, earned }: Outcome): ProviderRecord {
  if (outcome === "neither") return record;
  return withReputation(record, modelId, {
    completed: outcome === "completed" ? 1 : 0,
    failed: outcome === "failed" ? 1 : 0,
    earned,
  });
}

function isEnd(change: JobChange): boolean {
  return change.type !== "posted" && change.type !== "acknowledged" && change.type !== "cancel_requested";
}

function outcomeOf(change: JobChange): Outcome {
  if (change.type === "completed" && change.signed) return { outcome: "completed", earned: change.payment };
  if (change.type === "slashed") return { outcome: "failed", earned: 0n };
  return { outcome: "neither", earned: 0n };
}
