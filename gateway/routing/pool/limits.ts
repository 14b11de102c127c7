import { expectedCost, neededContext } from "../expected-cost.ts";
import { isUnderstaked, type JobCollateral } from "../stake.ts";
import type { Candidate, ExclusionReason, RoutingRequest } from "../types.ts";
import { type Member, memberSummary } from "./member.ts";
import type { MemberTree } from "./pool.ts";
import type { Visitor } from "./tree-node.ts";

/** Leaves that a count may enter before it estimates; see `SortedTree.count`. */
export const countLeaves = 16;

/** Whole numbers up to here are exact as doubles. */
const exactLimit = 2 ** 53;

/** Why an offering does not fit a request. */
export type Misfit = Extract<ExclusionReason, "price_above_limit" | "context_too_small" | "insufficient_stake">;

/**
 * What a request asks of an offering: price, context, and stake for the job. Judges single offerings exactly and whole subtrees by their
 * summary.
 */
export class Limits {
  readonly #request: RoutingRequest;
  readonly #price: number;
  readonly #strict: boolean;
  readonly #context: number;
  readonly #collateral: JobCollateral | undefined;
  /** Judges a subtree by all that is asked. */
  readonly visit: Visitor;
  /** Of trees with mixed offers. */
  #counts: Map<MemberTree, number> | undefined;

  constructor(request: RoutingRequest) {
    this.#request = request;
    this.#price = request.maxPrice === undefined ? Number.POSITIVE_INFINITY : Number(request.maxPrice);
    // A double above 2^53 may have been rounded up to the limit: then only what is strictly below it is surely within.
    this.#strict = this.#price >= exactLimit && request.maxPrice !== undefined;
    this.#context = neededContext(request);
    this.#collateral = request.collateral;
    this.visit = request.collateral === undefined ? this.visitTerms : this.#visitAll;
  }

  /** Whether there is a price limit. */
  get limitsPrice(): boolean {
    return this.#request.maxPrice !== undefined;
  }

  /** Whether somebody may not have the stake for one of its offerings that fits otherwise. @param summary Of all members. */
  mayLackStake(summary: readonly number[]): boolean {
    if (this.#collateral === undefined) return false;
    // What is sure of one offering says nothing of the others that a provider of several models has.
    return this.#request.modelId === undefined
      ? this.visit(summary, 0) !== "take"
      : this.visitStake(summary, 0) !== "take";
  }

  /** Whether a member's least input price may be within the limit; holds for a prefix of the members. */
  readonly inputMayFit = (member: Member): boolean => member.leastInput <= this.#price;

  /** Whether the job holds any stake. */
  get limitsStake(): boolean {
    return this.#collateral !== undefined;
  }

  /** Number of members of a tree that fit: exact for a few hundred mixed offers, an estimate beyond. */
  countFitting(tree: MemberTree): number {
    const decision = tree.size === 0 ? "skip" : this.visit(tree.summary, 0);
    if (decision !== "enter") return decision === "take" ? tree.size : 0;
    // Asked more than once in a decision, and with mixed offers a thousand members are looked at each time.
    this.#counts ??= new Map();
    const known = this.#counts.get(tree);
    if (known !== undefined) return known;
    const count = tree.count(this.visit, this.matches, countLeaves);
    this.#counts.set(tree, count);
    return count;
  }

  readonly #visitAll: Visitor = (summaries, at) => {
    const terms = this.visitTerms(summaries, at);
    if (terms === "skip") return terms;
    const stake = this.visitStake(summaries, at);
    return stake === "take" ? terms : stake;
  };

