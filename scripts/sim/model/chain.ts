import { type Address, getAddress, pad, toHex } from "viem";
import type {
  OfferingRecord,
  ProviderRecord,
  Published,
  RegistrySnapshot,
} from "../../../chain/registry-index/types.ts";
import { deriveRoutingState, type RoutingState } from "../../../gateway/routing/state.ts";
import { type Backend, simModel } from "./backend.ts";

/** Address of the n-th simulated provider. */
export function simAddress(index: number): Address {
  return getAddress(pad(toHex(index + 1), { size: 20 }));
}

function recordOf(backend: Backend, openJobs: number, nowMs: number): ProviderRecord {
  const { address, slots } = backend.config;
  const offering: OfferingRecord = {
    offeringId: 1,
    provider: address,
    modelId: simModel,
    modelKey: pad("0x01", { size: 32 }),
    inputPrice: 1n,
    outputPrice: 1n,
    contextLength: 131_072,
  };
  return {
    address,
    operator: address,
    payout: address,
    endpoint: "https://provider.example",
    active: true,
    lastSeen: Math.floor(nowMs / 1000),
    generation: 1,
    maxConcurrentJobs: slots,
    openJobs,
    stake: 0n,
    offerings: new Map([[simModel, offering]]),
    reputation: new Map(),
  };
}

/** The registry as the gateways see it: the slots taken as of the last block, in the real derived routing state. */
export class SimChain {
  readonly #backends: readonly Backend[];
  #records = new Map<Address, ProviderRecord>();
  #block = 0;
  #published: Published<RoutingState>;

  constructor(backends: readonly Backend[]) {
    this.#backends = backends;
    this.#published = this.#publish(0, undefined);
  }

  get published(): Published<RoutingState> {
    return this.#published;
  }

  /** Number of the next block: what is posted now is in it. */
  get nextBlock(): number {
    return this.#block + 1;
  }

  /** Mines a block: publishes the slots taken now. */
  mine(nowMs: number): void {
    this.#block += 1;
    this.#published = this.#publish(nowMs, this.#published.derived);
  }

  #publish(nowMs: number, previous: RoutingState | undefined): Published<RoutingState> {
    const records = new Map(this.#records);
    const changed = new Set<Address>();
    for (const backend of this.#backends) {
      const { address } = backend.config;
      if (records.get(address)?.openJobs === backend.running) continue;
      records.set(address, recordOf(backend, backend.running, nowMs));
      changed.add(address);
    }
    this.#records = records;
    const snapshot: RegistrySnapshot = {
      version: this.#block + 1,
      blockNumber: this.#block,
      blockHash: pad("0x01", { size: 32 }),
      blockTimestamp: 0,
      timeToLive: 600,
      providerCount: records.size,
      provider: (address) => records.get(address),
      providers: () => records.values(),
      offers: () => [],
      models: () => [simModel],
    };
    return { snapshot, derived: deriveRoutingState(snapshot, { providers: changed, models: new Set() }, previous) };
  }
}
