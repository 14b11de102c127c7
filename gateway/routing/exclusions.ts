import type { Address } from "viem";
import type { RegistrySnapshot } from "../../chain/registry-index/types.ts";
import { countLeaves, type Limits } from "./pool/limits.ts";
import { type Member, standings } from "./pool/member.ts";
import { memberIn } from "./pool/placement.ts";
import type { Pool } from "./pool/pool.ts";
import type { Candidate, Exclusion, ExclusionCounts, ExclusionReason, RoutingRequest } from "./types.ts";

/** Full members with refused endpoints that are looked at; of any beyond it is said that they are full. */
const mostRefused = 1024;

/** What a decision knows of those it left out. */
export interface ExclusionInput {
  readonly snapshot: RegistrySnapshot;
  readonly pool: Pool;
  readonly limits: Limits;
  readonly request: RoutingRequest;
  /** Left out for what only this moment knows. */
  readonly met: ReadonlyMap<Address, { readonly reason: ExclusionReason; readonly candidate: Candidate }>;
  readonly byPolicy: readonly Exclusion[];
  /** Whether the gateway refuses a provider's endpoint. */
  readonly isRefused: (provider: Address) => boolean;
  /** Providers that a manual policy does not allow. */
  readonly otherThanManual: number;
  /** Greatest number of entries of each list. */
  readonly listed: number;
}

/** Who was left out and who is full. */
export interface ExclusionRecord {
  readonly busy: readonly Candidate[];
  readonly busyCount: number;
  readonly excluded: readonly Exclusion[];
  readonly excludedCounts: ExclusionCounts;
}

/** Counts those left out by reason, and lists a bounded number of them. */
export function describeExclusions(input: ExclusionInput): ExclusionRecord {
  const { pool, limits, listed } = input;
  const stale = pool.at("stale");
  const tally = new Tally(listed);
  const busy: Candidate[] = [];
  let busyCount = 0;
  for (const { reason, candidate } of input.met.values()) {
    tally.add(candidate.provider, reason);
    if (reason !== "at_capacity") continue;
    busyCount += 1;
    if (busy.length < listed) busy.push(candidate);
  }
  let fullByPolicy = 0;
  for (const { provider, reason } of input.byPolicy) {
    tally.add(provider, reason);
    if (reason === "at_capacity") fullByPolicy += 1;
  }
  busyCount += listFull(input, tally, busy);
  tally.raise("at_capacity", busyCount + fullByPolicy);
  tally.raise("inactive", pool.at("inactive").size);
  // One that would not do when it comes back, either, is no reason to hope for it: it counts for that.
  tally.raise("stale", limits.countFitting(stale));
  tally.raise("not_manual_provider", input.otherThanManual);
  listMembers(tally, pool.at("inactive"), "inactive");
  listMembers(tally, stale.matching(limits.visit, limits.matches), "stale");
  countMisfits(input, tally);
  return { busy, busyCount, excluded: tally.excluded, excludedCounts: tally.counts };
}

/**
 * Lists the full ones that match, as far as there is room in the lists. Returns their number: exact when there was room for all of them,
 * because on it depends whether anybody is worth waiting for.
 */
function listFull(input: ExclusionInput, tally: Tally, busy: Candidate[]): number {
  const { pool, limits, request, listed } = input;
  const full = pool.at("full");
  if (full.size === 0) return 0;
  // Those that already failed this request are no reason to wait.
  let tried = 0;
  for (const { provider } of triedAndFull(input)) {
    tried += 1;
    tally.add(provider, "already_tried");
  }
  let waited = 0;
  let refused = 0;
  let isWhole = true;
  for (const member of full.matching(limits.visit, limits.matches)) {
    if (busy.length >= listed || refused >= mostRefused) {
      isWhole = false;
      break;
    }
    const candidate = limits.best(member);
    if (candidate === undefined || request.tried.has(candidate.provider)) continue;
    // Nobody waits for a slot where the job could not be placed.
    if (input.isRefused(candidate.provider)) {
      refused += 1;
      tally.add(candidate.provider, "endpoint_refused");
      continue;
    }
    waited += 1;
    busy.push(candidate);
    tally.list(candidate.provider, "at_capacity");
  }
  return isWhole ? waited : Math.max(waited, limits.countFitting(full) - tried - refused);
}

const activePlaces = [...standings, "full", "stale"] as const;

/** Active members whose price, context or stake does not fit. */
function countMisfits({ pool, limits }: ExclusionInput, tally: Tally): void {
  let byPrice = 0;
  let byContext = 0;
  let byStake = 0;
  for (const place of activePlaces) {
    const tree = pool.at(place);
    if (tree.size === 0) continue;
    const fitting = limits.countFitting(tree);
    if (fitting === tree.size) continue;
    const inTerms = limits.limitsStake ? tree.count(limits.visitTerms, limits.termsMatch, countLeaves) : fitting;
    const priced = limits.limitsPrice ? tree.count(limits.visitPrice, limits.pricesMatch, countLeaves) : tree.size;
    byPrice += tree.size - priced;
    byContext += Math.max(0, priced - inTerms);
    byStake += Math.max(0, inTerms - fitting);
    // Price sorts the members, so the dearest are at the end; misfits of context or stake are found only while few are looked at.
    for (const member of lookedAt(tree.size, (rank) => tree.at(rank))) {
      const fault = limits.memberFault(member);
      if (fault !== undefined) tally.list(member.provider, fault);
      if (tally.isListFull) break;
    }
  }
  tally.raise("price_above_limit", byPrice);
  tally.raise("context_too_small", byContext);
  tally.raise("insufficient_stake", byStake);
}

const mostLookedAt = 64;

/** The last members of a tree, last first. */
function* lookedAt(size: number, at: (rank: number) => Member | undefined): IterableIterator<Member> {
  for (let rank = size - 1; rank >= Math.max(0, size - mostLookedAt); rank -= 1) {
    const member = at(rank);
    if (member !== undefined) yield member;
  }
}

function listMembers(tally: Tally, members: Iterable<Member>, reason: ExclusionReason): void {
  for (const { provider } of members) {
    if (tally.isListFull) return;
    tally.list(provider, reason);
  }
}

/** Full members that the request has tried. */
function* triedAndFull({ snapshot, pool, limits, request }: ExclusionInput): IterableIterator<Candidate> {
  if (pool.at("full").size === 0) return;
  for (const provider of request.tried) {
    const member = memberIn(snapshot, snapshot.provider(provider), request.modelId);
    if (member?.place !== "full" || pool.at("full").get(member) === undefined) continue;
    const candidate = limits.best(member);
    if (candidate !== undefined) yield candidate;
  }
}

/** Counts without a bound, a list with one. */
class Tally {
  readonly #listed: number;
  readonly excluded: Exclusion[] = [];
  readonly counts: Partial<Record<ExclusionReason, number>> = {};

  constructor(listed: number) {
    this.#listed = listed;
  }

  get isListFull(): boolean {
    return this.excluded.length >= this.#listed;
  }

  /** Counts one and lists it. */
  add(provider: Address, reason: ExclusionReason): void {
    this.counts[reason] = (this.counts[reason] ?? 0) + 1;
    this.list(provider, reason);
  }

  /** Lists one that is counted elsewhere. */
  list(provider: Address, reason: ExclusionReason): void {
    if (!this.isListFull) this.excluded.push({ provider, reason });
  }

  /** Sets a count that was worked out as a whole; 0 leaves no entry. */
  raise(reason: ExclusionReason, count: number): void {
    if (count > 0) this.counts[reason] = count;
  }
}
