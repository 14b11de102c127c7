import type { Address, Hex } from "viem";
import type { HexTrieEditor } from "./hex-trie.ts";
import type { IndexedLog, ProviderChange } from "./logs.ts";
import { indexedModelKey } from "./model-keys.ts";
import { afterReturn, type Rating, withEnd } from "./reputation.ts";
import { IndexInconsistencyError, type JobEnd, type OpenJob, type RegistryState, type UnresolvedEnd } from "./state.ts";
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
export function applyLogs(
  state: RegistryState,
  logs: Iterable<IndexedLog>,
  timestampOf: TimestampOf,
  rating: Rating,
): Transition {
  const providers = state.providers.edit();
  const jobs = state.jobs.edit();
  const touched = new Set<Address>();
  let { unresolved } = state;
  for (const log of logs) {
    const time = (): number => timestampOf(log.place.blockNumber);
    if (log.subject === "provider") {
      const record = providerAfter(providers.get(log.provider), log.provider, log.change, time);
      providers.set(record.address, record);
      touched.add(record.address);
    } else {
      const end = jobAfter({ providers, jobs, touched, historyComplete: state.historyComplete, rating }, log, time);
      if (end !== undefined) unresolved = { ...end, earlier: unresolved };
    }
  }
  return {
    state: { providers: providers.done(), jobs: jobs.done(), historyComplete: state.historyComplete, unresolved },
    touched,
  };
}

const timelessChanges: ReadonlySet<ProviderChange["type"]> = new Set(["slots", "deactivated", "stake_slashed"]);

/** Whether a log may move `lastSeen`, so that its block's time must be known. */
export function needsTimestamp(log: IndexedLog): boolean {
  return log.subject === "provider" && !timelessChanges.has(log.change.type);
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
      stake: 0n,
      offerings: noOfferings,
      reputation: noReputation,
    });
  }
  if (before === undefined)
    throw new IndexInconsistencyError(`an event of ${address}, which is not known to be registered`);
  switch (change.type) {
    case "slots":
      return Object.freeze({ ...before, openJobs: change.openJobs, maxConcurrentJobs: change.maxConcurrentJobs });
    case "stake_slashed":
      return Object.freeze({ ...before, stake: change.stake });
    case "deactivated":
      return Object.freeze({ ...before, active: false });
    case "reactivated":
      return Object.freeze({
        ...before,
        active: true,
        generation: change.generation,
        lastSeen: time(),
        reputation: afterReturn(before.reputation),
      });
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
    case "stake":
      return seen(before, { stake: change.stake }, time);
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

/** What the event of a job may change. */
interface JobsContext {
  readonly providers: HexTrieEditor<ProviderRecord>;
  readonly jobs: HexTrieEditor<OpenJob>;
  readonly touched: Set<Address>;
  readonly historyComplete: boolean;
  readonly rating: Rating;
}

function jobAfter(
  { providers, jobs, touched, historyComplete, rating }: JobsContext,
  log: IndexedLog & { readonly subject: "job" },
  time: () => number,
): Omit<UnresolvedEnd, "earlier"> | undefined {
  const { jobId, change } = log;
  const record = providers.get(log.provider);
  if (record === undefined)
    throw new IndexInconsistencyError(`a job of ${log.provider}, which is not known to be registered`);
  if (change.type === "posted") {
    for (const { offeringId, modelId } of record.offerings.values()) {
      if (offeringId !== change.offeringId) continue;
      const { address, generation } = record;
      const { client, maxPayment } = change;
      jobs.set(jobId, { provider: address, modelId, client, maxPayment: Number(maxPayment), generation });
    }
    return undefined;
  }
  const end = endOf(change, time);
  if (end === undefined) return undefined;
  const job = jobs.get(jobId);
  if (job === undefined) {
    // Posted before what this state knows, or for a model that is not indexed.
    return historyComplete ? undefined : { jobId, provider: record.address, end, generation: record.generation };
  }
  jobs.delete(jobId);
  const rated = rate(record, job, end, record.generation, rating);
  if (rated !== record) {
    providers.set(record.address, rated);
    touched.add(record.address);
  }
  return undefined;
}

/**
 * A provider's record after one of its jobs ended. A success counts for the registration that it was posted and ended in, a fault always:
 * who leaves and returns starts anew, but not without its faults.
 *
 * @param endedIn Generation of the provider when the job ended.
 */
export function rate(
  record: ProviderRecord,
  job: OpenJob,
  { outcome, payment, time }: JobEnd,
  endedIn: number,
  rating: Rating,
): ProviderRecord {
  const { client, modelId, maxPayment, generation } = job;
  if (outcome === "neither") return record;
  if (outcome === "failed") return withEnd(record, modelId, { outcome, client, amount: maxPayment, time }, rating);
  if (generation !== endedIn || generation !== record.generation) return record;
  return withEnd(record, modelId, { outcome, client, amount: payment, time }, rating);
}

/** Undefined while the job goes on. */
function endOf(change: JobChange, time: () => number): JobEnd | undefined {
  switch (change.type) {
    case "posted":
    case "acknowledged":
    case "cancel_requested":
      return undefined;
    case "completed":
      if (change.signed) return { outcome: "completed", payment: Number(change.payment), time: time() };
      return { outcome: "neither", payment: 0, time: 0 };
    case "slashed":
      return { outcome: "failed", payment: 0, time: time() };
    case "declined":
    case "cancelled":
    case "expired":
      return { outcome: "neither", payment: 0, time: 0 };
  }
}
