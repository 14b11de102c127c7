import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { simAddress } from "../model/chain.ts";
import type { RunConfig } from "../model/run.ts";
import { estimateOf } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { type Arm, armJson, armTables, runArms, seedValues, windowEstimate } from "./arms.ts";
import { fiveRegions } from "./fleet.ts";
import { atLeast, atMost, type Scenario, type ScenarioOptions } from "./scenario.ts";

/** Requests a second of each step: up to 200 and back. */
const rates = [20, 60, 100, 140, 160, 180, 200, 180, 160, 140, 100, 60, 20];
const stepSeconds = 180;
const peak = rates.indexOf(200);

/** Prefill speeds of the four backends of a region; their decode speeds are in proportion. */
const prefillSpeeds = [30_000, 40_000, 50_000, 70_000];
const meanPrefillSpeed = 47_500;
/** Of the mean backend, alone: at 200 requests/s about three quarters of the 500 slots are taken when every prefix is cached. */
const meanDecodeSpeed = 92;

function configOf(policy: PolicyConfig, options: ScenarioOptions): RunConfig {
  return {
    policy,
    backends: Array.from({ length: 20 }, (_, index) => {
      const prefillTps = prefillSpeeds[Math.floor(index / 5)] as number;
      return {
        address: simAddress(index),
        region: index % 5,
        slots: 25,
        prefillTps,
        decodeTps: (meanDecodeSpeed * prefillTps) / meanPrefillSpeed,
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
      steps: rates.map((perSecond) => ({ seconds: stepSeconds * options.scale, perSecond })),
      sessions: 768,
      regions: 5,
      inputTokens: 6661,
      prefixTokens: 6149,
      maxOutputTokens: 256,
    },
    gateway: { clientTimeoutMs: 30_000, maxAttempts: 1000, pollMs: 100, askedPerWake: 4, affinity: true },
    roundTripMs: fiveRegions,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 100,
  };
}

const base = { name: "pulsar_wait_and_widen", slo_ms: 10_000 } as const;
const meanArm: PolicyConfig = { ...base, rendezvous_weight: "last-mean-input-tps" };
const maxArm: PolicyConfig = { ...base, rendezvous_weight: "max-input-tps" };
const patientArm: PolicyConfig = { ...maxArm, band_patience_ms: 3000 };

/** Maximum against mean as weight, and the line as admission to what is not the owner. */
export const maxAgainstMean: Scenario = (options) => {
  const arms: Arm[] = [
    { name: "mean", config: configOf(meanArm, options) },
    { name: "maximum", config: configOf(maxArm, options) },
    { name: "maximum, patience 0.3 s", config: configOf({ ...maxArm, band_patience_ms: 300 }, options) },
    { name: "maximum, patience 1 s", config: configOf({ ...maxArm, band_patience_ms: 1000 }, options) },
    { name: "maximum, patience 3 s", config: configOf(patientArm, options) },
    { name: "mean, patience 3 s", config: configOf({ ...meanArm, band_patience_ms: 3000 }, options) },
  ];
  const figures = runArms(arms, options);
  const [mean, maximum, , , patient] = figures;
  if (mean === undefined || maximum === undefined || patient === undefined) throw new Error("arms are missing");
  const perStep = (metric: "reuse" | "ttftP99", digits: number): string =>
    tableOf(
      [`${metric} by requests/s`, ...rates.map(String)],
      figures.map((arm) => [
        arm.name,
        ...rates.map((_, step) => windowEstimate(arm, step, metric).mean.toFixed(digits)),
      ]),
    );
  const average = (arm: typeof mean, metric: "ttftP99" | "failures" | "retries"): number =>
    estimateOf(seedValues(arm, metric)).mean;
  const gain = 100 * (1 - average(patient, "ttftP99") / average(mean, "ttftP99"));
  const reuseAtPeak = windowEstimate(patient, peak, "reuse").mean;
  const reuse180 = rates.indexOf(180);
  return {
    scenario: "a",
    title: "Maximum against mean as rendezvous weight",
    seeds: options.seeds.length,
    tables: [...armTables(figures), perStep("reuse", 2), perStep("ttftP99", 0)],
    charts: [
      chart("a-reuse.svg", "Reuse of cached prefixes by step", "share of reusable tokens", "reuse"),
      { ...chart("a-ttft-p99.svg", "Time to first token, p99, by step", "ms", "ttftP99"), logY: true },
    ],
    checks: [
      atLeast(
        "maximum holds more reuse at 180/s than the mean",
        windowEstimate(maximum, reuse180, "reuse").mean,
        windowEstimate(mean, reuse180, "reuse").mean,
      ),
      atLeast("p99 TTFT under the mean arm, %, with patience 3 s", gain, 15),
      atMost(
        "failures with patience 3 s, not above the mean arm",
        average(patient, "failures"),
        average(mean, "failures"),
      ),
      atMost(
        "retries with patience 3 s, not above the mean arm",
        average(patient, "retries"),
        average(mean, "retries"),
      ),
      atLeast("reuse at 200/s with patience 3 s", reuseAtPeak, 0.8),
    ],
    figures: {
      arms: armJson(figures),
      rates,
      reuseByStep: Object.fromEntries(
        figures.map((arm) => [arm.name, rates.map((_, step) => windowEstimate(arm, step, "reuse"))]),
      ),
      ttftP99ByStep: Object.fromEntries(
        figures.map((arm) => [arm.name, rates.map((_, step) => windowEstimate(arm, step, "ttftP99"))]),
      ),
      p99GainPercent: gain,
      reuseAtPeak,
      summary: shown(estimateOf(seedValues(patient, "ttftP99"))),
    },
  };

  function chart(file: string, title: string, yLabel: string, metric: "reuse" | "ttftP99") {
    return {
      file,
      title,
      xLabel: "requests a second, in the order of the steps",
      yLabel,
      xNames: rates.map(String),
      series: figures.map((arm) => {
        const estimates = rates.map((_, step) => windowEstimate(arm, step, metric));
        return {
          name: arm.name,
          points: estimates.map(({ mean: value }, step) => [step, value] as const),
          errors: estimates.map(({ ci95 }) => ci95),
        };
      }),
    };
  }
};
