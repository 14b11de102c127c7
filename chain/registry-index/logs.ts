import {
  type Abi,
  type AbiEvent,
  type AbiParameter,
  type AbiParameterToPrimitiveType,
  type Address,
  decodeAbiParameters,
  getAddress,
  type Hex,
  toEventSelector,
} from "viem";
import { jobEscrowAbi } from "../abi/job-escrow.ts";
import { providerRegistryAbi } from "../abi/provider-registry.ts";
import { cached } from "./bounded-cache.ts";
import type { JobChange, LogPlace } from "./types.ts";

/** A log as `eth_getLogs` returns it. */
export interface RpcLog {
  readonly address: Address;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly blockNumber: Hex;
  readonly blockHash: Hex;
  readonly transactionHash: Hex;
  readonly logIndex: Hex;
  /** Unix seconds; only newer nodes tell. */
  readonly blockTimestamp?: Hex;
}

/** What an event does to a provider's record. */
export type ProviderChange =
  | {
      readonly type: "registered";
      readonly operator: Address;
      readonly payout: Address;
      readonly generation: number;
      readonly maxConcurrentJobs: number;
      readonly endpoint: string;
    }
  | { readonly type: "deactivated" }
  | { readonly type: "reactivated"; readonly generation: number }
  | { readonly type: "operator"; readonly operator: Address }
  | { readonly type: "endpoint"; readonly endpoint: string }
  | { readonly type: "payout"; readonly payout: Address }
  /** Owner or operator acted, and nothing else of the record changed. */
  | { readonly type: "seen" }
  | { readonly type: "stake"; readonly stake: bigint }
  /** Taken by the market: no act of owner or operator. */
  | { readonly type: "stake_slashed"; readonly stake: bigint }
  | { readonly type: "cap"; readonly maxConcurrentJobs: number; readonly openJobs: number }
  | { readonly type: "slots"; readonly maxConcurrentJobs: number; readonly openJobs: number }
  | {
      readonly type: "offering";
      readonly offeringId: number;
      readonly modelKey: Hex;
      readonly modelId: string;
      readonly inputPrice: bigint;
      readonly outputPrice: bigint;
      readonly contextLength: number;
    }
  | { readonly type: "offering_removed"; readonly modelKey: Hex };

/** One event of registry or escrow that the index follows. */
export type IndexedLog =
  | {
      readonly subject: "provider";
      readonly provider: Address;
      readonly change: ProviderChange;
      readonly place: LogPlace;
    }
  | {
      readonly subject: "job";
      readonly jobId: Hex;
      readonly provider: Address;
      readonly change: JobChange;
      readonly place: LogPlace;
    };

type Followed =
  | { readonly subject: "provider"; readonly provider: Address; readonly change: ProviderChange }
  | { readonly subject: "job"; readonly jobId: Hex; readonly provider: Address; readonly change: JobChange };

type Decoder = (topics: readonly Hex[], data: Hex) => Followed;

/** Types of the parameters that are in the log's data, in order. */
type Unindexed<P extends readonly unknown[]> = P extends readonly [infer Head, ...infer Tail]
  ? Head extends { readonly indexed: true }
    ? Unindexed<Tail>
    : [Head extends AbiParameter ? AbiParameterToPrimitiveType<Head> : never, ...Unindexed<Tail>]
  : [];

/**
 * A decoder of one event, found by its topic in a prepared table: viem's own `decodeEventLog` hashes the whole ABI again for every
 * log. `build` gets the indexed values as their 32-byte topics and the others decoded, in the order of the event.
 */
function decoder<const A extends Abi, N extends string>(
  abi: A,
  name: N,
  build: (
    topics: readonly Hex[],
    values: Unindexed<Extract<A[number], { readonly type: "event"; readonly name: N }>["inputs"]>,
  ) => Followed,
): readonly [Hex, Decoder] {
  const event = abi.find((item): item is AbiEvent => item.type === "event" && item.name === name);
  if (event === undefined) throw new Error(`the ABI has no event ${name}`);
  const parameters = event.inputs.filter((input) => input.indexed !== true);
  return [toEventSelector(event), (topics, data) => build(topics, decodeAbiParameters(parameters, data) as never)];
}

/** A checksum is a hash; the same addresses come again and again. */
const addressOfTopic = cached(1 << 17, (topic: Hex): Address => getAddress(`0x${topic.slice(26)}`));

function addressIn(topic: Hex | undefined): Address {
  if (topic === undefined) throw new Error("a log lacks a topic");
  return addressOfTopic(topic);
}

function wordIn(topic: Hex | undefined): Hex {
  if (topic === undefined) throw new Error("a log lacks a topic");
  return topic;
}

function ofProvider(topics: readonly Hex[], change: ProviderChange): Followed {
  return { subject: "provider", provider: addressIn(topics[1]), change };
}

/** Every job event names the job first; its provider is the second or, when posted, the third indexed value. */
function ofJob(topics: readonly Hex[], change: JobChange): Followed {
  return {
    subject: "job",
    jobId: wordIn(topics[1]),
    provider: addressIn(topics[change.type === "posted" ? 3 : 2]),
    change,
  };
}

const seen: ProviderChange = { type: "seen" };

