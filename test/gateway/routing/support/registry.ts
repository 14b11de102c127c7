import { type Address, getAddress, pad, toHex } from "viem";
import { noWeights } from "../../../../chain/registry-index/client-weights.ts";
import type {
  Offer,
  OfferingRecord,
  ProviderRecord,
  Published,
  RegistrySnapshot,
  ReputationRecord,
} from "../../../../chain/registry-index/types.ts";
import { deriveRoutingState, type RoutingState } from "../../../../gateway/routing/state.ts";

/** A checksummed address from a small number. */
export function addressOf(index: number): Address {
  return getAddress(pad(toHex(index), { size: 20 }));
}

/** What a test says of a provider; the rest has quiet defaults. */
export interface ProviderSketch {
  readonly address: Address;
  readonly endpoint?: string;
  readonly models?: Readonly<Record<string, OfferSketch>>;
  readonly active?: boolean;
  readonly lastSeen?: number;
  readonly generation?: number;
  readonly maxConcurrentJobs?: number;
  readonly openJobs?: number;
  readonly stake?: bigint;
}

export interface OfferSketch {
  readonly inputPrice?: bigint;
  readonly outputPrice?: bigint;
  readonly contextLength?: number;
  /** Jobs of the gateway's own wallet. */
  readonly completed?: number;
  readonly failed?: number;
  /** In place of those: the whole record. */
  readonly reputation?: ReputationRecord;
}

/** A record of jobs of the gateway's own wallet. */
export function ownRecord(ownServed: number, ownFaults: number, time = 1000): ReputationRecord {
  return { time, halfLifeSeconds: 604_800, paid: noWeights, failed: noWeights, ownServed, ownFaults };
}

export const testModel = "test/model";

/** A provider record; without `models` it offers `testModel`. */
export function providerRecord(sketch: ProviderSketch): ProviderRecord {
  const offerings = new Map<string, OfferingRecord>();
  const reputation = new Map<string, ReputationRecord>();
  for (const [modelId, offer] of Object.entries(sketch.models ?? { [testModel]: {} })) {
    offerings.set(modelId, {
      offeringId: 1,
      provider: sketch.address,
      modelId,
      modelKey: pad("0x01", { size: 32 }),
      inputPrice: offer.inputPrice ?? 100n,
      outputPrice: offer.outputPrice ?? 200n,
      contextLength: offer.contextLength ?? 32_768,
    });
    if (offer.reputation !== undefined) reputation.set(modelId, offer.reputation);
    else if (offer.completed !== undefined || offer.failed !== undefined) {
      reputation.set(modelId, ownRecord(offer.completed ?? 0, offer.failed ?? 0, sketch.lastSeen ?? 1000));
    }
  }
  return {
    address: sketch.address,
    operator: sketch.address,
    payout: sketch.address,
    endpoint: sketch.endpoint ?? `https://${sketch.address}.example`,
    active: sketch.active ?? true,
    lastSeen: sketch.lastSeen ?? 1000,
    generation: sketch.generation ?? 1,
    maxConcurrentJobs: sketch.maxConcurrentJobs ?? 0,
    openJobs: sketch.openJobs ?? 0,
    stake: sketch.stake ?? 10n ** 24n,
    offerings,
    reputation,
  };
}

export interface SnapshotOptions {
  readonly version?: number;
  readonly blockTimestamp?: number;
  readonly timeToLive?: number;
}

/** A snapshot that holds exactly these records. */
export function snapshotOf(records: Iterable<ProviderRecord>, options: SnapshotOptions = {}): RegistrySnapshot {
  const byAddress = new Map([...records].map((record) => [record.address, record]));
  const offers = new Map<string, Offer[]>();
  for (const provider of byAddress.values()) {
    for (const offering of provider.offerings.values()) {
      const list = offers.get(offering.modelId) ?? [];
      list.push({ provider, offering });
      offers.set(offering.modelId, list);
    }
  }
  return {
    version: options.version ?? 1,
    blockNumber: 1,
    blockHash: pad("0x01", { size: 32 }),
    blockTimestamp: options.blockTimestamp ?? 1000,
    timeToLive: options.timeToLive ?? 600,
    providerCount: byAddress.size,
    provider: (address) => byAddress.get(address),
    providers: () => byAddress.values(),
    offers: (modelId) => offers.get(modelId) ?? [],
    models: () => [...offers.keys()].toSorted(),
  };
}

/** A snapshot and what routing derives from it, as the index publishes them. */
export function publish(sketches: readonly ProviderSketch[], options: SnapshotOptions = {}): Published<RoutingState> {
  const snapshot = snapshotOf(sketches.map(providerRecord), options);
  const delta = {
    providers: new Set(sketches.map((sketch) => sketch.address)),
    models: new Set(snapshot.models()),
  };
  return { snapshot, derived: deriveRoutingState(snapshot, delta, undefined) };
}
