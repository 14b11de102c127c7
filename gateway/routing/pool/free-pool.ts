import type { Address } from "viem";
import type { Random } from "../../../protocol/clock.ts";
import { expectedCost } from "../expected-cost.ts";
import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, CandidatePool, ExclusionReason, LiveStatistics, RoutingRequest } from "../types.ts";
import { isBlamed, type Standing, standingOf } from "../reputation.ts";
import { isSuspect } from "../suspicion.ts";
import { CheapestSearch } from "./cheapest-search.ts";
import { RankDraw } from "./draw.ts";
import type { Limits } from "./limits.ts";
import { isFreePlace, type Member, standings } from "./member.ts";
import type { MemberTree, Pool } from "./pool.ts";

/** Below this share of matches it is cheaper to list what matches than to draw until something does. */
const rareShare = 1 / 8;
/** Above this share of free members among all slots, slots are drawn. */
const denseShare = 1 / 4;
/** Most members listed of a rare match. */
const maxListedMatches = 1024;
/**
 * Most candidates that a decision leaves out for what only this moment knows, one by one, before it looks no further: thousands that are
 * refused, shut down or fail would else hold up all other requests.
 */
const mostLeftOut = 1024;
/** As many may each further question of the policy leave out, when those are used up. */
const leftOutByQuestion = 128;
/**
 * Members that a question passes over for another standing than they have by what their place tells, before it is answered by what was
 * found: of a provider of several models the dear one may have a name and the cheap one not, and thousands may be alike in that.
 */
const mostPassedOver = 1024;

/**
 * The free candidates of one decision, worked out as far as the policy asks. What only this moment knows (tried, refused, filled by
 * unconfirmed posts) is checked when a candidate is met, and those left out for it are remembered.
 */
export class FreePool implements CandidatePool {
  readonly #pool: Pool;
  readonly #request: RoutingRequest;
  readonly #limits: Limits;
  readonly #statistics: LiveStatistics;
  readonly #random: Random;
  readonly #allowSuspects: boolean;
  /** Size of `met` at which the present question of the policy is answered by what was found. */
  #enoughMet = 0;
  /** Members passed over for their standing, in all, and how many answer the present question. */
  #passedOver = 0;
  #enoughPassedOver = 0;
  /** Members met that fit. */
  #fittingMet = 0;
  /** Trees in which a search found that nobody fits: the next question need not search them again. */
  readonly #barren = new Set<MemberTree>();
  /** Left out for what only this moment knows. */
  readonly met = new Map<Address, { readonly reason: ExclusionReason; readonly candidate: Candidate }>();

