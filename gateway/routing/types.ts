import type { Address } from "viem";
import type { Published } from "../../chain/registry-index/types.ts";
import type { Random } from "../../protocol/clock.ts";
import type { Reputation, Standing } from "./reputation.ts";
import type { HashRing } from "./ring/hash-ring.ts";
import type { Fields } from "./hash/field-table.ts";
import type { MemberSlots } from "./ring/member-slots.ts";
import type { JobCollateral } from "./stake.ts";
import type { RoutingState } from "./state.ts";

/** Strategies by their configured name. */
export const policyNames = [
  "cheapest",
  "top_rep_cheapest",
  "manual",
  "least_inflight",
  "consistent_hash",
  "prefix_hash",
  "pulsar",
  "wait_and_widen",
  "pulsar_wait_and_widen",
] as const;
export type PolicyName = (typeof policyNames)[number];

/** Most entries of `ranked`, `busy` and `excluded`: a decision is bounded work and a bounded record however many providers there are. */
export const maxListed = 32;

/** One provider with the offering that would serve the request. */
export interface Candidate {
  readonly provider: Address;
  readonly generation: number;
  readonly endpoint: string;
  readonly modelId: string;
  readonly offeringId: number;
  readonly inputPrice: bigint;
  readonly outputPrice: bigint;
  readonly contextLength: number;
  /** 0 = no cap. */
  readonly maxConcurrentJobs: number;
  readonly openJobs: number;
  /** Wei of stake, that which open jobs hold included. */
  readonly stake: bigint;
  /** For this model, at these prices. */
  readonly reputation: Reputation;
}

/** What selection may know of a request. */
export interface RoutingRequest {
  /** undefined: any model will do (`model` absent or `auto`). */
  readonly modelId: string | undefined;
  /** Likely prompt tokens. */
  readonly inputTokens: number;
  /** Likely answer tokens (`max_tokens`). */
  readonly outputTokens: number;
  /** Explicit key that keeps a conversation on one provider. */
  readonly affinityKey: string | undefined;
  /** First 1,024 characters of the conversation, for `prefix_hash`. */
  readonly routingText: string;
  /** Ms since the request arrived. */
  readonly elapsedMs: number;
  /** Providers that already failed this request. */
  readonly tried: ReadonlySet<Address>;
  /** Highest price of either kind, wei per million tokens; undefined = no limit. */
  readonly maxPrice: bigint | undefined;
  /** What the job would hold of a candidate's stake; absent: nothing. */
  readonly collateral?: JobCollateral;
}

/** What this gateway and the providers' signed status know, read at the moment of a decision. All optional values are absent while unknown. */
export interface LiveStatistics {
  /**
   * Streams open plus posts unconfirmed of this gateway at this provider, all models; with `generation`, those of that registration
   * only. A lease is taken before the post, so it counts both.
   */
  inFlight(provider: Address, generation?: number): number;
  /** The same for one model; absent: `inFlight` stands in. */
  modelInFlight?(provider: Address, modelId: string): number;
  /** The same over all providers, of one model or (undefined) of all; absent: the sum is taken over the members asked about. */
  totalInFlight?(modelId: string | undefined): number;
  /** Prompt tokens of this gateway's streams that have no first token yet: what a provider's next status will show as queued. */
  pendingInputTokens?(provider: Address, modelId: string): number;
  /** Posts of this gateway that are not yet in the index's `openJobs`. */
  unconfirmedPosts(provider: Address): number;
  /**
   * Whether the provider is known to be full though the index does not show it yet: it refused a post of this gateway for capacity in a
   * block that the index has not reached. Absent: nothing is known beside the index.
   */
  knownFull?(provider: Address): boolean;
  /** Whether the provider has said that it shuts down. Absent: none has. */
  isDraining?(provider: Address): boolean;
  /** Decayed outcomes of one provider and model. */
  measured(provider: Address, modelId: string): MeasuredStatistics | undefined;
  /** False when no failure of the provider is remembered: spares a look at its outcomes. Absent: any may have failed. */
  hasFailed?(provider: Address): boolean;
  /** From the provider's signed status, fresh ones only. */
  reported(provider: Address, modelId: string): ReportedStatistics | undefined;
  /** Changes whenever the selected statistic of a model changes at any provider; absent: rankings are checked weight by weight. */
  weightEpoch?(modelId: string, statistic: WeightStatistic): number;
  /**
   * The selected statistic of a model as `reported` has it, by slots of a ring; for use at once. Absent: each provider is asked for.
   */
  slotWeights?(modelId: string, statistic: WeightStatistic, slots: MemberSlots): SlotWeights;
  /** Round trip to the provider's region, ms; 0 when unknown. */
  roundTripMs(provider: Address): number;
  /** Whether the gateway refuses to call the provider's endpoint (a private address, a broken URL). Absent: none is refused. */
  endpointRefused?(provider: Address): boolean;
}

/** Which statistic of a provider's status weighs it. */
export type WeightStatistic = "max-input-tps" | "last-mean-input-tps";

/** Weights of one model's providers by their slots. */
export interface SlotWeights {
  /** Input tokens per second of each of some slots; 0 where nothing fresh is known. */
  weightsOf(slots: readonly number[]): number[];
  /** The engines that some providers share, undefined for those that are alone; undefined when all of them are. */
  clustersOf(slots: readonly number[]): (string | undefined)[] | undefined;
  /** The addresses of providers that have a weight, by their slots. */
  readonly texts: Fields;
}

