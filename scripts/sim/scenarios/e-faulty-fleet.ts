import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import type { BackendConfig } from "../model/backend.ts";
import { simAddress } from "../model/chain.ts";
import { run, type RunConfig } from "../model/run.ts";
import { estimateOf, meanOf, percentile } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { equalBackends } from "./fleet.ts";
import { atLeast, atMost, type Scenario, type ScenarioOptions } from "./scenario.ts";

const seconds = 600;
const perSecond = 20;
const backendCount = 8;

const policies: readonly (readonly [string, PolicyConfig])[] = [
  ["pulsar, maximum", { name: "pulsar" }],
  ["pulsar, mean", { name: "pulsar", rendezvous_weight: "last-mean-input-tps" }],
  [
    "pulsar + widen, maximum",
    { name: "pulsar_wait_and_widen", queue_limit_floor_ms: 2000, queue_limit_ceil_ms: 10_000 },
  ],
  ["wait_and_widen", { name: "wait_and_widen" }],
  ["least_inflight", { name: "least_inflight" }],
];

type Fault = "healthy" | "degraded" | "overstated" | "older_status";
const faults: readonly Fault[] = ["healthy", "degraded", "overstated", "older_status"];
const faultNames: Readonly<Record<Fault, string>> = {
  healthy: "all healthy",
  degraded: "one at a quarter of its speed from the middle on",
  overstated: "one over-states its initial value ten times",
  older_status: "half the fleet reports no maximum",
};

function backendsOf(fault: Fault, options: ScenarioOptions): BackendConfig[] {
  const middleMs = (seconds * options.scale * 1000) / 2;
  return equalBackends(backendCount, {
    slots: 16,
    sharedPrefill: options.sharedPrefill,
    excludeCached: options.excludeCached,
  }).map((backend, index) => {
    if (fault === "degraded" && index === 0)
      return { ...backend, health: (nowMs: number) => (nowMs < middleMs ? 1 : 0.25) };
    if (fault === "overstated" && index === 0) return { ...backend, initialTps: 80_000 };
    if (fault === "older_status" && index < backendCount / 2) return { ...backend, reportsMaximum: false };
    return backend;
  });
}

function configOf(policy: PolicyConfig, fault: Fault, options: ScenarioOptions): RunConfig {
  const half = (seconds * options.scale) / 2;
  return {
    policy,
    backends: backendsOf(fault, options),
    load: {
      steps: [
        { seconds: half, perSecond },
        { seconds: half, perSecond },
      ],
      sessions: 200,
      regions: 1,
      inputTokens: 3000,
      prefixTokens: 2400,
      maxOutputTokens: 200,
    },
    gateway: { clientTimeoutMs: 30_000, maxAttempts: 1000, pollMs: 5000, affinity: true },
    roundTripMs: () => 2,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 100,
  };
}

interface Figures {
  readonly ttftP50: number;
  readonly ttftP99: number;
  readonly failures: number;
  readonly retries: number;
  /** Requests of the affected backends over their fair share, second half included. */
  readonly affectedOverFair: number;
  readonly reuse: number;
}

function figuresOf(policy: PolicyConfig, fault: Fault, seed: number, options: ScenarioOptions): Figures {
  const { recorder } = run(configOf(policy, fault, options), seed);
  const ttft = recorder.windows.flatMap((window) => window.ttftMs);
  const affected = fault === "older_status" ? backendCount / 2 : 1;
  const served = Array.from({ length: affected }, (_, index) => recorder.shares.get(simAddress(index)) ?? 0);
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return {
    ttftP50: percentile(ttft, 0.5),
    ttftP99: percentile(ttft, 0.99),
    failures: sum(recorder.windows.map((window) => window.failures)),
    retries: recorder.retries,
    affectedOverFair: (sum(served) / ttft.length) * (backendCount / affected),
    reuse:
      sum(recorder.windows.map((window) => window.cachedTokens)) /
      sum(recorder.windows.map((window) => window.prefixTokens)),
  };
}

const columns: readonly (readonly [keyof Figures, string, number])[] = [
  ["ttftP50", "TTFT p50 ms", 0],
  ["ttftP99", "TTFT p99 ms", 0],
  ["failures", "failures", 1],
  ["retries", "retries", 0],
  ["affectedOverFair", "affected / fair", 2],
  ["reuse", "reuse", 2],
];

/** A backend that slows down, one that over-states its speed, and a fleet that is half on an older status. */
export const faultyFleet: Scenario = (options) => {
  const figures = faults.map((fault) => ({
    fault,
    arms: policies.map(([name, policy]) => {
      options.log(`${faultNames[fault]}: ${name}`);
      return { name, runs: options.seeds.map((seed) => figuresOf(policy, fault, seed, options)) };
    }),
  }));
  const value = (fault: Fault, arm: string, metric: keyof Figures): number =>
    meanOf(
      figures
        .find((one) => one.fault === fault)
        ?.arms.find(({ name }) => name === arm)
        ?.runs.map((one) => one[metric]) ?? [],
    );
  return {
    scenario: "e",
    title: "A degraded backend, an over-stated initial value, half the fleet on an older status",
    seeds: options.seeds.length,
    tables: figures.map(({ fault, arms }) =>
      tableOf(
        [faultNames[fault], ...columns.map(([, title]) => title)],
        arms.map(({ name, runs }) => [
          name,
          ...columns.map(([metric, , digits]) => shown(estimateOf(runs.map((one) => one[metric])), digits)),
        ]),
      ),
    ),
    charts: [
      {
        file: "e-ttft-p99.svg",
        title: "Time to first token, p99, with faults in the fleet",
        xLabel: "fault",
        yLabel: "ms",
        logY: true,
        xNames: ["healthy", "degraded", "over-stated", "older status"],
        series: policies.map(([name]) => ({
          name,
          points: faults.map((fault, index) => [index, value(fault, name, "ttftP99")] as const),
        })),
      },
    ],
    checks: [
      atMost(
        "over-stated backend over its fair share, pulsar maximum: the first measurement replaces the value",
        value("overstated", "pulsar, maximum", "affectedOverFair"),
        1.5,
      ),
      atMost(
        "share of backends without the maximum under pulsar maximum: never ranked by the other statistic",
        value("older_status", "pulsar, maximum", "affectedOverFair"),
        0,
      ),
      atLeast(
        "their share under pulsar mean, the setting for a staged roll-out",
        value("older_status", "pulsar, mean", "affectedOverFair"),
        0.7,
      ),
      atMost(
        "degraded: p99 TTFT of pulsar + widen over pulsar",
        value("degraded", "pulsar + widen, maximum", "ttftP99") / value("degraded", "pulsar, maximum", "ttftP99"),
        1,
      ),
    ],
    figures: Object.fromEntries(
      figures.map(({ fault, arms }) => [
        fault,
        Object.fromEntries(
          arms.map(({ name, runs }) => [
            name,
            Object.fromEntries(columns.map(([metric]) => [metric, estimateOf(runs.map((one) => one[metric]))])),
          ]),
        ),
      ]),
    ),
  };
};
