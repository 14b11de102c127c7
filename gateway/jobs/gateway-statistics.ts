import type { Address } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { defaultHalfLives } from "../routing/statistics/outcomes.ts";
import { RoutingStatistics } from "../routing/statistics/routing-statistics.ts";

/**
 * Live statistics that also know which providers just said that they are full, while the index does not show it yet: a post that the
 * chain refused, or a node that had no place. They count as full until the index has moved on, or a short time has passed.
 */
export class GatewayStatistics extends RoutingStatistics {
  readonly #clock: Clock;
  readonly #onRefused: (provider: Address, endpoint: string) => void;
  readonly #refusedEndpoints = new Map<Address, string>();
  /** Set while a decision looks at the endpoint of everyone it meets. */
  #closedEndpoint: ((provider: Address) => string | undefined) | undefined;
  readonly #full = new Map<Address, { readonly version: number | undefined; readonly untilMs: number }>();

  /**
   * @param reputationMs Half-life of a fault in reputation.
   * @param onRefused Told once of each endpoint that is not called.
   */
  constructor(
    clock: Clock,
    reputationMs = defaultHalfLives.reputationMs,
    onRefused: (provider: Address, endpoint: string) => void = () => undefined,
  ) {
    super({ clock, halfLives: { ...defaultHalfLives, reputationMs } });
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  /** The chain refused a post for capacity. @param version Of the newest snapshot at that moment. */
  fullOnChain(provider: Address, version: number, forMs: number): void {
    this.#full.set(provider, { version, untilMs: this.#clock.monotonic() + forMs });
  }

  /** The node itself had no place for a job that it was given. */
  fullAtNode(provider: Address, forMs: number): void {
    this.#full.set(provider, { version: undefined, untilMs: this.#clock.monotonic() + forMs });
  }

  /** An endpoint that is not called was met. It is looked at again when it changes. */
  refuseEndpoint(provider: Address, endpoint: string): void {
    if (this.#refusedEndpoints.get(provider) === endpoint) return;
    this.#refusedEndpoints.set(provider, endpoint);
    this.setEndpointRefused(provider, true);
    this.#onRefused(provider, endpoint);
  }

  /**
   * Makes a decision that looks at the endpoint of everyone it meets and leaves out, and remembers, those that are not called.
   * @param closedEndpoint A provider's endpoint when it is not called, else undefined. @param decide Synchronous.
   */
  whileLookingAtEndpoints<T>(closedEndpoint: (provider: Address) => string | undefined, decide: () => T): T {
    this.#closedEndpoint = closedEndpoint;
    try {
      return decide();
    } finally {
      this.#closedEndpoint = undefined;
    }
  }

  override endpointRefused(provider: Address): boolean {
    if (super.endpointRefused(provider)) return true;
    const endpoint = this.#closedEndpoint?.(provider);
    if (endpoint === undefined) return false;
    this.refuseEndpoint(provider, endpoint);
    return true;
  }

  /** A provider's record changed. */
  endpointMayHaveChanged(provider: Address, endpoint: string | undefined): void {
    const refused = this.#refusedEndpoints.get(provider);
    if (refused === undefined || refused === endpoint) return;
    this.#refusedEndpoints.delete(provider);
    this.setEndpointRefused(provider, false);
  }

  /** A snapshot was published. */
  override indexed(snapshot: Parameters<RoutingStatistics["indexed"]>[0] & { readonly version: number }): void {
    super.indexed(snapshot);
    for (const [provider, { version }] of this.#full) {
      if (version !== undefined && version < snapshot.version) this.#full.delete(provider);
    }
  }

  /** Of a provider without a cap, too: its node may have no place, or too much of its stake may be held. */
  override knownFull(provider: Address): boolean {
    if (super.knownFull(provider)) return true;
    const full = this.#full.size === 0 ? undefined : this.#full.get(provider);
    if (full === undefined) return false;
    if (full.untilMs > this.#clock.monotonic()) return true;
    this.#full.delete(provider);
    return false;
  }
}
