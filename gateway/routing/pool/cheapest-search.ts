import type { Random } from "../../../protocol/clock.ts";
import { expectedCost } from "../expected-cost.ts";
import type { Candidate, RoutingRequest } from "../types.ts";
import { CostHeap } from "./cost-heap.ts";
import { FittingRange } from "./fitting-range.ts";
import type { Limits } from "./limits.ts";
import { type Member, memberShape, memberSummary } from "./member.ts";
import { RankDraw } from "./draw.ts";
import { OpenNode, type RankRange } from "./open-node.ts";
import type { MemberTree } from "./pool.ts";
import type { BranchView, LeafView, NodeView } from "./tree-node.ts";
import { matchesAt } from "./tree-query.ts";

interface Found {
  readonly candidate: Candidate;
  readonly cost: number;
  /** Orders equal costs at random. */
  readonly tie: number;
}

/** Nodes opened after enough were found, while more at the same cost are left: bounds the work when very many prices tie. */
const mostTiedNodes = 64;
/** Members of one price that are drawn for each wanted one before those that do not fit are left out by their summaries. */
const drawsPerWanted = 2;
/**
 * Members of one range of prices that are looked at in a search where some cost more than the range begins at: of a provider of several
 * models the cheapest offering may be too short, or cheap in input and another one in output.
 */
const mostUnlike = 1024;
/** More than an exact cost and one of doubles can differ by. */
const rounding = 1e-12;
/** Places of a fitting range that are drawn for one member that fits, at worst: one of a whole leaf. */
const placesPerFit = 64;

/**
 * The cheapest members for one request. A best-first search that opens only subtrees whose least prices could still win, and meets single
 * members, too, in the order of their costs: who is met costs most, because what only this moment knows of it lies elsewhere in memory.
 * Equal costs come in random order: each found member draws a number, and of a price that fills several leaves a random few are taken.
 */
export class CheapestSearch {
  readonly #request: RoutingRequest;
  readonly #limits: Limits;
  readonly #random: Random;
  readonly #count: number;
  readonly #accept: (member: Member) => Candidate | undefined;
  readonly #isOver: () => boolean;
  readonly #found: Found[] = [];
  readonly #open = new CostHeap<OpenNode>();
  /** Ranges of one price over several leaves, of which members were drawn. */
  readonly #drawn: RankRange[] = [];
  #unlikeLeft = mostUnlike;
  /** Members met so far that cost more than the least prices of their offerings tell. */
  #unlike = 0;
  /** Whether somebody's stake may not do. */
  #judgesStake = false;

  /**
   * @param accept The member's candidate, if it may be chosen now.
   * @param isOver Asked between members: whether to end with what was found.
   */
  constructor(
    request: RoutingRequest,
    limits: Limits,
    random: Random,
    count: number,
    accept: (member: Member) => Candidate | undefined,
    isOver: () => boolean = () => false,
  ) {
    this.#request = request;
    this.#limits = limits;
    this.#random = random;
    this.#count = count;
    this.#accept = accept;
    this.#isOver = isOver;
  }

  /** The cheapest members of some trees, at most `count`, cheapest first. */
  run(trees: readonly MemberTree[]): Candidate[] {
    for (const tree of trees) {
      if (tree.root !== undefined && this.#limits.visit(tree.summary, 0) !== "skip") {
        this.#judgesStake ||= this.#limits.mayLackStake(tree.summary);
        this.#keep(this.#opened(tree, tree.root, 0));
      }
    }
    let tiedNodes = 0;
    for (let next = this.#open.pop(); next !== undefined && !this.#isOver(); ) {
      const worst = this.#worst;
      if (next.leastCost > worst || next.leastCost === Number.POSITIVE_INFINITY) {
        // What is left may still be of use: this one can have come to cost more, or to hold nothing unseen, since it was put aside.
        next = this.#open.pop();
        continue;
      }
      if (next.leastCost === worst) tiedNodes += 1;
      if (tiedNodes > mostTiedNodes) break;
      const { node } = next;
      const child = node.kind === "leaf" ? this.#take(next, node) : this.#enter(next, node);
      this.#keep(next);
      // Downwards first: of many at one cost no more is opened than is needed.
      if (child !== undefined && child.leastCost <= this.#open.leastCost) next = child;
      else {
        if (child !== undefined) this.#keep(child);
        next = this.#open.pop();
      }
    }
    return this.#found.map(({ candidate }) => candidate);
  }

  /** Cost above which nothing is of use. */
  get #worst(): number {
    return this.#found.length < this.#count ? Number.POSITIVE_INFINITY : (this.#found.at(-1)?.cost ?? 0);
  }

