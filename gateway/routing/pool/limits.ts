import { expectedCost, neededContext } from "../expected-cost.ts";
import type { Candidate, ExclusionReason, RoutingRequest } from "../types.ts";
import { type Member, memberSummary } from "./member.ts";
import type { Visitor } from "./tree-node.ts";

/** Whole numbers up to here are exact as doubles. */
const exactLimit = 2 ** 53;

/** What a request asks of an offering: price and context. Judges single offerings exactly and whole subtrees by their summary. */
export class Limits {
  readonly #request: RoutingRequest;
  readonly #price: number;
  readonly #strict: boolean;
  readonly #context: number;

  constructor(request: RoutingRequest) {
    this.#request = request;
    this.#price = request.maxPrice === undefined ? Number.POSITIVE_INFINITY : Number(request.maxPrice);
    // A double above 2^53 may have been rounded up to the limit: then only what is strictly below it is surely within.
    this.#strict = this.#price >= exactLimit && request.maxPrice !== undefined;
    this.#context = neededContext(request);
  }

  /** Whether there is a price limit. */
  get limitsPrice(): boolean {
    return this.#request.maxPrice !== undefined;
  }

  /** Whether a member's least input price may be within the limit; holds for a prefix of the members. */
  readonly inputMayFit = (member: Member): boolean => member.leastInput <= this.#price;

  /** Judges a subtree by price and context. */
  readonly visit: Visitor = (summaries, at) => {
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
    if (only !== undefined) return this.fault(only) === undefined ? only : undefined;
    let best: Candidate | undefined;
    for (const candidate of member.candidates) {
      if (this.fault(candidate) !== undefined) continue;
      if (best === undefined || expectedCost(candidate, this.#request) < expectedCost(best, this.#request))
        best = candidate;
    }
    return best;
  };

  readonly matches = (member: Member): boolean => this.best(member) !== undefined;

  readonly pricesMatch = (member: Member): boolean => member.candidates.some((candidate) => this.#priceFits(candidate));

  /** Why an offering does not fit; undefined when it does. */
  fault(candidate: Candidate): Extract<ExclusionReason, "price_above_limit" | "context_too_small"> | undefined {
    if (!this.#priceFits(candidate)) return "price_above_limit";
    return candidate.contextLength < this.#context ? "context_too_small" : undefined;
  }

  /** Why none of a member's offerings fits; undefined when one does. */
  memberFault(member: Member): Extract<ExclusionReason, "price_above_limit" | "context_too_small"> | undefined {
    if (this.matches(member)) return undefined;
    return this.pricesMatch(member) ? "context_too_small" : "price_above_limit";
  }

  #priceFits(candidate: Candidate): boolean {
    const { maxPrice } = this.#request;
    return maxPrice === undefined || (candidate.inputPrice <= maxPrice && candidate.outputPrice <= maxPrice);
  }
}
