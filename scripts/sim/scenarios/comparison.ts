import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { simAddress } from "../model/chain.ts";
import type { RunConfig } from "../model/run.ts";
import { fiveRegions } from "./fleet.ts";
import type { ScenarioOptions } from "./scenario.ts";

/** Requests a second of each step: up to 200 and back. */
export const comparisonRates: readonly number[] = [20, 60, 100, 140, 160, 180, 200, 180, 160, 140, 100, 60, 20];
const stepSeconds = 180;

const base = { name: "pulsar_wait_and_widen", slo_ms: 10_000 } as const;
const maximum = { ...base, rendezvous_weight: "max-input-tps" } as const;
const mean = { ...base, rendezvous_weight: "last-mean-input-tps" } as const;

/** The arms: the two weights of the reference, and ours, in which a request waits for its owner before it goes elsewhere. */
export const comparisonPolicies = {
  mean,
  maximum,
  "maximum, 0.3 s a band": { ...maximum, band_patience_ms: 300 },
  "maximum, 0.3 s growing": { ...maximum, band_patience_ms: 300, band_patience_growth: 4 },
  "maximum, 1 s a band": { ...maximum, band_patience_ms: 1000 },
  "mean, 1 s a band": { ...mean, band_patience_ms: 1000 },
} as const satisfies Readonly<Record<string, PolicyConfig>>;

/** Prefill speeds of the four backends of a region; their decode speeds are in proportion. */
const prefillSpeeds = [48_000, 64_000, 80_000, 112_000];
const meanPrefillSpeed = 76_000;

/**
 * Of the mean backend, alone. At 200 requests/s about three quarters of the 500 slots are taken when every prefix is cached; when none
 * is, prefill alone takes all that the fleet has.
 */
export const usualDecodeSpeed = 88;

/**
 * The fleet and load of the comparison: five regions of four unequal backends, 768 sessions, a cold start.
 * @param decodeSpeed Tokens per second of the mean backend's single stream: how much room the fleet has at 200 requests/s.
 */
export function comparisonConfig(
  policy: PolicyConfig,
  options: ScenarioOptions,
  decodeSpeed = usualDecodeSpeed,
): RunConfig {
  return {
    policy,
    backends: Array.from({ length: 20 }, (_, index) => {
      const prefillTps = prefillSpeeds[Math.floor(index / 5)] as number;
      return {
        address: simAddress(index),
        region: index % 5,
        slots: 25,
        prefillTps,
        decodeTps: (decodeSpeed * prefillTps) / meanPrefillSpeed,
        crowding: 0.2,
        overheadMs: 20,
        cacheTokens: 400_000,
        sharedPrefill: options.sharedPrefill,
        excludeCached: options.excludeCached,
        initialTps: meanPrefillSpeed,
        reportsMaximum: true,
      };
    }),
    load: {
      steps: comparisonRates.map((perSecond) => ({ seconds: stepSeconds * options.scale, perSecond })),
      sessions: 768,
      regions: 5,
      inputTokens: 6661,
      prefixTokens: 6149,
      maxOutputTokens: 256,
    },
    gateway: { clientTimeoutMs: 30_000, maxAttempts: 1000, pollMs: 5000, affinity: true },
    roundTripMs: fiveRegions,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 100,
  };
}