export interface MeasuredStatistics {
  /** Decayed mean time to first token, ms. */
  readonly ttftMs: number | undefined;
  /** Decayed mean output tokens per second. */
  readonly outputTps: number | undefined;
  /** Decayed success ratio 0..1. */
  readonly successRatio: number;
  /** Decayed weight of samples behind it. */
  readonly samples: number;
  /** Decayed number of recent failures: counts as load. */
  readonly recentFailures: number;
  /** Decayed number of faults with the half-life of reputation. */
  readonly faults: number;
}

export interface ReportedStatistics {
  readonly lastMeanInputTps: number | undefined;
  readonly maxInputTps: number | undefined;
  readonly running: number | undefined;
  readonly queuedInputTokens: number | undefined;
  readonly kvFreeTokens: number | undefined;
  readonly clusterId: string | undefined;
}

/** Why one provider was left out. A bounded word: also a metric label. */
export type ExclusionReason =
  | "inactive"
  | "stale"
  | "price_above_limit"
  | "context_too_small"
  | "already_tried"
  | "at_capacity"
  /** Its whole stake does not cover this request's job, so the chain would refuse it. */
  | "insufficient_stake"
  /** Shuts down by its own word: back when it says so, or has registered or come to life anew. */
  | "draining"
  | "not_manual_provider"
  | "no_statistic"
  | "kv_full"
  | "queue_over_limit"
  | "endpoint_refused"
  /** Fails most of its requests: left out while anybody else is there, but for one probe at a time. */
  | "suspect";

export interface Exclusion {
  readonly provider: Address;
  readonly reason: ExclusionReason;
}

/** How many candidates were left out, by reason. Reasons that left out none are absent. */
export type ExclusionCounts = Readonly<Partial<Record<ExclusionReason, number>>>;

/** A policy's answer. `ranked` empty with `wait` true: nothing may be chosen yet, ask again on the next wake. */
export interface Ranking {
  /** Best first, at most `maxListed`. */
  readonly ranked: readonly Candidate[];
  /** Named branch of the policy: metric label and debug field. Bounded. */
  readonly reason: string;
  readonly wait: boolean;
  /** With `wait`: ms after which time alone may give a choice; absent: only a change of the providers can. */
  readonly recheckMs?: number;
  readonly excluded: readonly Exclusion[];
  /** Score of each ranked candidate where the policy has one, for the debug record. */
  readonly scores?: ReadonlyMap<Address, number>;
}

/**
 * The free candidates of one decision: live, with a free slot, within the limits, not tried yet. A view that works out only what is
 * asked for, because a registry may hold 100,000 providers and a decision may look at few.
 */
export interface CandidatePool {
  /** Upper bound of the number of free candidates: price, context, stake and what was tried are not regarded. */
  readonly size: number;
  /** Ring of the live providers of the model, full ones too; the wildcard ring for a request without a model. */
  readonly ring: HashRing | undefined;
  /**
   * The cheapest for this request, at most `count`, cheapest first, equal costs in random order. With a standing only those that have it
   * by the chain, and that this gateway's own outcomes do not speak against; `unblamed`: those of any standing that they do not make poor.
   */
  cheapest(count: number, standing?: Standing | "unblamed"): Candidate[];
  /** `count` of them drawn uniformly without replacement, in random order; all when there are no more. The standing as in `cheapest`. */
  sample(count: number, standing?: Standing): Candidate[];
  /** The candidate of a slot of the ring when it is free. */
  find(slot: number): Candidate | undefined;
  /** The candidates of some slots, each as `find` has it. */
  findAll(slots: readonly number[]): (Candidate | undefined)[];
  /** Whether the provider of a slot would be a candidate but for its own slots, which are all taken. */
  isFull(slot: number): boolean;
}

/** What a policy is given. */
export interface PolicyInput {
  readonly request: RoutingRequest;
  readonly pool: CandidatePool;
  readonly published: Published<RoutingState>;
  readonly statistics: LiveStatistics;
  /** Unix ms of the decision. */
  readonly nowMs: number;
  readonly random: Random;
}

/** A pure ranking: same input and random sequence, same answer. */
export interface Policy {
  readonly name: PolicyName;
  /** The one provider that the policy allows; absent: all. */
  readonly only?: Address;
  /** Its settings as text, the same for policies that answer alike; absent: it has none. */
  readonly settings?: string;
  /** Whether one request may have to wait for the provider of its key while another, with another key, need not. Absent: no. */
  readonly waitsByKey?: boolean;
  rank(input: PolicyInput): Ranking;
}

/** Result of `select`. */
export interface Selection {
  /** `ready`: ranked is not empty. `busy`: some could serve but are full or the policy waits. `none`: nobody can. */
  readonly verdict: "ready" | "busy" | "none";
  /** Best first, at most `maxListed`. When all of them failed, select again with `tried` grown. */
  readonly ranked: readonly Candidate[];
  /** Candidates that match but are full, at most `maxListed` of them. */
  readonly busy: readonly Candidate[];
  /** How many match but are full. */
  readonly busyCount: number;
  /** Who was left out and why, at most `maxListed` of them. */
  readonly excluded: readonly Exclusion[];
  /**
   * How many were left out, by reason; not bounded by `maxListed`. Price, context and stake are exact for a few hundred mixed offers and
   * estimated beyond; what only this moment knows (tried, refused, no statistic) counts those that the decision met.
   */
  readonly excludedCounts: ExclusionCounts;
  readonly policy: PolicyName;
  readonly reason: string;
  /** When the policy waits though somebody is free: ms after which to ask again, beside the wakes by freed slots. */
  readonly recheckMs?: number;
  readonly scores?: ReadonlyMap<Address, number>;
  /** Version of the snapshot that was decided on. */
  readonly version: number;
}