  #opened(tree: MemberTree, node: NodeView<Member>, firstRank: number): OpenNode {
    const opened = new OpenNode(tree, node, firstRank, this.#request);
    for (const range of this.#drawn) opened.passRange(range);
    return opened;
  }

  /** Puts a node aside as long as its parts may be of use. */
  #keep(open: OpenNode): void {
    const { leastCost } = open;
    if (leastCost <= this.#worst && leastCost !== Number.POSITIVE_INFINITY) this.#open.push(leastCost, open);
  }

  /** Opens the child of a branch that may cost least; undefined when nothing below it fits. */
  #enter(open: OpenNode, { children, summaries }: BranchView<Member>): OpenNode | undefined {
    const { index, tree } = open;
    const rank = open.rankAt(index);
    open.pass(index, index + 1);
    if (this.#limits.visit(summaries, index * memberShape.summaryWidth) === "skip") {
      this.#passMisfits(open);
      return undefined;
    }
    return this.#opened(tree, children[index] as NodeView<Member>, rank);
  }

  #fits(leaf: LeafView<Member>, index: number): boolean {
    return matchesAt(leaf, index, memberShape, this.#limits.visit, this.#limits.matches);
  }

  /** Where one part did not fit, others are likely not to either: those are all found at once. */
  #passMisfits(open: OpenNode): void {
    if (!this.#judgesStake) return;
    const { node } = open;
    const { visit } = this.#limits;
    open.passWhere((index) =>
      node.kind === "leaf"
        ? !this.#fits(node, index)
        : visit(node.summaries, index * memberShape.summaryWidth) === "skip",
    );
  }

  /** Offers the cheapest element of a leaf, and all others of the same price. */
  #take(open: OpenNode, leaf: LeafView<Member>): undefined {
    const { elements, summaries } = leaf;
    const step = memberShape.summaryWidth;
    if (this.#judgesStake && !this.#fits(leaf, open.index)) {
      this.#passMisfits(open);
      return;
    }
    let from = open.index;
    let to = from + 1;
    while (from > 0 && isSamePrice(summaries, (from - 1) * step, open.index * step)) from -= 1;
    while (to < elements.length && isSamePrice(summaries, to * step, open.index * step)) to += 1;
    const mayGoOn = (from === 0 || to === elements.length) && to - from < open.tree.size;
    if (!mayGoOn || !this.#drawPrice(open.tree, elements[from] as Member, to - from)) {
      for (let index = from; index < to; index += 1) {
        if (!this.#judgesStake || this.#fits(leaf, index)) this.#offer(elements[index] as Member);
      }
    }
    open.pass(from, to);
  }

