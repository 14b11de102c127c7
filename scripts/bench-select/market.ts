import { type Address, getAddress, pad, toHex } from "viem";
import type { ProviderRecord, RegistrySnapshot } from "../../chain/registry-index/types.ts";
import type { Random } from "../../protocol/clock.ts";

/** The model that all providers of the benchmark offer. */
export const model = "bench/model";

/** mulberry32: the same sequence on every machine. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The address of a number. */
export function addressOf(index: number): Address {
  return getAddress(pad(toHex(index), { size: 20 }));
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