const registryDecoders: ReadonlyMap<Hex, Decoder> = new Map([
  decoder(providerRegistryAbi, "ProviderRegistered", (topics, [payout, generation, maxConcurrentJobs, endpoint]) =>
    ofProvider(topics, {
      type: "registered",
      operator: addressIn(topics[2]),
      payout,
      generation,
      maxConcurrentJobs,
      endpoint,
    }),
  ),
  decoder(providerRegistryAbi, "ProviderDeactivated", (topics) => ofProvider(topics, { type: "deactivated" })),
  decoder(providerRegistryAbi, "ProviderReactivated", (topics, [generation]) =>
    ofProvider(topics, { type: "reactivated", generation }),
  ),
  decoder(providerRegistryAbi, "OperatorChanged", (topics) =>
    ofProvider(topics, { type: "operator", operator: addressIn(topics[3]) }),
  ),
  decoder(providerRegistryAbi, "EndpointChanged", (topics, [endpoint]) =>
    ofProvider(topics, { type: "endpoint", endpoint }),
  ),
  decoder(providerRegistryAbi, "PayoutChanged", (topics, [payout]) => ofProvider(topics, { type: "payout", payout })),
  decoder(providerRegistryAbi, "Heartbeat", (topics) => ofProvider(topics, seen)),
  decoder(providerRegistryAbi, "Staked", (topics, [, stake]) => ofProvider(topics, { type: "stake", stake })),
  decoder(providerRegistryAbi, "UnbondingStarted", (topics, [, stake]) => ofProvider(topics, { type: "stake", stake })),
  decoder(providerRegistryAbi, "StakeSlashed", (topics, [, stake]) =>
    ofProvider(topics, { type: "stake_slashed", stake }),
  ),
  decoder(providerRegistryAbi, "StakeWithdrawn", (topics) => ofProvider(topics, seen)),
  decoder(providerRegistryAbi, "MaxConcurrentJobsUpdated", (topics, [, maxConcurrentJobs, openJobs]) =>
    ofProvider(topics, { type: "cap", maxConcurrentJobs, openJobs }),
  ),
  decoder(providerRegistryAbi, "SlotsChanged", (topics, [openJobs, maxConcurrentJobs]) =>
    ofProvider(topics, { type: "slots", maxConcurrentJobs, openJobs }),
  ),
  decoder(providerRegistryAbi, "OfferingSet", (topics, [offeringId, inputPrice, outputPrice, contextLength, modelId]) =>
    ofProvider(topics, {
      type: "offering",
      offeringId,
      modelKey: wordIn(topics[2]),
      modelId,
      inputPrice,
      outputPrice,
      contextLength,
    }),
  ),
  decoder(providerRegistryAbi, "OfferingRemoved", (topics) =>
    ofProvider(topics, { type: "offering_removed", modelKey: wordIn(topics[2]) }),
  ),
]);

const escrowDecoders: ReadonlyMap<Hex, Decoder> = new Map([
  decoder(jobEscrowAbi, "JobPosted", (topics, [offeringId, maxPayment, unsignedLimit, deadline]) =>
    ofJob(topics, { type: "posted", client: addressIn(topics[2]), offeringId, maxPayment, unsignedLimit, deadline }),
  ),
  decoder(jobEscrowAbi, "JobAcknowledged", (topics) => ofJob(topics, { type: "acknowledged" })),
  decoder(jobEscrowAbi, "JobCompleted", (topics, [payment, inputTokens, outputTokens, responseHash, signed]) =>
    ofJob(topics, { type: "completed", payment, inputTokens, outputTokens, responseHash, signed }),
  ),
  decoder(jobEscrowAbi, "JobDeclined", (topics) => ofJob(topics, { type: "declined" })),
  decoder(jobEscrowAbi, "JobCancelRequested", (topics, [respondBy]) =>
    ofJob(topics, { type: "cancel_requested", respondBy }),
  ),
  decoder(jobEscrowAbi, "JobCancelled", (topics) => ofJob(topics, { type: "cancelled" })),
  decoder(jobEscrowAbi, "JobExpired", (topics) => ofJob(topics, { type: "expired" })),
  decoder(jobEscrowAbi, "JobSlashed", (topics, [burnt]) => ofJob(topics, { type: "slashed", burnt })),
]);

/** The two contracts that are followed. */
export interface Contracts {
  readonly registry: Address;
  readonly escrow: Address;
}

/** What a log says, or undefined when the index has no use for it. Throws on a log that does not fit its own event. */
export function decodeLog(contracts: Contracts, log: RpcLog): IndexedLog | undefined {
  const [selector] = log.topics;
  if (selector === undefined) return undefined;
  const from = log.address.toLowerCase();
  let decoders: ReadonlyMap<Hex, Decoder>;
  if (from === contracts.registry.toLowerCase()) decoders = registryDecoders;
  else if (from === contracts.escrow.toLowerCase()) decoders = escrowDecoders;
  else return undefined;
  const decode = decoders.get(selector);
  if (decode === undefined) return undefined;
  const place: LogPlace = {
    blockNumber: Number(log.blockNumber),
    blockHash: log.blockHash,
    transactionHash: log.transactionHash,
    logIndex: Number(log.logIndex),
  };
  return { ...decode(log.topics, log.data), place };
}

/** A log as published to those who follow jobs; undefined for logs of providers. */
export function isJobLog(log: IndexedLog): log is IndexedLog & { readonly subject: "job" } {
  return log.subject === "job";
}