  constructor(
    pool: Pool,
    request: RoutingRequest,
    limits: Limits,
    statistics: LiveStatistics,
    random: Random,
    allowSuspects = false,
  ) {
    this.#allowSuspects = allowSuspects;
    this.#pool = pool;
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

  cheapest(count: number, standing?: Standing | "unblamed"): Candidate[] {
    this.#beginQuestion(mostPassedOver);
    const accept = (member: Member) => this.#accept(member, standing);
    const search = new CheapestSearch(this.#request, this.#limits, this.#random, count, accept, () => this.#isOver);
    const trees = this.#trees(standing);
    const fitting = this.#fittingMet;
    const found = search.run(trees);
    if (this.#fittingMet === fitting && !this.#isOver) for (const tree of trees) this.#barren.add(tree);
    if (found.length >= count || !this.#isOver) return found;
    // Too many of the cheapest are of no use now. Asked by chance, so that whoever is behind them gets work too.
    const known = new Set(found.map(({ provider }) => provider));
    const others = this.#sample(count - found.length, standing, leftOutByQuestion).filter(
      ({ provider }) => !known.has(provider),
    );
    const costs = new Map(others.map((candidate) => [candidate, expectedCost(candidate, this.#request)]));
    const costOf = (candidate: Candidate): bigint => costs.get(candidate) ?? 0n;
    return [...found, ...others.toSorted((a, b) => (costOf(a) < costOf(b) ? -1 : costOf(a) > costOf(b) ? 1 : 0))];
  }

  sample(count: number, standing?: Standing): Candidate[] {
    return this.#sample(count, standing, mostPassedOver);
  }

  #sample(count: number, standing: Standing | "unblamed" | undefined, passedOver: number): Candidate[] {
    this.#beginQuestion(passedOver);
    const trees = this.#trees(standing);
    const limits = this.#limits;
    const sizes = trees.map((tree) => (limits.limitsPrice ? tree.rankOf(limits.inputMayFit) : tree.size));
    const size = sizes.reduce((sum, part) => sum + part, 0);
    const matches = trees.reduce((sum, tree) => sum + limits.countFitting(tree), 0);
    if (matches < size * rareShare) {
      const listed = this.#listed(trees);
      return this.#draw(new RankDraw(listed.length, count, this.#random), count, standing, (rank) => listed[rank]);
    }
    const { slotCount, freeSize } = this.#pool;
    if (standing === undefined && freeSize > slotCount * denseShare && matches > freeSize / 2) {
      // Slots are drawn in place of ranks: a slot is found in fewer steps.
      const slots = new RankDraw(slotCount, Math.ceil((2 * count * slotCount) / freeSize), this.#random);
      return this.#draw(slots, count, standing, (slot) => this.#pool.member(slot));
    }
    const ranks = new RankDraw(size, count, this.#random);
    return this.#draw(ranks, count, standing, (rank) => memberAt(trees, sizes, rank));
  }

  /**
   * The first `count` acceptable ones of those drawn. Step by step for as many as are surely needed, not one after the other: what is
   * known of each lies far apart, and the processor fetches for several at once what none waits for.
   */
  #draw(
    ranks: RankDraw,
    count: number,
    standing: Standing | "unblamed" | undefined,
    memberOf: (rank: number) => Member | undefined,
  ): Candidate[] {
    const sample: Candidate[] = [];
    while (sample.length < count && !this.#isOver) {
      const drawn = ranks.next(count - sample.length);
      if (drawn.length === 0) break;
      for (const candidate of this.#candidatesOf(drawn.map(memberOf))) {
        if (candidate === undefined || !this.#isOfStanding(candidate, standing)) continue;
        if (this.#acceptNow(candidate) !== undefined) sample.push(candidate);
      }
    }
    return sample;
  }

  find(slot: number): Candidate | undefined {
    const member = this.#pool.member(slot);
    return member === undefined || !isFreePlace(member.place) ? undefined : this.#accept(member);
  }

  findAll(slots: readonly number[]): (Candidate | undefined)[] {
    const fitting = this.#candidatesOf(slots.map((slot) => this.#pool.member(slot)));
    return fitting.map((candidate) => (candidate === undefined ? undefined : this.#acceptNow(candidate)));
  }

  isFull(slot: number): boolean {
    const member = this.#pool.member(slot);
    if (member === undefined || this.#request.tried.has(member.provider)) return false;
    // A job could not be placed there, whenever a slot comes free.
    if (this.#statistics.endpointRefused?.(member.provider) === true) return false;
    if (member.place === "full") return this.#limits.matches(member);
    return this.met.get(member.provider)?.reason === "at_capacity";
  }

  /** What each of some members would serve with, those that are not free left out. */
  #candidatesOf(members: readonly (Member | undefined)[]): (Candidate | undefined)[] {
    return members.map((member) =>
      member !== undefined && isFreePlace(member.place) ? this.#limits.best(member) : undefined,
    );
  }

  #trees(standing: Standing | "unblamed" | undefined): readonly MemberTree[] {
    const wanted = standing === undefined || standing === "unblamed" ? standings : [standing];
    return wanted.map((place) => this.#pool.at(place)).filter((tree) => tree.size > 0 && !this.#barren.has(tree));
  }

  #listed(trees: readonly MemberTree[]): Member[] {
    const members: Member[] = [];
    for (const tree of trees) {
      for (const member of tree.matching(this.#limits.visit, this.#limits.matches)) {
        members.push(member);
        if (members.length >= maxListedMatches) return members;
      }
    }
    return members;
  }

  #accept(member: Member, standing?: Standing | "unblamed"): Candidate | undefined {
    const candidate = this.#limits.best(member);
    if (candidate !== undefined) this.#fittingMet += 1;
    return candidate !== undefined && this.#isOfStanding(candidate, standing) ? this.#acceptNow(candidate) : undefined;
  }

  /** Counts those that are not. */
  #isOfStanding(candidate: Candidate, wanted: Standing | "unblamed" | undefined): boolean {
    const isWanted = this.#hasStanding(candidate, wanted);
    if (!isWanted) this.#passedOver += 1;
    return isWanted;
  }

  /** By the offering that would serve, and by what this gateway saw itself, which outweighs what the chain tells. */
  #hasStanding({ provider, modelId, reputation }: Candidate, wanted: Standing | "unblamed" | undefined): boolean {
    if (wanted === undefined || wanted === "poor") return true;
    const hasFailed = this.#statistics.hasFailed?.(provider) !== false;
    const seenFaults = hasFailed ? this.#statistics.measured(provider, modelId)?.faults : undefined;
    if (wanted === "unblamed") return !isBlamed(reputation, seenFaults);
    return standingOf(reputation, seenFaults) === wanted;
  }

  /** Whether so many were left out that it looked no further: then somebody may be free all the same. */
  get isCut(): boolean {
    return this.met.size >= mostLeftOut;
  }

  #beginQuestion(passedOver: number): void {
    this.#enoughMet = Math.max(mostLeftOut, this.met.size + leftOutByQuestion);
    this.#enoughPassedOver = this.#passedOver + passedOver;
  }

  get #isOver(): boolean {
    return this.met.size >= this.#enoughMet || this.#passedOver >= this.#enoughPassedOver;
  }

  #acceptNow(candidate: Candidate): Candidate | undefined {
    if (this.met.size > 0 && this.met.has(candidate.provider)) return undefined;
    const reason = this.#faultNow(candidate);
    if (reason === undefined) return candidate;
    this.met.set(candidate.provider, { reason, candidate });
    return undefined;
  }

  #faultNow(candidate: Candidate): ExclusionReason | undefined {
    const { provider, modelId, maxConcurrentJobs, openJobs } = candidate;
    if (this.#request.tried.size > 0 && this.#request.tried.has(provider)) return "already_tried";
    if (this.#statistics.endpointRefused?.(provider) === true) return "endpoint_refused";
    if (this.#statistics.isDraining?.(provider) === true) return "draining";
    if (this.#statistics.knownFull?.(provider) === true) return "at_capacity";
    if (maxConcurrentJobs !== 0 && openJobs + this.#statistics.unconfirmedPosts(provider) >= maxConcurrentJobs) {
      return "at_capacity";
    }
    if (this.#allowSuspects) return undefined;
    return isSuspect(this.#statistics, provider, modelId) ? "suspect" : undefined;
  }
}

/** The member at a rank over several trees, one after the other. */
function memberAt(trees: readonly MemberTree[], sizes: readonly number[], rank: number): Member | undefined {
  let left = rank;
  for (let index = 0; index < sizes.length; index += 1) {
    const size = sizes[index] as number;
    if (left < size) return trees[index]?.at(left);
    left -= size;
  }
  return undefined;
}
