import type { Address, Hex } from "viem";
import type { Random } from "../../protocol/clock.ts";
import { HexTrie } from "./hex-trie.ts";
import { indexedModelKey } from "./model-keys.ts";
import { changeOffers, type OfferChange } from "./offer-list.ts";
import type { RegistryState } from "./state.ts";
import type { Offer, ProviderRecord, RegistryDelta, RegistrySnapshot } from "./types.ts";

/** The block that a snapshot is of. */
export interface SnapshotBlock {
  readonly number: number;
  readonly hash: Hex;
  /** Unix seconds. */
  readonly timestamp: number;
}

interface ModelOffers {
  readonly modelId: string;
  readonly offers: readonly Offer[];
}

const nobody: readonly Offer[] = Object.freeze([]);

/** A published state of the registry. */
export class Snapshot implements RegistrySnapshot {
  readonly version: number;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly blockTimestamp: number;
  readonly timeToLive: number;
  readonly #providers: HexTrie<ProviderRecord>;
  /** By model key. */
  readonly #models: HexTrie<ModelOffers>;
  #modelIds: readonly string[] | undefined;

  private constructor(
    version: number,
    block: SnapshotBlock,
    timeToLive: number,
    providers: HexTrie<ProviderRecord>,
    models: HexTrie<ModelOffers>,
    modelIds: readonly string[] | undefined,
  ) {
    this.version = version;
    this.blockNumber = block.number;
    this.blockHash = block.hash;
    this.blockTimestamp = block.timestamp;
    this.timeToLive = timeToLive;
    this.#providers = providers;
    this.#models = models;
    this.#modelIds = modelIds;
  }

  /** A snapshot with nobody in it, version 0, to build the first from. */
  static empty(timeToLive: number): Snapshot {
    const block: SnapshotBlock = { number: 0, hash: "0x", timestamp: 0 };
    return new Snapshot(0, block, timeToLive, HexTrie.empty<ProviderRecord>(), HexTrie.empty<ModelOffers>(), undefined);
  }

  /**
   * The next version, of another state and block. `touched` must hold every address whose record differs; the cost follows from it,
   * and from the offers of the models concerned, each copied once.
   */
  next(
    state: RegistryState,
    block: SnapshotBlock,
    touched: Iterable<Address>,
  ): { readonly snapshot: Snapshot; readonly delta: RegistryDelta } {
    const providers = new Set<Address>();
    const changes = new Map<string, { readonly key: Hex; readonly list: OfferChange[] }>();
    for (const address of touched) {
      const before = this.#providers.get(address);
      const after = state.providers.get(address);
      if (before === after) continue;
      providers.add(address);
      for (const offering of before?.offerings.values() ?? []) {
        if (after?.offerings.has(offering.modelId) !== true)
          noteChange(changes, offering.modelId, offering.modelKey, [address, undefined]);
      }
      for (const offering of after?.offerings.values() ?? []) {
        const offer = after === undefined ? undefined : Object.freeze({ provider: after, offering });
        noteChange(changes, offering.modelId, offering.modelKey, [address, offer]);
      }
    }
    const models = this.#models.edit();
    let sameModels = true;
    for (const [modelId, { key, list }] of changes) {
      const before = models.get(key);
      const offers = changeOffers(before?.offers ?? nobody, list);
      if (offers.length === 0) models.delete(key);
      else models.set(key, { modelId, offers });
      sameModels &&= (before === undefined) === (offers.length === 0);
    }
    const modelIds = sameModels ? this.#modelIds : undefined;
    const snapshot = new Snapshot(this.version + 1, block, this.timeToLive, state.providers, models.done(), modelIds);
    return { snapshot, delta: Object.freeze({ providers, models: new Set(changes.keys()) }) };
  }

  get providerCount(): number {
    return this.#providers.size;
  }

  provider(address: Address): ProviderRecord | undefined {
    return this.#providers.get(address);
  }

  providers(): Iterable<ProviderRecord> {
    return this.#providers.values();
  }

  /** Some provider; undefined when there is none. */
  sample(random: Random): ProviderRecord | undefined {
    return this.#providers.sample(random);
  }

  offers(modelId: string): readonly Offer[] {
    return this.#models.get(indexedModelKey(modelId))?.offers ?? nobody;
  }

  models(): readonly string[] {
    this.#modelIds ??= Object.freeze([...this.#models.values()].map((model) => model.modelId).toSorted());
    return this.#modelIds;
  }
}

function noteChange(
  changes: Map<string, { readonly key: Hex; readonly list: OfferChange[] }>,
  modelId: string,
  key: Hex,
  change: OfferChange,
): void {
  const model = changes.get(modelId);
  if (model === undefined) changes.set(modelId, { key, list: [change] });
  else model.list.push(change);
}
