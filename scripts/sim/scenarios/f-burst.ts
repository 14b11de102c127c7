import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { run, type RunConfig } from "../model/run.ts";
import { estimateOf, meanOf, percentile } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { equalBackends } from "./fleet.ts";
import { atMost, type Scenario, type ScenarioOptions } from "./scenario.ts";

/** 16 slots in all; the burst brings about 120 requests in half a second. */
const steps = [
  { seconds: 30, perSecond: 2 },
  { seconds: 0.5, perSecond: 240 },
  { seconds: 90, perSecond: 2 },
];

const arms: readonly (readonly [string, PolicyConfig, number])[] = [
  ["least_inflight, line of 120 s", { name: "least_inflight" }, 120_000],
  ["wait_and_widen, line of 120 s", { name: "wait_and_widen" }, 120_000],
  ["pulsar + widen, line of 120 s", { name: "pulsar_wait_and_widen" }, 120_000],
  ["least_inflight, gives up after 2 s", { name: "least_inflight" }, 2000],
];

function configOf(policy: PolicyConfig, clientTimeoutMs: number, options: ScenarioOptions): RunConfig {
  return {
    policy,
    backends: equalBackends(4, { slots: 4, sharedPrefill: options.sharedPrefill }),
    load: { steps, sessions: 40, regions: 1, inputTokens: 1000, prefixTokens: 800, maxOutputTokens: 200 },
    gateway: { clientTimeoutMs, maxAttempts: 1000, pollMs: 5000, affinity: true },
    roundTripMs: () => 2,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 50,
  };
}

interface Figures {
  readonly burstP50: number;
  readonly burstP99: number;
  readonly afterP99: number;
  readonly failures: number;
  readonly retries: number;
}

/** A burst meets a fleet of which every slot is taken: the line serves all of it, in time. */
export const burst: Scenario = (options) => {
  const figures = arms.map(([name, policy, timeoutMs]) => ({
    name,
    runs: options.seeds.map((seed): Figures => {
      const { recorder } = run(configOf(policy, timeoutMs, options), seed);
      const [, during, after] = recorder.windows;
      return {
        burstP50: percentile(during?.ttftMs ?? [], 0.5),
        burstP99: percentile(during?.ttftMs ?? [], 0.99),
        afterP99: percentile(after?.ttftMs ?? [], 0.99),
        failures: recorder.windows.reduce((sum, window) => sum + window.failures, 0),
        retries: recorder.retries,
      };
    }),
  }));
  const columns: readonly (readonly [keyof Figures, string])[] = [
    ["burstP50", "burst: TTFT p50 ms"],
    ["burstP99", "burst: TTFT p99 ms"],
    ["afterP99", "after it: TTFT p99 ms"],
    ["failures", "failures"],
    ["retries", "retries"],
  ];
  const withLine = figures.slice(0, 3);
  return {
    scenario: "f",
    title: "A burst of 120 requests at 16 slots, with the line",
    seeds: options.seeds.length,
    tables: [
      tableOf(
        ["", ...columns.map(([, title]) => title)],
        figures.map(({ name, runs }) => [
          name,
          ...columns.map(([metric]) => shown(estimateOf(runs.map((one) => one[metric])))),
        ]),
      ),
    ],
    charts: [
      {
        file: "f-burst.svg",
        title: "Time to first token of a burst",
        xLabel: "percentile",
        yLabel: "ms",
        xNames: ["p50", "p99"],
        series: figures.map(({ name, runs }) => ({
          name,
          points: (["burstP50", "burstP99"] as const).map(
            (metric, index) => [index, meanOf(runs.map((one) => one[metric]))] as const,
          ),
        })),
      },
    ],
    checks: withLine.map(({ name, runs }) =>
      atMost(`failures, ${name}`, meanOf(runs.map(({ failures }) => failures)), 0),
    ),
    figures: Object.fromEntries(
      figures.map(({ name, runs }) => [
        name,
        Object.fromEntries(columns.map(([metric]) => [metric, estimateOf(runs.map((one) => one[metric]))])),
      ]),
    ),
  };
};
