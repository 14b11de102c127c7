import { estimateOf } from "../report/estimate.ts";
import {
  type Arm,
  type ArmFigures,
  armChange,
  armJson,
  armTables,
  reuseTable,
  runArms,
  seedValues,
  stepTable,
  type WindowFigures,
  windowEstimate,
  worstExcess,
} from "./arms.ts";
import { comparisonConfig, comparisonPolicies, comparisonRates as rates } from "./comparison.ts";
import { atLeast, atMost, type Check, type Scenario } from "./scenario.ts";

const peak = rates.indexOf(200);
const before = rates.indexOf(180);

/** Maximum against mean as weight, and what a short wait for the owner makes of either. */
export const maxAgainstMean: Scenario = (options) => {
  const arms: Arm[] = Object.entries(comparisonPolicies).map(([name, policy]) => ({
    name,
    config: comparisonConfig(policy, options),
  }));
  const figures = runArms(arms, options);
  const named = (name: keyof typeof comparisonPolicies): ArmFigures => {
    const found = figures.find((arm) => arm.name === name);
    if (found === undefined) throw new Error(`no arm ${name}`);
    return found;
  };
  const mean = named("mean");
  const maximum = named("maximum");
  return {
    scenario: "a",
    title: "Maximum against mean as rendezvous weight, and a wait for the owner",
    seeds: options.seeds.length,
    tables: [...armTables(figures), stepTable(figures, "ttftP99", rates), reuseTable(figures, rates)],
    charts: [
      chart("a-reuse.svg", "Reuse of cached prefixes by step", "share of reusable tokens", "reuse"),
      { ...chart("a-ttft-p99.svg", "Time to first token, p99, by step", "ms", "ttftP99"), logY: true },
      chart("a-failures.svg", "Requests that failed, by step", "requests", "failures"),
      chart("a-retries.svg", "Attempts beyond the first, by step", "attempts", "retries"),
    ],
    checks: [
      atLeast(
        `maximum against mean: reuse at ${rates[before]}/s`,
        windowEstimate(maximum, before, "reuse").mean,
        windowEstimate(mean, before, "reuse").mean,
      ),
      atLeast("maximum against mean: completed/s, %", armChange(maximum, mean, "completedPerSecond").mean, 0),
      atMost("maximum against mean: p99 TTFT, %", armChange(maximum, mean, "ttftP99").mean, 0),
      atMost("maximum against mean: p99 end to end, %", armChange(maximum, mean, "e2eP99").mean, 0),
      atMost("maximum at 200/s collapses, too: reuse", windowEstimate(maximum, peak, "reuse").mean, 0.7),
      ...beats(named("maximum, 0.3 s growing"), mean),
      ...beats(named("maximum, 1 s a band"), mean),
    ],
    figures: {
      rates,
      arms: armJson(figures),
      byStep: Object.fromEntries(
        figures.map((arm) => [
          arm.name,
          Object.fromEntries(
            (["ttftP50", "ttftP99", "failures", "retries", "reuse"] as const).map((metric) => [
              metric,
              rates.map((_, step) => windowEstimate(arm, step, metric)),
            ]),
          ),
        ]),
      ),
    },
  };

  function chart(file: string, title: string, yLabel: string, metric: keyof WindowFigures) {
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

/** What a variant must keep against the mean arm. */
function beats(arm: ArmFigures, mean: ArmFigures): Check[] {
  const p99 = armChange(arm, mean, "ttftP99");
  return [
    atMost(
      `${arm.name}: p99 TTFT against the mean arm, %, upper end of the interval`,
      p99.mean + (Number.isNaN(p99.ci95) ? 0 : p99.ci95),
      -15,
    ),
    atMost(`${arm.name}: failures beyond those of the mean arm, worst seed`, worstExcess(arm, mean, "failures"), 0),
    atMost(`${arm.name}: retries beyond those of the mean arm, worst seed`, worstExcess(arm, mean, "retries"), 0),
    atLeast(`${arm.name}: reuse at 200/s`, windowEstimate(arm, peak, "reuse").mean, 0.8),
    atMost(`${arm.name}: failures`, estimateOf(seedValues(arm, "failures")).mean, 0),
  ];
}
