import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import type { Policy } from "../../../gateway/routing/types.ts";
import { simAddress } from "../model/chain.ts";
import { topScorePolicy } from "../model/comparison-policies.ts";
import { run, type RunConfig } from "../model/run.ts";
import { estimateOf, meanOf } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { equalBackends } from "./fleet.ts";
import { atMost, type Scenario, type ScenarioOptions } from "./scenario.ts";

/** From one request in 20 s to more than both machines can serve. */
const rates = [0.05, 0.5, 1, 2, 4, 6, 8, 10, 12, 14, 16];
/** Requests of each run; the lowest rates run as long as it takes. */
const requestsPerRun = 2000;

function configOf(policy: PolicyConfig | (() => Policy), perSecond: number, options: ScenarioOptions): RunConfig {
  return {
    policy,
    backends: equalBackends(2, { sharedPrefill: options.sharedPrefill, excludeCached: options.excludeCached }),
    load: {
      steps: [{ seconds: (requestsPerRun * options.scale) / perSecond, perSecond }],
      sessions: 1_000_000,
      regions: 1,
      inputTokens: 1500,
      prefixTokens: 0,
      maxOutputTokens: 80,
      // One request in 20 s never overlaps: the case in which a deterministic choice never spreads.
      ...(perSecond < 0.1 ? { regular: true } : {}),
    },
    gateway: { clientTimeoutMs: 60_000, maxAttempts: 1000, pollMs: 5000, affinity: false },
    roundTripMs: () => 2,
    blockMs: 1000,
    heartbeatMs: 1000,
    reportDelayMs: 50,
  };
}

interface Figures {
  /** Requests of the busier machine over those of a fair half. */
  readonly shareOfFair: number;
  /** Mean time to first token of the slower machine over the faster. */
  readonly ttftRatio: number;
  readonly failures: number;
  readonly retries: number;
}

function figuresOf(config: RunConfig, seed: number): Figures {
  const { recorder } = run(config, seed);
  const shares = [0, 1].map((index) => recorder.shares.get(simAddress(index)) ?? 0);
  const ttfts = [0, 1].map((index) => meanOf(recorder.ttftOf.get(simAddress(index)) ?? []));
  const total = shares.reduce((sum, share) => sum + share, 0);
  const [a, b] = ttfts as [number, number];
  return {
    shareOfFair: (2 * Math.max(...shares)) / total,
    ttftRatio: Number.isNaN(a) || Number.isNaN(b) ? Number.POSITIVE_INFINITY : Math.max(a / b, b / a),
    failures: recorder.windows.reduce((sum, window) => sum + window.failures, 0),
    retries: recorder.retries,
  };
}

/** Two equal machines: whether they get equal work and give equal answers. */
export const equalMachines: Scenario = (options) => {
  const arms = [
    { name: "top score", policy: topScorePolicy },
    { name: "weighted draw", policy: { name: "least_inflight" } as const },
  ];
  const figures = arms.map(({ name, policy }) => ({
    name,
    byRate: rates.map((rate) => {
      options.log(`${name}, ${rate}/s`);
      return options.seeds.map((seed) => figuresOf(configOf(policy, rate, options), seed));
    }),
  }));
  const ours = figures[1];
  if (ours === undefined) throw new Error("arms are missing");
  const table = tableOf(
    ["requests/s", ...figures.flatMap(({ name }) => [`${name}: busier / fair`, "TTFT ratio", "failures", "retries"])],
    rates.map((rate, index) => [
      String(rate),
      ...figures.flatMap(({ byRate }) => {
        const runs = byRate[index] ?? [];
        return [
          shown(estimateOf(runs.map((one) => one.shareOfFair)), 3),
          shown(estimateOf(runs.map((one) => one.ttftRatio)), 3),
          shown(estimateOf(runs.map((one) => one.failures)), 1),
          shown(estimateOf(runs.map((one) => one.retries)), 1),
        ];
      }),
    ]),
  );
  const worst = (metric: "shareOfFair" | "ttftRatio"): number =>
    Math.max(...ours.byRate.map((runs) => meanOf(runs.map((one) => one[metric]))));
  return {
    scenario: "b",
    title: "Two equal machines, from one request in 20 s to overload",
    seeds: options.seeds.length,
    tables: [table],
    charts: [
      {
        file: "b-shares.svg",
        title: "Requests of the busier of two equal machines over a fair half",
        xLabel: "requests a second",
        yLabel: "share / fair share",
        xNames: rates.map(String),
        series: figures.map(({ name, byRate }) => {
          const estimates = byRate.map((runs) => estimateOf(runs.map((one) => one.shareOfFair)));
          return {
            name,
            points: estimates.map(({ mean }, index) => [index, mean] as const),
            errors: estimates.map(({ ci95 }) => ci95),
          };
        }),
      },
    ],
    checks: [
      atMost("busier machine over fair share, weighted draw, worst rate", worst("shareOfFair"), 1.1),
      atMost("TTFT ratio of equal machines, weighted draw, worst rate", worst("ttftRatio"), 1.1),
    ],
    figures: {
      rates,
      arms: Object.fromEntries(
        figures.map(({ name, byRate }) => [
          name,
          byRate.map((runs) => ({
            shareOfFair: estimateOf(runs.map((one) => one.shareOfFair)),
            ttftRatio: estimateOf(runs.map((one) => one.ttftRatio)),
            failures: estimateOf(runs.map((one) => one.failures)),
            retries: estimateOf(runs.map((one) => one.retries)),
          })),
        ]),
      ),
    },
  };
};
