import type { Chart } from "../report/svg.ts";

/** What the command line asks of a scenario. */
export interface ScenarioOptions {
  readonly seeds: readonly number[];
  /** Shortens every run by this factor, for a quick look; 1 = as documented. */
  readonly scale: number;
  /** Whether prefills of concurrent requests on one backend wait for one another. */
  readonly sharedPrefill: boolean;
  /** Whether cached tokens are left out of the measured throughput. */
  readonly excludeCached: boolean;
  /** Told of progress, for the terminal. */
  readonly log: (line: string) => void;
}

/** A figure that must hold. */
export interface Check {
  readonly name: string;
  readonly value: number;
  readonly limit: number;
  readonly pass: boolean;
}

/** What a scenario shows. */
export interface ScenarioReport {
  readonly scenario: string;
  readonly title: string;
  readonly seeds: number;
  /** Tables for the terminal and the page. */
  readonly tables: readonly string[];
  readonly charts: readonly (Chart & { readonly file: string })[];
  readonly checks: readonly Check[];
  /** The figures, as JSON. */
  readonly figures: Readonly<Record<string, unknown>>;
}

export type Scenario = (options: ScenarioOptions) => ScenarioReport;

/** A check that a value is at most a limit. */
export function atMost(name: string, value: number, limit: number): Check {
  return { name, value, limit, pass: value <= limit };
}

/** A check that a value is at least a limit. */
export function atLeast(name: string, value: number, limit: number): Check {
  return { name, value, limit, pass: value >= limit };
}
