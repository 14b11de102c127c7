import type { Address } from "viem";
import type { RegistrySnapshot } from "../../chain/registry-index/types.ts";
import type { ProviderStatus } from "../../protocol/status.ts";
import type { StatusSink } from "./status-follower.ts";

/**
 * Passes on of each status only the models that its provider offers on chain. A status is its provider's own word, and may name models
 * without number: in the metrics each would be a series, new ones with every status, and those of honest providers would lose their place.
 */
export class OfferedStatuses implements StatusSink {
  readonly #sink: StatusSink;
  #newest: Pick<RegistrySnapshot, "provider"> | undefined;

  constructor(sink: StatusSink) {
    this.#sink = sink;
  }

  /** Call with every snapshot, before its providers are followed. */
  indexed(snapshot: Pick<RegistrySnapshot, "provider">): void {
    this.#newest = snapshot;
  }

  report(provider: Address, status: ProviderStatus): void {
    const offerings = this.#newest?.provider(provider)?.offerings;
    const models = status.models.filter(({ model }) => offerings?.has(model) === true);
    this.#sink.report(provider, models.length === status.models.length ? status : { ...status, models });
  }

  forgetReport(provider: Address): void {
    this.#sink.forgetReport(provider);
  }

  recordRoundTrip(provider: Address, roundTripMs: number): void {
    this.#sink.recordRoundTrip(provider, roundTripMs);
  }

  forgetRoundTrip(provider: Address): void {
    this.#sink.forgetRoundTrip(provider);
  }
}
