import type { Address } from "viem";
import type { ProviderRecord, RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import type { Random } from "../../../protocol/clock.ts";
import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, CandidatePool, ExclusionReason, LiveStatistics, RoutingRequest } from "../types.ts";
import { byExpectedCost } from "./cost-order.ts";
import type { Limits } from "./limits.ts";
import { type Member, memberOf, type Standing, standings } from "./member.ts";
import { permutation } from "./permutation.ts";
import type { MemberTree, Pool } from "./pool.ts";

/** Below this share of matches it is cheaper to list what matches than to draw until something does. */
const rareShare = 1 / 8;
/** Most members listed of a rare match. */
const maxListedMatches = 1024;
/** Leaves that a count may enter: exact for a few hundred mixed members, an estimate beyond. */
const countLeaves = 16;

/**
 * The free candidates of one decision, worked out as far as the policy asks. What only this moment knows (tried, refused, filled by
 * unconfirmed posts) is checked when a candidate is met, and those left out for it are remembered.
 */
export class FreePool implements CandidatePool {
  readonly #pool: Pool;
  readonly #snapshot: RegistrySnapshot;
  readonly #request: RoutingRequest;
  readonly #limits: Limits;
  readonly #statistics: LiveStatistics;
  readonly #random: Random;
  /** Left out for what only this moment knows. */
  readonly met = new Map<Address, { readonly reason: ExclusionReason; readonly candidate: Candidate }>();

  constructor(
    pool: Pool,
    snapshot: RegistrySnapshot,
    request: RoutingRequest,
    limits: Limits,
    statistics: LiveStatistics,
    random: Random,
  ) {
    this.#pool = pool;
    this.#snapshot = snapshot;
    this.#request = request;
    this.#limits = limits;
    this.#statistics = statistics;
    this.#random = random;
  }

  get ring(): HashRing | undefined {
    return this.#pool.ring;
  }

  get size(): number {
    return this.#pool.freeSize;
  }

  *byCost(standing?: Standing): IterableIterator<Candidate> {
    for (const member of byExpectedCost(this.#trees(standing), this.#request, this.#limits, this.#random)) {
      const candidate = this.#accept(member);
      if (candidate !== undefined) yield candidate;
    }
  }

  *shuffled(standing?: Standing): IterableIterator<Candidate> {
    for (const member of this.#drawn(this.#trees(standing))) {
      const candidate = this.#accept(member);
      if (candidate !== undefined) yield candidate;
    }
  }

  sample(count: number, standing?: Standing): Candidate[] {
    const sample: Candidate[] = [];
    for (const candidate of this.shuffled(standing)) {
      sample.push(candidate);
      if (sample.length >= count) break;
    }
    return sample;
  }

  find(provider: Address): Candidate | undefined {
    const record = this.#snapshot.provider(provider);
    if (record === undefined || !this.#isFree(record)) return undefined;
    const { modelId } = this.#request;
    const member = memberOf(record, modelId);
    return member === undefined ? undefined : this.#accept(member);
  }

  #isFree(record: ProviderRecord): boolean {
    if (!record.active || record.lastSeen + this.#snapshot.timeToLive < this.#snapshot.blockTimestamp) return false;
    return record.maxConcurrentJobs === 0 || record.openJobs < record.maxConcurrentJobs;
  }

  #trees(standing: Standing | undefined): readonly MemberTree[] {
    const wanted = standing === undefined ? standings : [standing];
    return wanted.map((place) => this.#pool.at(place)).filter((tree) => tree.size > 0);
  }

  /** Members that may fit, in random order. */
  *#drawn(trees: readonly MemberTree[]): IterableIterator<Member> {
    const limits = this.#limits;
    const sizes = trees.map((tree) => (limits.limitsPrice ? tree.rankOf(limits.inputMayFit) : tree.size));
    const size = sizes.reduce((sum, part) => sum + part, 0);
    const matches = trees.reduce((sum, tree) => sum + tree.count(limits.visit, limits.matches, countLeaves), 0);
    if (matches < size * rareShare) {
      yield* this.#listed(trees);
      return;
    }
    for (const drawn of permutation(size, this.#random)) {
      let rank = drawn;
      let index = 0;
      while (rank >= (sizes[index] ?? 0)) {
        rank -= sizes[index] ?? 0;
        index += 1;
      }
      const member = trees[index]?.at(rank);
      if (member !== undefined) yield member;
    }
  }

  *#listed(trees: readonly MemberTree[]): IterableIterator<Member> {
    const members: Member[] = [];
    for (const tree of trees) {
      for (const member of tree.matching(this.#limits.visit, this.#limits.matches)) {
        members.push(member);
        if (members.length >= maxListedMatches) break;
      }
    }
    for (const drawn of permutation(members.length, this.#random)) yield members[drawn] as Member;
  }

  #accept(member: Member): Candidate | undefined {
    const candidate = this.#limits.best(member);
    if (candidate === undefined) return undefined;
    const reason = this.#faultNow(candidate);
    if (reason === undefined) return candidate;
    this.met.set(candidate.provider, { reason, candidate });
    return undefined;
  }

  #faultNow(candidate: Candidate): ExclusionReason | undefined {
    const { provider, maxConcurrentJobs, openJobs } = candidate;
    if (this.#request.tried.size > 0 && this.#request.tried.has(provider)) return "already_tried";
    if (this.#statistics.endpointRefused?.(provider) === true) return "endpoint_refused";
    if (maxConcurrentJobs === 0) return undefined;
    return openJobs + this.#statistics.unconfirmedPosts(provider) >= maxConcurrentJobs ? "at_capacity" : undefined;
  }
}
