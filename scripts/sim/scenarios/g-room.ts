import { estimateOf } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { type ArmFigures, armChange, armJson, runArms, seedValues, windowEstimate } from "./arms.ts";
import { comparisonConfig, comparisonPolicies, comparisonRates as rates } from "./comparison.ts";
import { atMost, type Scenario } from "./scenario.ts";

/** Decode speeds of the mean backend, from too little for 200 requests/s to plenty; 88 is that of scenario a. */
const speeds = [84, 96, 104];
/** Of the length of scenario a: 45 s a step. */
const shortened = 0.25;
const peak = rates.indexOf(200);
const names = ["mean", "maximum", "maximum, 0.3 s growing", "maximum, 1 s a band"] as const;

/** The comparison with less and more room at the peak: what each variant costs where it is not needed, and where it gives way. */
export const room: Scenario = (options) => {
  const bySpeed = speeds.map((speed) => {
    options.log(`decode at ${speed} tokens/s`);
    const arms = names.map((name) => ({
      name,
      config: comparisonConfig(comparisonPolicies[name], { ...options, scale: options.scale * shortened }, speed),
    }));
    return { speed, arms: runArms(arms, options) };
  });
  const series = (value: (arm: ArmFigures) => { readonly mean: number; readonly ci95: number }) =>
    names.map((name, at) => {
      const estimates = bySpeed.map(({ arms }) => value(arms[at] as ArmFigures));
      return {
        name,
        points: estimates.map(({ mean }, index) => [index, mean] as const),
        errors: estimates.map(({ ci95 }) => ci95),
      };
    });
  const chart = { xLabel: "tokens/s of the mean backend's single stream", xNames: speeds.map(String) };
  const of = (metric: "ttftP99" | "failures" | "retries") => (arm: ArmFigures) => estimateOf(seedValues(arm, metric));
  const atPeak = (arm: ArmFigures) => windowEstimate(arm, peak, "reuse");
  return {
    scenario: "g",
    title: "The comparison with less and more room at 200 requests/s",
    seeds: options.seeds.length,
    tables: bySpeed.map(({ speed, arms }) =>
      tableOf(
        [`decode ${speed}/s`, "TTFT p50 ms", "TTFT p99 ms", "against mean, %", "failures", "retries", "reuse at 200/s"],
        arms.map((arm, at) => [
          arm.name,
          shown(estimateOf(seedValues(arm, "ttftP50"))),
          shown(estimateOf(seedValues(arm, "ttftP99"))),
          at === 0 ? "" : shown(armChange(arm, arms[0] as ArmFigures, "ttftP99"), 1),
          shown(estimateOf(seedValues(arm, "failures")), 1),
          shown(estimateOf(seedValues(arm, "retries")), 0),
          shown(atPeak(arm), 2),
        ]),
      ),
    ),
    charts: [
      { ...chart, file: "g-ttft-p99.svg", title: "p99 TTFT", yLabel: "ms", logY: true, series: series(of("ttftP99")) },
      { ...chart, file: "g-failures.svg", title: "Failures", yLabel: "requests", series: series(of("failures")) },
      { ...chart, file: "g-retries.svg", title: "Retries", yLabel: "attempts", series: series(of("retries")) },
      { ...chart, file: "g-reuse.svg", title: "Reuse at 200 requests/s", yLabel: "share", series: series(atPeak) },
    ],
    checks: names
      .slice(2)
      .flatMap((name, at) => [
        atMost(
          `${name}: p99 TTFT against the mean arm, %, worst speed`,
          Math.max(
            ...bySpeed.map(({ arms }) => armChange(arms[at + 2] as ArmFigures, arms[0] as ArmFigures, "ttftP99").mean),
          ),
          -15,
        ),
        ...(["failures", "retries"] as const).map((metric) =>
          atMost(
            `${name}: ${metric} beyond those of the mean arm, worst speed`,
            Math.max(
              ...bySpeed.map(
                ({ arms }) =>
                  estimateOf(seedValues(arms[at + 2] as ArmFigures, metric)).mean -
                  estimateOf(seedValues(arms[0] as ArmFigures, metric)).mean,
              ),
            ),
            0,
          ),
        ),
      ]),
    figures: {
      speeds,
      shortened,
      bySpeed: Object.fromEntries(
        bySpeed.map(({ speed, arms }) => [
          speed,
          { arms: armJson(arms), reuseAtPeak: Object.fromEntries(arms.map((arm) => [arm.name, atPeak(arm)])) },
        ]),
      ),
    },
  };
};