  /**
   * Of the members of one price, when they fill more than one leaf, as many as are wanted, drawn uniformly; more when they turn out to
   * cost more than that, and not the same. False when the `inLeaf` members of the leaf are all.
   */
  #drawPrice(tree: MemberTree, first: Member, inLeaf: number): boolean {
    const from = tree.rankOf((other) => priceOrder(other, first) < 0);
    const to = tree.rankOf((other) => priceOrder(other, first) <= 0);
    if (to - from === inLeaf) return false;
    const range = { tree, from, to };
    this.#drawn.push(range);
    for (const open of this.#open.items) open.passRange(range);
    const ranks = new RankDraw(to - from, this.#count, this.#random);
    const unlike = this.#unlike;
    const met = new Set<Member>();
    const mostMet = this.#count * drawsPerWanted;
    let wanted = this.#count;
    while (wanted > 0 && met.size < mostMet) {
      const drawn = ranks.next(Math.min(wanted, mostMet - met.size));
      if (drawn.length === 0) break;
      for (const member of drawn.map((rank) => tree.at(from + rank) as Member)) {
        met.add(member);
        if (this.#offer(member)) wanted -= 1;
      }
    }
    if (met.size < to - from) {
      if (wanted > 0) this.#drawFitting(range, met, wanted);
      if (this.#unlike > unlike) this.#lookAtUnlike(range, met);
    }
    return true;
  }

  /** Meets the other members of a range, too, drawn uniformly, as far as so many may still be looked at. */
  #lookAtUnlike({ tree, from, to }: RankRange, met: ReadonlySet<Member>): void {
    const ranks = new RankDraw(to - from, this.#unlikeLeft, this.#random);
    while (this.#unlikeLeft > 0 && !this.#isOver()) {
      const drawn = ranks.next(Math.min(this.#unlikeLeft, placesPerFit));
      if (drawn.length === 0) return;
      this.#unlikeLeft -= drawn.length;
      for (const rank of drawn) {
        const member = tree.at(from + rank) as Member;
        if (!met.has(member)) this.#offer(member);
      }
    }
  }

  /** Of those of one price that were not met yet, as many as are wanted, drawn uniformly from the leaves in which some may fit. */
  #drawFitting(range: RankRange, met: Set<Member>, count: number): void {
    const fitting = new FittingRange(range, this.#limits.visit);
    if (this.#judgesStake) {
      // Leaves are no measure of how many fit here: stake lies as it likes among the prices.
      const members = fitting.matching(this.#limits.matches);
      this.#drawFrom(members.length, (place) => members[place], met, count);
      return;
    }
    this.#drawFrom(fitting.size, (place) => fitting.at(place), met, count);
  }

  /** Offers `count` members that were not met yet, drawn uniformly from some places, as far as there are so many that are accepted. */
  #drawFrom(size: number, memberAt: (place: number) => Member | undefined, met: Set<Member>, count: number): void {
    const places = new RankDraw(size, count * placesPerFit, this.#random);
    let wanted = count;
    while (wanted > 0 && !this.#isOver()) {
      const drawn = places.next(wanted);
      if (drawn.length === 0) return;
      for (const place of drawn) {
        const member = memberAt(place);
        if (member === undefined || met.has(member)) continue;
        met.add(member);
        if (this.#offer(member)) wanted -= 1;
      }
    }
  }

  #offer(member: Member): boolean {
    if (this.#costOf(member) > this.#worst) return false;
    const candidate = this.#accept(member);
    if (candidate === undefined) return false;
    const least = this.#costOf(member);
    const cost = member.only === undefined ? Number(expectedCost(candidate, this.#request)) : least;
    if (cost > least * (1 + rounding)) this.#unlike += 1;
    const found = { candidate, cost, tie: this.#random() };
    let at = this.#found.length;
    while (at > 0 && isBefore(found, this.#found[at - 1] as Found)) at -= 1;
    if (at >= this.#count) return true;
    this.#found.splice(at, 0, found);
    if (this.#found.length > this.#count) this.#found.pop();
    return true;
  }

  #costOf({ leastInput, leastOutput }: Member): number {
    return this.#request.inputTokens * leastInput + this.#request.outputTokens * leastOutput;
  }
}

function isBefore(a: Found, b: Found): boolean {
  return a.cost === b.cost ? a.tie < b.tie : a.cost < b.cost;
}

function isSamePrice(summaries: readonly number[], a: number, b: number): boolean {
  const { leastInput, leastOutput } = memberSummary;
  return (
    summaries[a + leastInput] === summaries[b + leastInput] && summaries[a + leastOutput] === summaries[b + leastOutput]
  );
}

function priceOrder(a: Member, b: Member): number {
  return a.leastInput === b.leastInput ? a.leastOutput - b.leastOutput : a.leastInput - b.leastInput;
}
