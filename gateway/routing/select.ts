import type { Published } from "../../chain/registry-index/types.ts";
import type { Random } from "../../protocol/clock.ts";
import { describeExclusions } from "./exclusions.ts";
import { FreePool } from "./pool/free-pool.ts";
import { Limits } from "./pool/limits.ts";
import { narrowToOne } from "./pool/one-provider.ts";
import type { RoutingState } from "./state.ts";
import { statusPaceMs } from "./status-pace.ts";
import {
  type ExclusionCounts,
  type LiveStatistics,
  maxListed,
  type Policy,
  type Ranking,
  type RoutingRequest,
  type Selection,
} from "./types.ts";

export { createPolicy } from "./create-policy.ts";

const nobody: Ranking = { ranked: [], reason: "no_candidate", wait: false, excluded: [] };

/**
 * Who may serve the request, best first, and who could but is full.
 *
 * Candidates are active, fresh by chain time, offer the model within the price limit, hold enough context and have the stake. The full ones
 * (`maxConcurrentJobs != 0` and `openJobs` plus this gateway's unconfirmed posts reach it) go to `busy`; the policy ranks the rest.
 * Providers in `request.tried` are left out of both. A pure function: the same input and random sequence give the same answer. The
 * work is bounded by what the policy looks at, not by the number of providers.
 */
export function select(
  published: Published<RoutingState>,
  request: RoutingRequest,
  policy: Policy,
  statistics: LiveStatistics,
  nowMs: number,
  random: Random,
): Selection {
  const input = { published, request, policy, statistics, nowMs, random };
  const { selection, isCut, policyWaits } = selectAmong(input, false);
  // Providers that fail most requests are better than none, but not better than a short wait for a good one.
  const { suspect, draining } = selection.excludedCounts;
  const waitsForSomebody = selection.busyCount > 0 || policyWaits;
  const isNobodyNear = selection.verdict === "none" || ((draining !== undefined || isCut) && !waitsForSomebody);
  const isLeftToSuspects = isNobodyNear && selection.verdict !== "ready" && suspect !== undefined;
  return isLeftToSuspects ? selectAmong(input, true).selection : selection;
}

interface SelectInput {
  readonly published: Published<RoutingState>;
  readonly request: RoutingRequest;
  readonly policy: Policy;
  readonly statistics: LiveStatistics;
  readonly nowMs: number;
  readonly random: Random;
}

function selectAmong(
  input: SelectInput,
  allowSuspects: boolean,
): { readonly selection: Selection; readonly isCut: boolean; readonly policyWaits: boolean } {
  const { published, request, policy, statistics, nowMs, random } = input;
  const { snapshot, derived } = published;
  const whole = derived.pool(request.modelId);
  if (whole === undefined) {
    return { selection: emptySelection(policy, snapshot.version), isCut: false, policyWaits: false };
  }
  const pool = policy.only === undefined ? whole : narrowToOne(snapshot, request.modelId, policy.only);
  const limits = new Limits(request);
  const free = new FreePool(pool, request, limits, statistics, random, allowSuspects);
  const ranking = free.size === 0 ? nobody : policy.rank({ request, pool: free, published, statistics, nowMs, random });
  const ready = ranking.ranked.length > 0;
  const left = describeExclusions({
    snapshot,
    pool,
    limits,
    request,
    met: free.met,
    byPolicy: ranking.excluded,
    isRefused: (provider) => statistics.endpointRefused?.(provider) === true,
    otherThanManual: whole.size - pool.size,
    // Who was left out matters most to a request that waits or fails.
    listed: ready ? 8 : maxListed,
  });
  // A provider that shuts down may be starting anew, and its place is taken until then: it is waited for as a full one is.
  // A decision that looked at no more than it may knows of nobody, not that there is nobody: it is made again, by another draw.
  const { isCut } = free;
  const busy = left.busyCount > 0 || ranking.wait || left.excludedCounts.draining !== undefined || isCut;
  const recheckMs = ready || !busy ? undefined : recheckAfter(ranking, left.excludedCounts, isCut);
  const selection: Selection = {
    verdict: ready ? "ready" : busy ? "busy" : "none",
    ranked: ranking.ranked.length > maxListed ? ranking.ranked.slice(0, maxListed) : ranking.ranked,
    busy: left.busy,
    busyCount: left.busyCount,
    excluded: left.excluded,
    excludedCounts: left.excludedCounts,
    policy: policy.name,
    reason: ranking.reason === nobody.reason && busy ? "all_busy" : ranking.reason,
    ...(recheckMs === undefined ? {} : { recheckMs }),
    ...(ranking.scores === undefined ? {} : { scores: ranking.scores }),
    version: snapshot.version,
  };
  return { selection, isCut, policyWaits: ranking.wait };
}

/** Ms after which time or a newer status may give a choice; undefined: only a change of the registry can. */
function recheckAfter({ recheckMs }: Ranking, counts: ExclusionCounts, isCut: boolean): number | undefined {
  const { draining, kv_full: kvFull, no_statistic: noStatistic } = counts;
  const isLeftOutByStatus = draining !== undefined || kvFull !== undefined || noStatistic !== undefined;
  return isLeftOutByStatus || isCut ? Math.min(statusPaceMs, recheckMs ?? statusPaceMs) : recheckMs;
}

function emptySelection(policy: Policy, version: number): Selection {
  return {
    verdict: "none",
    ranked: [],
    busy: [],
    busyCount: 0,
    excluded: [],
    excludedCounts: {},
    policy: policy.name,
    reason: nobody.reason,
    version,
  };
}
