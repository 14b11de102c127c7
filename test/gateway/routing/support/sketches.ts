import type { ProviderStatus } from "../../../../protocol/status.ts";
import type { MeasuredStatistics, ReportedStatistics } from "../../../../gateway/routing/types.ts";
import { addressOf, type ProviderSketch } from "./registry.ts";

/** So many equal providers. */
export function fleet(
  count: number,
  change: (index: number) => Partial<ProviderSketch> = () => ({}),
): ProviderSketch[] {
  return Array.from({ length: count }, (_, index) => ({ address: addressOf(index + 1), ...change(index) }));
}

/** A status with nothing in it but what is said. */
export function reportOf(change: Partial<ReportedStatistics>): ReportedStatistics {
  return {
    lastMeanInputTps: undefined,
    maxInputTps: undefined,
    running: undefined,
    queuedInputTokens: undefined,
    kvFreeTokens: undefined,
    clusterId: undefined,
    ...change,
  };
}

/** Measurements of a provider without faults but for what is said. */
export function measuredOf(change: Partial<MeasuredStatistics>): MeasuredStatistics {
  return {
    ttftMs: undefined,
    outputTps: undefined,
    successRatio: 1,
    samples: 10,
    recentFailures: 0,
    faults: 0,
    ...change,
  };
}

/** A provider's status in which each model says no more than is given. */
export function statusWith(
  models: readonly ({ readonly model: string } & Partial<ReportedStatistics>)[],
): ProviderStatus {
  return {
    provider: addressOf(1),
    issuedAt: 1,
    draining: false,
    maxConcurrentJobs: 0,
    running: 0,
    models: models.map(({ model, ...said }) => {
      const known = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
      return { running: 0, ...known, model, generation: "g" };
    }),
  };
}
