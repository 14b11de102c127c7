import type { Address } from "viem";
import { run, type RunConfig } from "../model/run.ts";
import { estimateOf } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";

/** One arm of the overload: the same load, with another policy, line or failing machine. */
export interface OverloadArm {
  readonly name: string;
  readonly config: RunConfig;
}

interface Figures {
  readonly failures: number;
  /** Of them, sent away by the line. */
  readonly failedInLine: number;
  readonly retries: number;
  /** Part of the prefill for clients who had left when it was done. */
  readonly vainPrefill: number;
}

function figuresOf(config: RunConfig, seed: number): Figures {
  const { recorder, backends } = run(config, seed);
  const sum = (part: (one: (typeof backends)[number]) => number): number =>
    backends.reduce((total, backend) => total + part(backend), 0);
  return {
    failures: [...recorder.failureCauses.values()].reduce((total, count) => total + count, 0),
    failedInLine: recorder.failureCauses.get("wait_timeout") ?? 0,
    retries: recorder.retries,
    vainPrefill: sum((backend) => backend.vainPrefillMs) / sum((backend) => backend.prefillMs),
  };
}

/** What overload comes to with and without the two things that could explain a difference: the failing machine's slots and the line's limit. */
export function overload(
  arms: readonly OverloadArm[],
  seeds: readonly number[],
): { readonly table: string; readonly figures: Readonly<Record<string, unknown>> } {
  const results = arms.map(({ name, config }) => {
    const runs = seeds.map((seed) => figuresOf(config, seed));
    return {
      name,
      failures: estimateOf(runs.map((one) => one.failures)),
      failedInLine: estimateOf(runs.map((one) => one.failedInLine)),
      retries: estimateOf(runs.map((one) => one.retries)),
      vainPrefillPercent: estimateOf(runs.map((one) => 100 * one.vainPrefill)),
    };
  });
  return {
    table: tableOf(
      ["overload", "failures", "of them in line", "retries", "prefill in vain, %"],
      results.map((one) => [
        one.name,
        shown(one.failures, 0),
        shown(one.failedInLine, 0),
        shown(one.retries, 0),
        shown(one.vainPrefillPercent, 1),
      ]),
    ),
    figures: Object.fromEntries(results.map(({ name, ...figures }) => [name, figures])),
  };
}

/** The same run with a failing machine that is never full. */
export function neverFull(config: RunConfig, failing: Address): RunConfig {
  return {
    ...config,
    backends: config.backends.map((backend) =>
      backend.address === failing ? { ...backend, slots: 1_000_000 } : backend,
    ),
  };
}

/** The same run with a line that sends away before clients leave. */
export function withWaitLimit(config: RunConfig, waitLimitMs: number): RunConfig {
  return { ...config, gateway: { ...config.gateway, waitLimitMs } };
}
