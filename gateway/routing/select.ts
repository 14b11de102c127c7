import type { Address } from "viem";
import type { Offer, Published, RegistrySnapshot } from "../../chain/registry-index/types.ts";
import type { Random } from "../../protocol/clock.ts";
import { expectedCost, neededContext } from "./expected-cost.ts";
import type { RoutingState } from "./state.ts";
import {
  type Candidate,
  type Exclusion,
  type ExclusionReason,
  type LiveStatistics,
  maxListed,
  type Policy,
  type RoutingRequest,
  type Selection,
} from "./types.ts";

export { createPolicy } from "./create-policy.ts";

/**
 * Who may serve the request, best first, and who could but is full.
 *
 * Candidates are active, fresh by chain time, offer the model within the price limit and hold enough context. The full ones
 * (`maxConcurrentJobs != 0` and `openJobs` plus this gateway's unconfirmed posts reach it) go to `busy`; the policy ranks the rest.
 * Providers in `request.tried` are left out of both. A pure function: the same input and random sequence give the same answer.
 */
export function select(
  published: Published<RoutingState>,
  request: RoutingRequest,
  policy: Policy,
  statistics: LiveStatistics,
  nowMs: number,
  random: Random,
): Selection {
  const { snapshot } = published;
  const excluded: Exclusion[] = [];
  const counts: Partial<Record<ExclusionReason, number>> = {};
  const leaveOut = (provider: Address, reason: ExclusionReason): void => {
    counts[reason] = (counts[reason] ?? 0) + 1;
    if (excluded.length < maxListed) excluded.push({ provider, reason });
  };
  const free: Candidate[] = [];
  const busy: Candidate[] = [];
  for (const [provider, candidates] of offersByProvider(snapshot, request)) {
    let best: Candidate | undefined;
    let reason: ExclusionReason = "inactive";
    for (const { candidate, offer } of candidates) {
      const fault = faultOf(candidate, offer, snapshot, request, policy, statistics);
      if (fault !== undefined) {
        reason = fault;
        continue;
      }
      if (best === undefined || expectedCost(candidate, request) < expectedCost(best, request)) best = candidate;
    }
    if (best === undefined) leaveOut(provider, reason);
    else if (isFull(best, statistics)) {
      leaveOut(provider, "at_capacity");
      busy.push(best);
    } else free.push(best);
  }
  const common = {
    busy: busy.slice(0, maxListed),
    busyCount: busy.length,
    policy: policy.name,
    version: snapshot.version,
  };
  if (free.length === 0) {
    return {
      ...common,
      verdict: busy.length > 0 ? "busy" : "none",
      ranked: [],
      excluded,
      excludedCounts: counts,
      reason: busy.length > 0 ? "all_busy" : "no_candidate",
    };
  }
  const ranking = policy.rank({ request, candidates: free, published, statistics, nowMs, random });
  for (const { provider, reason } of ranking.excluded) leaveOut(provider, reason);
  const waiting = busy.length > 0 || ranking.wait;
  return {
    ...common,
    verdict: ranking.ranked.length > 0 ? "ready" : waiting ? "busy" : "none",
    ranked: ranking.ranked.slice(0, maxListed),
    excluded,
    excludedCounts: counts,
    reason: ranking.reason,
    ...(ranking.scores === undefined ? {} : { scores: ranking.scores }),
  };
}

interface Offered {
  readonly candidate: Candidate;
  readonly offer: Offer;
}

function offersByProvider(snapshot: RegistrySnapshot, request: RoutingRequest): Map<Address, Offered[]> {
  const grouped = new Map<Address, Offered[]>();
  const models = request.modelId === undefined ? snapshot.models() : [request.modelId];
  for (const modelId of models) {
    for (const offer of snapshot.offers(modelId)) {
      const list = grouped.get(offer.provider.address) ?? [];
      list.push({ candidate: toCandidate(offer), offer });
      grouped.set(offer.provider.address, list);
    }
  }
  return grouped;
}

function toCandidate({ provider, offering }: Offer): Candidate {
  const reputation = provider.reputation.get(offering.modelId);
  return {
    provider: provider.address,
    generation: provider.generation,
    endpoint: provider.endpoint,
    modelId: offering.modelId,
    offeringId: offering.offeringId,
    inputPrice: offering.inputPrice,
    outputPrice: offering.outputPrice,
    contextLength: offering.contextLength,
    maxConcurrentJobs: provider.maxConcurrentJobs,
    openJobs: provider.openJobs,
    completedJobs: reputation?.completed ?? 0,
    failedJobs: reputation?.failed ?? 0,
  };
}

function faultOf(
  candidate: Candidate,
  { provider }: Offer,
  snapshot: RegistrySnapshot,
  request: RoutingRequest,
  policy: Policy,
  statistics: LiveStatistics,
): ExclusionReason | undefined {
  if (!provider.active) return "inactive";
  if (provider.lastSeen + snapshot.timeToLive < snapshot.blockTimestamp) return "stale";
  if (policy.only !== undefined && candidate.provider !== policy.only) return "not_manual_provider";
  if (request.maxPrice !== undefined) {
    if (candidate.inputPrice > request.maxPrice || candidate.outputPrice > request.maxPrice) return "price_above_limit";
  }
  if (candidate.contextLength < neededContext(request)) return "context_too_small";
  if (statistics.endpointRefused?.(candidate.provider) === true) return "endpoint_refused";
  if (request.tried.has(candidate.provider)) return "already_tried";
  return undefined;
}

/** Whether every slot is taken by jobs on chain and posts of this gateway that are not there yet; a cap of 0 is no cap. */
function isFull(candidate: Candidate, statistics: LiveStatistics): boolean {
  if (candidate.maxConcurrentJobs === 0) return false;
  return candidate.openJobs + statistics.unconfirmedPosts(candidate.provider) >= candidate.maxConcurrentJobs;
}
