import type { Address } from "viem";
import type { LiveStatistics, Selection } from "../routing/types.ts";

/** Why a selection ranked as it did, bounded: for the debug header, the job API and support. */
export interface DecisionRecord {
  readonly policy: string;
  /** Branch of the policy that was taken. */
  readonly reason: string;
  /** Version of the registry snapshot. */
  readonly version: number;
  readonly ranked: readonly Address[];
  readonly busy: number;
  readonly excluded: Readonly<Record<string, number>>;
  /** Scores of the ranked ones, in their order, where the policy has some. */
  readonly scores?: readonly number[];
  /** What the first of the ranking reported of itself. */
  readonly lastMeanInputTps?: number;
  readonly maxInputTps?: number;
}

const maxRanked = 8;
const maxHeaderLength = 2048;

/** The record of one selection. */
export function decisionOf(selection: Selection, statistics: Pick<LiveStatistics, "reported">): DecisionRecord {
  const ranked = selection.ranked.slice(0, maxRanked);
  const [first] = ranked;
  const reported = first === undefined ? undefined : statistics.reported(first.provider, first.modelId);
  const { scores } = selection;
  return {
    policy: selection.policy,
    reason: selection.reason,
    version: selection.version,
    ranked: ranked.map(({ provider }) => provider),
    busy: selection.busyCount,
    excluded: { ...selection.excludedCounts },
    ...(scores === undefined ? {} : { scores: ranked.map(({ provider }) => scores.get(provider) ?? 0) }),
    ...(reported?.lastMeanInputTps === undefined ? {} : { lastMeanInputTps: reported.lastMeanInputTps }),
    ...(reported?.maxInputTps === undefined ? {} : { maxInputTps: reported.maxInputTps }),
  };
}

/** The record as a header value: one line of printable ASCII, never longer than a header should be. */
export function decisionHeader(decision: DecisionRecord): string {
  const text = JSON.stringify(decision);
  const shown =
    text.length <= maxHeaderLength ? text : JSON.stringify({ policy: decision.policy, reason: decision.reason });
  return shown.replaceAll(/[^\x20-\x7e]/g, "?");
}
