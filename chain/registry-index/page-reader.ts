import type { Address, PublicClient, ReadContractReturnType } from "viem";
import { providerRegistryAbi } from "../abi/provider-registry.ts";
import { chainUnavailableIn } from "../rpc-errors.ts";
import { offeringOf } from "./transition.ts";
import type { OfferingRecord, ProviderRecord } from "./types.ts";

type ProviderView = ReadContractReturnType<typeof providerRegistryAbi, "providerOf">;
type OfferingView = ReadContractReturnType<typeof providerRegistryAbi, "offeringsPage">[number];

/** A provider as its views tell it; reputation, which no view knows, is empty. */
export function recordFromViews(provider: ProviderView, offerings: readonly OfferingView[]): ProviderRecord {
  const records = new Map<string, OfferingRecord>();
  for (const view of offerings) {
    const offering = offeringOf(provider.owner, view);
    if (offering !== undefined) records.set(offering.modelId, offering);
  }
  return Object.freeze({
    address: provider.owner,
    operator: provider.operator,
    payout: provider.payout,
    endpoint: provider.endpoint,
    active: provider.active,
    lastSeen: provider.lastSeen,
    generation: provider.generation,
    maxConcurrentJobs: provider.maxConcurrentJobs,
    openJobs: provider.openJobs,
    stake: provider.stake,
    offerings: records,
    reputation: new Map(),
  });
}

/** Providers and offerings of one call: the contract's own bound. */
const pageSize = 100;
/** Pages that are asked for at once. */
const lanes = 4;

/** Reads the registry's views as of one block. */
export class PageReader {
  readonly #client: PublicClient;
  readonly #registry: Address;
  /** Calls bundled into one `eth_call`; halved when a node refuses so many. */
  #bundle = pageSize;

  constructor(client: PublicClient, registry: Address) {
    this.#client = client;
    this.#registry = registry;
  }

  /** Seconds after `lastSeen` in which a provider is live: fixed at deployment. */
  async timeToLive(): Promise<number> {
    return Number(
      await this.#client.readContract({
        address: this.#registry,
        abi: providerRegistryAbi,
        functionName: "timeToLive",
      }),
    );
  }

  /** Every provider, in pages. For N providers about N / 50 calls of the node. */
  async allProviders(blockNumber: number): Promise<readonly ProviderRecord[]> {
    const at = { address: this.#registry, abi: providerRegistryAbi, blockNumber: BigInt(blockNumber) } as const;
    const count = Number(await this.#client.readContract({ ...at, functionName: "providerCount" }));
    const pages: (readonly ProviderRecord[])[] = [];
    const offsets = Array.from({ length: Math.ceil(count / pageSize) }, (_, page) => page * pageSize);
    let next = 0;
    const work = async (): Promise<void> => {
      for (let page = next++; page < offsets.length; page = next++) {
        const offset = BigInt(offsets[page] ?? 0);
        const views = await this.#client.readContract({
          ...at,
          functionName: "providersPage",
          args: [offset, BigInt(pageSize)],
        });
        pages[page] = await this.#withOfferings(views, blockNumber);
      }
    };
    await Promise.all(Array.from({ length: lanes }, work));
    return pages.flat();
  }

  /** Some providers, for the audit; those that are not registered at that block are left out. */
  async someProviders(addresses: readonly Address[], blockNumber: number): Promise<readonly ProviderRecord[]> {
    const at = { address: this.#registry, abi: providerRegistryAbi, blockNumber: BigInt(blockNumber) } as const;
    const views: ProviderView[] = [];
    for (const address of addresses) {
      views.push(await this.#client.readContract({ ...at, functionName: "providerOf", args: [address] }));
    }
    return await this.#withOfferings(views, blockNumber);
  }

  async #withOfferings(providers: readonly ProviderView[], blockNumber: number): Promise<readonly ProviderRecord[]> {
    const offering = providers.filter((provider) => provider.offeringCount > 0);
    const offerings = new Map<Address, readonly OfferingView[]>();
    for (let from = 0; from < offering.length; ) {
      const owners = offering.slice(from, from + this.#bundle).map((provider) => provider.owner);
      const pages = await this.#offeringsOf(owners, blockNumber);
      if (pages === undefined) continue;
      for (const [index, owner] of owners.entries()) offerings.set(owner, pages[index] ?? []);
      from += owners.length;
    }
    return providers.map((provider) => recordFromViews(provider, offerings.get(provider.owner) ?? []));
  }

  /** The offerings of some providers in one call; undefined when the node refused the bundle and a smaller one is to be tried. */
  async #offeringsOf(
    owners: readonly Address[],
    blockNumber: number,
  ): Promise<readonly (readonly OfferingView[])[] | undefined> {
    const calls = owners.map((owner) => ({
      address: this.#registry,
      abi: providerRegistryAbi,
      functionName: "offeringsPage" as const,
      args: [owner, 0n, BigInt(pageSize)] as const,
    }));
    const [only] = calls;
    if (calls.length === 1 && only !== undefined)
      return [await this.#client.readContract({ ...only, blockNumber: BigInt(blockNumber) })];
    try {
      // The calls run inside one `eth_call` that carries its own little contract, so nothing has to be deployed for it.
      return await this.#client.multicall({
        contracts: calls,
        blockNumber: BigInt(blockNumber),
        deployless: true,
        allowFailure: false,
        batchSize: 0,
      });
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined) throw error;
      this.#bundle = Math.max(1, Math.floor(owners.length / 2));
      return undefined;
    }
  }
}
