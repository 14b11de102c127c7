import type { Address } from "viem";
import type { ProviderRecord, Published, RegistrySnapshot } from "../../../../chain/registry-index/types.ts";
import { deriveRoutingState, type RoutingState } from "../../../../gateway/routing/state.ts";
import { type ProviderSketch, providerRecord, snapshotOf } from "./registry.ts";

/** A registry that a test changes step by step and that publishes as the index does: one version after the other, never in part. */
export class MutableRegistry {
  readonly #records = new Map<Address, ProviderRecord>();
  readonly #changed = new Set<Address>();
  #version = 0;
  timestamp: number;
  #published: Published<RoutingState> | undefined;

  constructor(timestamp = 1000) {
    this.timestamp = timestamp;
  }

  put(sketch: ProviderSketch): void {
    this.#records.set(sketch.address, providerRecord(sketch));
    this.#changed.add(sketch.address);
  }

  delete(address: Address): void {
    this.#records.delete(address);
    this.#changed.add(address);
  }

  get(address: Address): ProviderRecord | undefined {
    return this.#records.get(address);
  }

  /** Derives from what changed since the last time and publishes snapshot and derivation at once. */
  publish(): Published<RoutingState> {
    const snapshot = this.#snapshot();
    const delta = { providers: new Set(this.#changed), models: new Set<string>() };
    this.#changed.clear();
    this.#published = { snapshot, derived: deriveRoutingState(snapshot, delta, this.#published?.derived) };
    return this.#published;
  }

  /** What a process that starts now would derive. */
  fromNothing(): Published<RoutingState> {
    const snapshot = this.#snapshot();
    const delta = { providers: new Set(this.#records.keys()), models: new Set<string>() };
    return { snapshot, derived: deriveRoutingState(snapshot, delta, undefined) };
  }

  #snapshot(): RegistrySnapshot {
    this.#version += 1;
    return snapshotOf([...this.#records.values()], { version: this.#version, blockTimestamp: this.timestamp });
  }
}
