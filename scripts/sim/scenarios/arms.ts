import { run, type RunConfig } from "../model/run.ts";
import type { Window } from "../model/recorder.ts";
import { type Estimate, estimateOf, pairedChange, percentile } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import type { ScenarioOptions } from "./scenario.ts";

/** One way to do it, to be compared with others under the same load. */
export interface Arm {
  readonly name: string;
  readonly config: RunConfig;
}

/** Figures of one run. Times in ms. */
export interface RunFigures {
  readonly completedPerSecond: number;
  readonly ttftP50: number;
  readonly ttftP99: number;
  readonly e2eP99: number;
  readonly failures: number;
  readonly retries: number;
  /** Share of the reusable tokens that were in the cache. */
  readonly reuse: number;
  readonly windows: readonly WindowFigures[];
}

/** Figures of one step of the load. */
export interface WindowFigures {
  readonly ttftP50: number;
  readonly ttftP99: number;
  readonly reuse: number;
  readonly failures: number;
  readonly retries: number;
}

/** Figures of an arm over all seeds, seed by seed. */
export interface ArmFigures {
  readonly name: string;
  readonly runs: readonly RunFigures[];
}

/** Runs all arms over all seeds: the same load for each arm of a seed. */
export function runArms(arms: readonly Arm[], options: ScenarioOptions): ArmFigures[] {
  return arms.map(({ name, config }) => ({
    name,
    runs: options.seeds.map((seed) => {
      const started = performance.now();
      const figures = runFigures(config, seed);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      options.log(
        `${name} seed ${seed}: p99 ${figures.ttftP99.toFixed(0)} ms, ${figures.failures} failures, ${figures.retries} retries (${seconds} s)`,
      );
      return figures;
    }),
  }));
}

function runFigures(config: RunConfig, seed: number): RunFigures {
  const { recorder, seconds } = run(config, seed);
  const { windows } = recorder;
  const ttft = windows.flatMap((window) => window.ttftMs);
  const e2e = windows.flatMap((window) => window.e2eMs);
  const sum = (read: (window: Window) => number): number => windows.reduce((total, window) => total + read(window), 0);
  return {
    completedPerSecond: e2e.length / seconds,
    ttftP50: percentile(ttft, 0.5),
    ttftP99: percentile(ttft, 0.99),
    e2eP99: percentile(e2e, 0.99),
    failures: sum((window) => window.failures),
    retries: recorder.retries,
    reuse: sum((window) => window.cachedTokens) / sum((window) => window.prefixTokens),
    windows: windows.map((window) => ({
      ttftP50: percentile(window.ttftMs, 0.5),
      ttftP99: percentile(window.ttftMs, 0.99),
      reuse: window.cachedTokens / window.prefixTokens,
      failures: window.failures,
      retries: window.retries,
    })),
  };
}

type Metric = Exclude<keyof RunFigures, "windows">;

/** One value per seed. */
export function seedValues(arm: ArmFigures, metric: Metric): number[] {
  return arm.runs.map((figures) => figures[metric]);
}

/** One value per seed of one step. */
export function windowEstimate(arm: ArmFigures, window: number, metric: keyof WindowFigures): Estimate {
  return estimateOf(arm.runs.map((figures) => figures.windows[window]?.[metric] ?? Number.NaN));
}

const metrics: readonly (readonly [Metric, string])[] = [
  ["completedPerSecond", "completed/s"],
  ["ttftP50", "TTFT p50 ms"],
  ["ttftP99", "TTFT p99 ms"],
  ["e2eP99", "end-to-end p99 ms"],
  ["failures", "failures"],
  ["retries", "retries"],
  ["reuse", "reuse"],
];

/** A table of all arms, and of their paired changes against the first. */
export function armTables(arms: readonly ArmFigures[]): string[] {
  const [base, ...others] = arms;
  if (base === undefined) return [];
  const absolute = tableOf(
    ["", ...metrics.map(([, title]) => title)],
    arms.map((arm) => [arm.name, ...metrics.map(([metric]) => shown(estimateOf(seedValues(arm, metric))))]),
  );
  const relative = tableOf(
    [`change against ${base.name}, %`, ...metrics.map(([, title]) => title)],
    others.map((arm) => [
      arm.name,
      ...metrics.map(([metric]) => shown(pairedChange(seedValues(arm, metric), seedValues(base, metric)), 1)),
    ]),
  );
  return [absolute, relative];
}

/** A percentile of each step with what it leaves out: `p99 (failures, retries)`, means over the seeds. */
export function stepTable(
  arms: readonly ArmFigures[],
  metric: "ttftP50" | "ttftP99",
  rates: readonly number[],
): string {
  const cell = (arm: ArmFigures, step: number): string => {
    const [value, failures, retries] = ([metric, "failures", "retries"] as const).map((one) =>
      windowEstimate(arm, step, one).mean.toFixed(0),
    );
    return `${value} (${failures}, ${retries})`;
  };
  return tableOf(
    [`${metric} ms (failures, retries)`, ...arms.map(({ name }) => name)],
    rates.map((rate, step) => [`${rate}/s`, ...arms.map((arm) => cell(arm, step))]),
  );
}

/** Reuse of each step, means over the seeds. */
export function reuseTable(arms: readonly ArmFigures[], rates: readonly number[]): string {
  return tableOf(
    ["reuse", ...arms.map(({ name }) => name)],
    rates.map((rate, step) => [`${rate}/s`, ...arms.map((arm) => shown(windowEstimate(arm, step, "reuse"), 2))]),
  );
}

/** Change of one arm against another, seed by seed, percent of the other. */
export function armChange(arm: ArmFigures, base: ArmFigures, metric: Metric): Estimate {
  return pairedChange(seedValues(arm, metric), seedValues(base, metric));
}

/** The greatest excess of one arm over another among the seeds; at most 0 when no seed has more. */
export function worstExcess(arm: ArmFigures, base: ArmFigures, metric: Metric): number {
  const other = seedValues(base, metric);
  return Math.max(...seedValues(arm, metric).map((value, seed) => value - (other[seed] ?? Number.NaN)));
}

/** The figures of all arms for JSON. */
export function armJson(arms: readonly ArmFigures[]): Record<string, unknown> {
  const [base] = arms;
  return Object.fromEntries(
    arms.map((arm) => [
      arm.name,
      Object.fromEntries([
        ...metrics.map(([metric]) => [metric, estimateOf(seedValues(arm, metric))] as const),
        ["bySeed", Object.fromEntries(metrics.map(([metric]) => [metric, seedValues(arm, metric)]))] as const,
        ...(base === undefined || arm === base
          ? []
          : [
              [
                "changePercent",
                Object.fromEntries(
                  metrics.map(([metric]) => [metric, pairedChange(seedValues(arm, metric), seedValues(base, metric))]),
                ),
              ] as const,
            ]),
      ]),
    ]),
  );
}
