import type { Address } from "viem";
import type { LiveStatistics, MeasuredStatistics, ReportedStatistics } from "../../../../gateway/routing/types.ts";

/** Settable live statistics: all quiet until a test says otherwise. */
export class ScriptedStatistics implements LiveStatistics {
  readonly inFlightOf = new Map<Address, number>();
  readonly unconfirmedOf = new Map<Address, number>();
  readonly measuredOf = new Map<Address, MeasuredStatistics>();
  readonly reportedOf = new Map<Address, ReportedStatistics>();
  readonly roundTripOf = new Map<Address, number>();
  readonly refused = new Set<Address>();
  readonly draining = new Set<Address>();

  inFlight(provider: Address): number {
    return this.inFlightOf.get(provider) ?? 0;
  }

  unconfirmedPosts(provider: Address): number {
    return this.unconfirmedOf.get(provider) ?? 0;
  }

  measured(provider: Address): MeasuredStatistics | undefined {
    return this.measuredOf.get(provider);
  }

  reported(provider: Address): ReportedStatistics | undefined {
    return this.reportedOf.get(provider);
  }

  roundTripMs(provider: Address): number {
    return this.roundTripOf.get(provider) ?? 0;
  }

  isDraining(provider: Address): boolean {
    return this.draining.has(provider);
  }

  endpointRefused(provider: Address): boolean {
    return this.refused.has(provider);
  }
}
