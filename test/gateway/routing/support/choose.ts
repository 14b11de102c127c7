import type { Address } from "viem";
import type { PolicyConfig } from "../../../../gateway/routing/policy-config.ts";
import { createPolicy, select } from "../../../../gateway/routing/select.ts";
import type { Policy, RoutingRequest, Selection } from "../../../../gateway/routing/types.ts";
import type { Random } from "../../../../protocol/clock.ts";
import { type ProviderSketch, publish } from "./registry.ts";
import { requestOf, seeded } from "./request.ts";
import { ScriptedStatistics } from "./statistics.ts";

/** Providers, statistics and a policy that a test asks again and again. */
export class Chooser {
  readonly statistics = new ScriptedStatistics();
  readonly policy: Policy;
  readonly random: Random;
  #providers: readonly ProviderSketch[];
  #published: ReturnType<typeof publish>;

  constructor(config: PolicyConfig, providers: readonly ProviderSketch[], seed = 1) {
    this.policy = createPolicy(config);
    this.random = seeded(seed);
    this.#providers = providers;
    this.#published = publish(providers);
  }

  get providers(): readonly ProviderSketch[] {
    return this.#providers;
  }

  /** Puts other providers in place of the ones so far. */
  replace(providers: readonly ProviderSketch[]): void {
    this.#providers = providers;
    this.#published = publish(providers);
  }

  select(request: Partial<RoutingRequest> = {}): Selection {
    return select(this.#published, requestOf(request), this.policy, this.statistics, 1, this.random);
  }

  ranked(request: Partial<RoutingRequest> = {}): Address[] {
    return this.select(request).ranked.map(({ provider }) => provider);
  }

  first(request: Partial<RoutingRequest> = {}): Address | undefined {
    return this.ranked(request)[0];
  }

  /** Share of each first choice over many requests. */
  shares(draws: number, request: (draw: number) => Partial<RoutingRequest> = () => ({})): Map<Address, number> {
    const shares = new Map<Address, number>();
    for (let draw = 0; draw < draws; draw += 1) {
      const first = this.first(request(draw));
      if (first !== undefined) shares.set(first, (shares.get(first) ?? 0) + 1 / draws);
    }
    return shares;
  }
}