  /** Judges a subtree by stake alone. */
  readonly visitStake: Visitor = (summaries, at) => {
    const collateral = this.#collateral;
    if (collateral === undefined) return "take";
    // First what holds as a rule: that all have enough.
    const sureInput = -(summaries[at + memberSummary.negativeSureInput] as number);
    const sureOutput = -(summaries[at + memberSummary.negativeSureOutput] as number);
    const mostContext = -(summaries[at + memberSummary.negativeMostContext] as number);
    const leastStake = summaries[at + memberSummary.leastStake] as number;
    if (leastStake >= collateral.atMost(sureInput, sureOutput, mostContext)) return "take";
    const leastInput = summaries[at + memberSummary.leastInput] as number;
    const leastOutput = summaries[at + memberSummary.leastOutput] as number;
    const leastContext = Math.max(this.#context, summaries[at + memberSummary.leastContext] as number);
    const mostStake = -(summaries[at + memberSummary.negativeMostStake] as number);
    return mostStake < collateral.atLeast(leastInput, leastOutput, leastContext) ? "skip" : "enter";
  };

  /** Judges a subtree by price and context. */
  readonly visitTerms: Visitor = (summaries, at) => {
    const price = this.visitPrice(summaries, at);
    const mostContext = -(summaries[at + memberSummary.negativeMostContext] as number);
    if (price === "skip" || mostContext < this.#context) return "skip";
    return price === "take" && (summaries[at + memberSummary.sureContext] as number) >= this.#context
      ? "take"
      : "enter";
  };

  /** Judges a subtree by price alone. */
  readonly visitPrice: Visitor = (summaries, at) => {
    const limit = this.#price;
    if ((summaries[at + memberSummary.leastInput] as number) > limit) return "skip";
    if ((summaries[at + memberSummary.leastOutput] as number) > limit) return "skip";
    const sureInput = -(summaries[at + memberSummary.negativeSureInput] as number);
    const sureOutput = -(summaries[at + memberSummary.negativeSureOutput] as number);
    const most = Math.max(sureInput, sureOutput);
    return (this.#strict ? most < limit : most <= limit) ? "take" : "enter";
  };

  /** The member's cheapest offering for this request within the limits; undefined when none is. */
  readonly best = (member: Member): Candidate | undefined => {
    const { only } = member;
    if (only === undefined) return this.#bestOf(member);
    if (!this.#termsFit(only)) return undefined;
    const collateral = this.#collateral;
    if (collateral === undefined) return only;
    const { leastInput, leastOutput, mostContext, leastStake } = member;
    if (leastStake >= collateral.atMost(leastInput, leastOutput, mostContext)) return only;
    return isUnderstaked(only, collateral) ? undefined : only;
  };

  #bestOf({ candidates, terms = [], mostStake }: Member): Candidate | undefined {
    const collateral = this.#collateral;
    let best: Candidate | undefined;
    for (let at = 0; at < terms.length; at += 3) {
      // By doubles first: of very many members each may have one offering that is too short and one that is too dear.
      const input = terms[at] as number;
      const output = terms[at + 1] as number;
      const context = terms[at + 2] as number;
      if (input > this.#price || output > this.#price || context < this.#context) continue;
      if (collateral !== undefined && mostStake < collateral.atLeast(input, output, context)) continue;
      const candidate = candidates[at / 3] as Candidate;
      if (!this.#termsFit(candidate)) continue;
      if (collateral !== undefined && isUnderstaked(candidate, collateral)) continue;
      if (best === undefined || expectedCost(candidate, this.#request) < expectedCost(best, this.#request))
        best = candidate;
    }
    return best;
  }

  readonly matches = (member: Member): boolean => this.best(member) !== undefined;

  /** Whether one of a member's offerings fits by price and context. */
  readonly termsMatch = (member: Member): boolean => member.candidates.some((candidate) => this.#termsFit(candidate));

  readonly pricesMatch = (member: Member): boolean => member.candidates.some((candidate) => this.#priceFits(candidate));

  #termsFit(candidate: Candidate): boolean {
    return this.#priceFits(candidate) && candidate.contextLength >= this.#context;
  }

  /** Why none of a member's offerings fits, of the one that comes closest; undefined when one does. */
  memberFault(member: Member): Misfit | undefined {
    if (this.matches(member)) return undefined;
    if (this.termsMatch(member)) return "insufficient_stake";
    return this.pricesMatch(member) ? "context_too_small" : "price_above_limit";
  }

  #priceFits(candidate: Candidate): boolean {
    const { maxPrice } = this.#request;
    return maxPrice === undefined || (candidate.inputPrice <= maxPrice && candidate.outputPrice <= maxPrice);
  }
}
