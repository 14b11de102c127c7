import type { Address } from "viem";
import { HexTrie } from "./hex-trie.ts";
import type { JobOutcome } from "./reputation.ts";
import type { ProviderRecord } from "./types.ts";

/** What must be remembered of a job until it ends: events of its end name neither model nor client. */
export interface OpenJob {
  readonly provider: Address;
  readonly modelId: string;
  readonly client: Address;
  /** Wei. */
  readonly maxPayment: number;
  /** Of the provider's registration when it was posted. */
  readonly generation: number;
}

/** How and when a job ended, for reputation. */
export interface JobEnd {
  readonly outcome: JobOutcome;
  /** Wei paid with a receipt. */
  readonly payment: number;
  /** Chain time, Unix seconds. */
  readonly time: number;
}

/** The end of a job that was posted before the part of history that this state knows. Newest first, linked, so that versions share it. */
export interface UnresolvedEnd {
  readonly jobId: string;
  readonly provider: Address;
  readonly end: JobEnd;
  /** Of the provider's registration when it ended. */
  readonly generation: number;
  readonly earlier: UnresolvedEnd | undefined;
}

/** Registry and open jobs as of one block. Immutable; versions share what did not change. */
export interface RegistryState {
  /** By address. */
  readonly providers: HexTrie<ProviderRecord>;
  /** By job id. */
  readonly jobs: HexTrie<OpenJob>;
  /** False while the state was read from pages and the events before it are not folded in yet: reputations are then partial. */
  readonly historyComplete: boolean;
  /** Ends to be looked up once history is known; empty when it is complete. */
  readonly unresolved: UnresolvedEnd | undefined;
}

/** The state before the first event. */
export const genesisState: RegistryState = Object.freeze({
  providers: HexTrie.empty<ProviderRecord>(),
  jobs: HexTrie.empty<OpenJob>(),
  historyComplete: true,
  unresolved: undefined,
});

/** The state of a registry whose providers were read from views; `historyComplete` when nothing before counts or comes. */
export function stateFromRecords(records: Iterable<ProviderRecord>, historyComplete: boolean): RegistryState {
  const providers = HexTrie.empty<ProviderRecord>().edit();
  for (const record of records) providers.set(record.address, record);
  return { providers: providers.done(), jobs: HexTrie.empty<OpenJob>(), historyComplete, unresolved: undefined };
}

/** The state does not fit the events that follow it: it must be built again from the chain. */
export class IndexInconsistencyError extends Error {
  override readonly name = "IndexInconsistencyError";
}
