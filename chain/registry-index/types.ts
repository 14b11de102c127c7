import type { Address, Hex } from "viem";
import type { ClientWeights } from "./client-weights.ts";

/** One offering of a provider at one price; immutable: a changed price is another record with another id. */
export interface OfferingRecord {
  readonly offeringId: number;
  readonly provider: Address;
  readonly modelId: string;
  readonly modelKey: Hex;
  /** Wei per million input tokens. */
  readonly inputPrice: bigint;
  /** Wei per million output tokens. */
  readonly outputPrice: bigint;
  /** Tokens. */
  readonly contextLength: number;
}

/**
 * Outcomes of one provider's jobs for one model, as the chain's events tell them, decayed to one time. Only completions with the client's
 * receipt count for the provider and only proven faults (slashed with its own acknowledgement) against it.
 */
export interface ReputationRecord {
  /** Chain time as of which the weights stand, Unix seconds. */
  readonly time: number;
  /** Seconds in which they halve. */
  readonly halfLifeSeconds: number;
  /** Wei that strangers paid with receipts, by client. */
  readonly paid: ClientWeights;
  /** Wei that strangers had at stake (`maxPayment`) in jobs that failed, by client. */
  readonly failed: ClientWeights;
  /** Jobs of this process's own wallets: completed with receipt, and failed. */
  readonly ownServed: number;
  readonly ownFaults: number;
}

/** A provider as of one block. Frozen: a change makes a new object. */
export interface ProviderRecord {
  readonly address: Address;
  readonly operator: Address;
  readonly payout: Address;
  readonly endpoint: string;
  readonly active: boolean;
  /** Unix seconds, chain time. */
  readonly lastSeen: number;
  /** Grows at registration and at every return. */
  readonly generation: number;
  /** 0 = no cap. */
  readonly maxConcurrentJobs: number;
  readonly openJobs: number;
  /** Smallest units of the token that cover its jobs: staked and not unbonding. Open jobs hold a part of it, which no event tells. */
  readonly stake: bigint;
  readonly offerings: ReadonlyMap<string, OfferingRecord>;
  readonly reputation: ReadonlyMap<string, ReputationRecord>;
}

/** A provider together with its offering of the model that was asked for. */
export interface Offer {
  readonly provider: ProviderRecord;
  readonly offering: OfferingRecord;
}

/** What changed between two snapshots; cost of deriving must be proportional to it. */
export interface RegistryDelta {
  /** Addresses whose record changed, appeared or (on a reorganisation) went. */
  readonly providers: ReadonlySet<Address>;
  /** Model ids whose set of offers gained, lost or changed a member. */
  readonly models: ReadonlySet<string>;
}

/** The registry as of one block. Immutable; readers keep it as long as they like. */
export interface RegistrySnapshot {
  /** Grows by one with every published snapshot of this process. */
  readonly version: number;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  /** Chain time of the block, Unix seconds. */
  readonly blockTimestamp: number;
  /** Seconds after `lastSeen` in which a provider is live. */
  readonly timeToLive: number;
  readonly providerCount: number;
  provider(address: Address): ProviderRecord | undefined;
  providers(): Iterable<ProviderRecord>;
  /** Offers of one model in a stable order, live or not, active or not; empty when nobody offers it. */
  offers(modelId: string): readonly Offer[];
  /** Model ids with at least one offer, sorted. */
  models(): readonly string[];
}

/**
 * Derives what readers need (rings, rankings) from a snapshot and what changed. Called synchronously before the snapshot is
 * published, so a reader never sees one without the other; `previous` is the value derived for the preceding snapshot.
 */
export type Derive<D> = (snapshot: RegistrySnapshot, delta: RegistryDelta, previous: D | undefined) => D;

/** A snapshot and all that was derived from it, published at once. */
export interface Published<D> {
  readonly snapshot: RegistrySnapshot;
  readonly derived: D;
}

/** State of the index for `/readyz` and metrics. */
export interface IndexHealth {
  readonly ready: boolean;
  /** Block up to which the index is complete. */
  readonly blockNumber: number | undefined;
  /** Monotonic ms since the last successful poll; undefined before the first. */
  readonly sinceLastPollMs: number | undefined;
  readonly lastError: string | undefined;
  /** Unwound reorganisations since start. */
  readonly reorganisations: number;
  /** Providers found different by the audit since start. */
  readonly drift: number;
}

/** Where on the chain something happened. */
export interface LogPlace {
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly transactionHash: Hex;
  readonly logIndex: number;
}

/** What happened to a job, as the escrow's events tell it. Amounts in wei of the payment token, times in Unix seconds. */
export type JobChange =
  | {
      readonly type: "posted";
      readonly client: Address;
      readonly offeringId: number;
      readonly maxPayment: bigint;
      readonly unsignedLimit: bigint;
      readonly deadline: number;
    }
  | { readonly type: "acknowledged" }
  | {
      readonly type: "completed";
      readonly payment: bigint;
      readonly inputTokens: bigint;
      readonly outputTokens: bigint;
      readonly responseHash: Hex;
      /** With the client's receipt. */
      readonly signed: boolean;
    }
  | { readonly type: "declined" }
  | { readonly type: "cancel_requested"; readonly respondBy: number }
  | { readonly type: "cancelled" }
  | { readonly type: "expired" }
  | { readonly type: "slashed"; readonly burnt: bigint };

/** One event of one job. `removed`: a reorganisation took it back; it may come again in another block. */
export type JobEvent = JobChange & {
  readonly jobId: Hex;
  readonly provider: Address;
  readonly place: LogPlace;
  readonly removed: boolean;
};

/** Newest block that the index has seen. */
export interface ChainHead {
  readonly number: number;
  readonly hash: Hex;
  /** Unix seconds. */
  readonly timestamp: number;
  /** Undefined on chains without EIP-1559. */
  readonly baseFeePerGas: bigint | undefined;
}

/** The registry, kept current. One per process. */
export interface RegistryIndex<D> {
  /** Begins to follow the chain; returns at once. A chain that cannot be reached is tried again until `stop`. */
  start(): void;
  /** Ends following; resolves when nothing runs any more. Pending waits are rejected. */
  stop(): Promise<void>;
  /** The newest snapshot; undefined until the first is built. */
  current(): Published<D> | undefined;
  /** Calls back after each publication, in order of subscription; returns the way out. A listener must not throw. */
  subscribe(listener: (published: Published<D>, delta: RegistryDelta) => void): () => void;
  /** Events of jobs in blocks after the first snapshot, after the snapshot that contains them is published; in chain order. */
  onJobEvent(listener: (event: JobEvent) => void): () => void;
  /** New heads, before the snapshot of that block is published. */
  onHead(listener: (head: ChainHead) => void): () => void;
  /** The first snapshot at or after a block (0: any). Looks at once when it is not there yet. Rejects when aborted or stopped. */
  waitForBlock(blockNumber: number, signal?: AbortSignal): Promise<Published<D>>;
  /** Looks for a new block now instead of at the next poll; many calls make one look. */
  poke(): void;
  health(): IndexHealth;
}
