import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import type { Policy } from "../../../gateway/routing/types.ts";
import { simAddress } from "../model/chain.ts";
import { plainLeastInflightPolicy } from "../model/comparison-policies.ts";
import { run, type RunConfig } from "../model/run.ts";
import { estimateOf, meanOf, percentile } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { neverFull, overload, withWaitLimit } from "./c-overload.ts";
import { equalBackends } from "./fleet.ts";
import { atMost, type Scenario, type ScenarioOptions } from "./scenario.ts";

const overloadRate = 20;
const rates = [1, 3, 10, overloadRate];
/** Clients leave after 60 s; a first token takes up to 3 s once a slot is had. */
const waitLimitMs = 55_000;
const failing = simAddress(3);

function configOf(arm: Arm, perSecond: number, options: ScenarioOptions): RunConfig {
  const backends = equalBackends(4, { sharedPrefill: options.sharedPrefill, slots: 16 });
  return {
    policy: arm.policy,
    backends: backends.map((backend) => (backend.address === failing ? { ...backend, failsAfterMs: 5 } : backend)),
    load: {
      steps: [{ seconds: (6000 * options.scale) / perSecond, perSecond }],
      sessions: 1_000_000,
      regions: 1,
      inputTokens: 1500,
      prefixTokens: 0,
      maxOutputTokens: 200,
    },
    gateway: {
      clientTimeoutMs: 60_000,
      maxAttempts: 1000,
      pollMs: 5000,
      affinity: false,
      ignoresOutcomes: arm.ignoresOutcomes,
    },
    roundTripMs: () => 2,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 50,
  };
}

interface Arm {
  readonly name: string;
  readonly policy: PolicyConfig | (() => Policy);
  readonly ignoresOutcomes: boolean;
}

interface Figures {
  /** Attempts that went to the failing machine, of all attempts. */
  readonly attracted: number;
  readonly ttftP99: number;
  readonly failures: number;
  readonly retries: number;
}

function figuresOf(config: RunConfig, seed: number): Figures {
  const { recorder } = run(config, seed);
  const failed = recorder.faults.get(failing) ?? 0;
  const served = [...recorder.shares.values()].reduce((sum, count) => sum + count, 0);
  return {
    attracted: failed / (failed + served),
    ttftP99: percentile(
      recorder.windows.flatMap((window) => window.ttftMs),
      0.99,
    ),
    failures: recorder.windows.reduce((sum, window) => sum + window.failures, 0),
    retries: recorder.retries,
  };
}

/** Four machines of which one fails every request after 5 ms: whether its short queues attract the traffic. */
export const blackHole: Scenario = (options) => {
  const arms: readonly Arm[] = [
    { name: "plain least in flight", policy: plainLeastInflightPolicy, ignoresOutcomes: true },
    { name: "least_inflight", policy: { name: "least_inflight" }, ignoresOutcomes: false },
  ];
  const figures = arms.map((arm) => ({
    name: arm.name,
    byRate: rates.map((rate) => {
      options.log(`${arm.name}, ${rate}/s`);
      return options.seeds.map((seed) => figuresOf(configOf(arm, rate, options), seed));
    }),
  }));
  const ours = figures[1];
  if (ours === undefined) throw new Error("arms are missing");
  options.log(`overload, ${overloadRate}/s`);
  const overloaded = overload(
    arms.flatMap((arm) => {
      const config = configOf(arm, overloadRate, options);
      return [
        { name: arm.name, config },
        { name: `${arm.name}, failing machine never full`, config: neverFull(config, failing) },
        { name: `${arm.name}, line of 55 s`, config: withWaitLimit(config, waitLimitMs) },
      ];
    }),
    options.seeds,
  );
  const percent = (value: number): number => 100 * value;
  return {
    scenario: "c",
    title: "One of four machines fails every request after 5 ms",
    seeds: options.seeds.length,
    tables: [
      tableOf(
        [
          "requests/s",
          ...figures.flatMap(({ name }) => [`${name}: attracted, %`, "TTFT p99 ms", "failures", "retries"]),
        ],
        rates.map((rate, index) => [
          String(rate),
          ...figures.flatMap(({ byRate }) => {
            const runs = byRate[index] ?? [];
            return [
              shown(estimateOf(runs.map((one) => percent(one.attracted))), 2),
              shown(estimateOf(runs.map((one) => one.ttftP99)), 0),
              shown(estimateOf(runs.map((one) => one.failures)), 1),
              shown(estimateOf(runs.map((one) => one.retries)), 0),
            ];
          }),
        ]),
      ),
      overloaded.table,
    ],
    charts: [
      {
        file: "c-black-hole.svg",
        title: "Attempts that a fast-failing machine attracts",
        xLabel: "requests a second",
        yLabel: "% of attempts",
        xNames: rates.map(String),
        series: figures.map(({ name, byRate }) => {
          const estimates = byRate.map((runs) => estimateOf(runs.map((one) => percent(one.attracted))));
          return {
            name,
            points: estimates.map(({ mean }, index) => [index, mean] as const),
            errors: estimates.map(({ ci95 }) => ci95),
          };
        }),
      },
    ],
    checks: [
      atMost(
        "attempts at the failing machine, %, worst rate",
        Math.max(...ours.byRate.map((runs) => percent(meanOf(runs.map((one) => one.attracted))))),
        5,
      ),
    ],
    figures: {
      rates,
      overload: overloaded.figures,
      arms: Object.fromEntries(
        figures.map(({ name, byRate }) => [
          name,
          byRate.map((runs) => ({
            attractedPercent: estimateOf(runs.map((one) => percent(one.attracted))),
            ttftP99: estimateOf(runs.map((one) => one.ttftP99)),
            failures: estimateOf(runs.map((one) => one.failures)),
            retries: estimateOf(runs.map((one) => one.retries)),
          })),
        ]),
      ),
    },
  };
};
