import type { Address } from "viem";
import { type Standing, standingOf } from "./reputation.ts";
import type { Candidate, ExclusionCounts, LiveStatistics, Selection } from "./types.ts";

/** What a decision knew of one candidate. Absent values were unknown. */
export interface DecidedCandidate {
  readonly provider: Address;
  readonly model: string;
  readonly score?: number;
  readonly inFlight: number;
  readonly openJobs: number;
  readonly maxConcurrentJobs: number;
  /** By the chain's record and what this gateway saw itself. */
  readonly standing: Standing;
  readonly ttftMs?: number;
  readonly successRatio?: number;
  readonly lastMeanInputTps?: number;
  readonly maxInputTps?: number;
  readonly queuedInputTokens?: number;
  readonly clusterId?: string;
}

/** Why a provider was chosen, as JSON: for the debug header, the job's document and the trace. */
export interface DecisionRecord {
  readonly policy: string;
  readonly reason: string;
  readonly verdict: Selection["verdict"];
  /** Version of the registry snapshot. */
  readonly version: number;
  /** The first few of the ranking; the first is the chosen one. */
  readonly ranked: readonly DecidedCandidate[];
  readonly busyCount: number;
  readonly excludedCounts: ExclusionCounts;
  readonly excluded: readonly { readonly provider: Address; readonly reason: string }[];
}

/** Candidates of the ranking and exclusions that a record shows: keeps it under 4 KiB. */
const mostShown = 4;

/** Describes a decision with the statistics of its candidates. Call it right after `select`: statistics move on. */
export function decisionRecord(selection: Selection, statistics: LiveStatistics): DecisionRecord {
  return {
    policy: selection.policy,
    reason: selection.reason,
    verdict: selection.verdict,
    version: selection.version,
    ranked: selection.ranked.slice(0, mostShown).map((candidate) => decided(candidate, selection, statistics)),
    busyCount: selection.busyCount,
    excludedCounts: selection.excludedCounts,
    excluded: selection.excluded.slice(0, 2 * mostShown),
  };
}

/** A record as the value of a header: printable ASCII, at most `maxBytes`; without its lists when it does not fit otherwise. */
export function decisionHeader(record: DecisionRecord, maxBytes = 4096): string {
  const text = asciiJson(record);
  return text.length <= maxBytes ? text : asciiJson({ ...record, ranked: record.ranked.slice(0, 1), excluded: [] });
}

/** Labels of a decision for a counter. Bounded: policies, their named reasons and three verdicts. */
export function decisionLabels(selection: Selection): Readonly<Record<"policy" | "reason" | "verdict", string>> {
  return { policy: selection.policy, reason: selection.reason, verdict: selection.verdict };
}

function decided(candidate: Candidate, selection: Selection, statistics: LiveStatistics): DecidedCandidate {
  const { provider, modelId } = candidate;
  const measured = statistics.measured(provider, modelId);
  const reported = statistics.reported(provider, modelId);
  return withoutUndefined({
    provider,
    model: modelId,
    score: selection.scores?.get(provider),
    inFlight: statistics.inFlight(provider, candidate.generation),
    openJobs: candidate.openJobs,
    maxConcurrentJobs: candidate.maxConcurrentJobs,
    standing: standingOf(candidate.reputation, measured?.faults),
    ttftMs: measured?.ttftMs,
    successRatio: measured?.successRatio,
    lastMeanInputTps: reported?.lastMeanInputTps,
    maxInputTps: reported?.maxInputTps,
    queuedInputTokens: reported?.queuedInputTokens,
    clusterId: reported?.clusterId,
  });
}

type WithUndefined<T> = { readonly [K in keyof T]: T[K] | undefined };

function withoutUndefined(value: WithUndefined<Required<DecidedCandidate>>): DecidedCandidate {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => field !== undefined),
  ) as unknown as DecidedCandidate;
}

/** JSON in which every character outside printable ASCII is escaped: model and cluster ids may be anything. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
