import { type Address, getAddress, pad, toHex } from "viem";
import type {
  OfferingRecord,
  ProviderRecord,
  RegistrySnapshot,
  ReputationRecord,
} from "../../chain/registry-index/types.ts";

/** The model that all providers of the benchmark offer. */
export const model = "bench/model";

/** The address of a number. */
export function addressOf(index: number): Address {
  return getAddress(pad(toHex(index), { size: 20 }));
}

/** What differs between the providers of a benchmark. */
export interface Varied
  extends Pick<OfferingRecord, "inputPrice" | "outputPrice" | "contextLength">,
    Pick<ProviderRecord, "lastSeen" | "maxConcurrentJobs" | "openJobs" | "stake"> {
  readonly reputation: ReputationRecord;
}

/** A live provider of the model. */
export function providerOf(address: Address, varied: Varied): ProviderRecord {
  const { inputPrice, outputPrice, contextLength, reputation, ...rest } = varied;
  const modelKey = pad("0x01", { size: 32 });
  const terms = { inputPrice, outputPrice, contextLength };
  return {
    address,
    operator: address,
    payout: address,
    endpoint: "https://provider.example",
    active: true,
    generation: 1,
    ...rest,
    offerings: new Map([[model, { offeringId: 1, provider: address, modelId: model, modelKey, ...terms }]]),
    reputation: new Map([[model, reputation]]),
  };
}

/** Records that change between snapshots. */
export class Registry {
  readonly records = new Map<Address, ProviderRecord>();
  version = 0;

  snapshot(): RegistrySnapshot {
    this.version += 1;
    const { records } = this;
    return {
      version: this.version,
      blockNumber: this.version,
      blockHash: pad("0x01", { size: 32 }),
      blockTimestamp: 1_000_000,
      timeToLive: 600,
      providerCount: records.size,
      provider: (address) => records.get(address),
      providers: () => records.values(),
      offers: () => [],
      models: () => [model],
    };
  }
}
