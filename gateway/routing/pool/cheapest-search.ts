import type { Random } from "../../../protocol/clock.ts";
import { expectedCost } from "../expected-cost.ts";
import type { Candidate, RoutingRequest } from "../types.ts";
import { CostHeap } from "./cost-heap.ts";
import type { Limits } from "./limits.ts";
import type { Member, MemberSummary } from "./member.ts";
import { drawRanks } from "./draw.ts";
import type { MemberTree } from "./pool.ts";
import type { NodeView } from "./sorted-tree.ts";

interface Found {
  readonly candidate: Candidate;
  readonly cost: number;
  /** Orders equal costs at random. */
  readonly tie: number;
}

interface OpenNode {
  readonly tree: MemberTree;
  readonly node: NodeView<Member, MemberSummary>;
}

/** Leaves opened after enough were found, while more at the same cost are left: bounds the work when very many prices tie. */
const mostTiedLeaves = 64;

/**
 * The cheapest members for one request. A best-first search that opens only subtrees whose least prices could still win. Equal costs
 * come in random order: each found member draws a number, and of a price that fills several leaves a random few are taken.
 */
export class CheapestSearch {
  readonly #request: RoutingRequest;
  readonly #limits: Limits;
  readonly #random: Random;
  readonly #count: number;
  readonly #accept: (member: Member) => Candidate | undefined;
  readonly #found: Found[] = [];
  /** Price ranges over several leaves that were taken: first rank of each. */
  readonly #taken: { readonly tree: MemberTree; readonly from: number }[] = [];

  /** @param accept The member's candidate, if it may be chosen now. */
  constructor(
    request: RoutingRequest,
    limits: Limits,
    random: Random,
    count: number,
    accept: (member: Member) => Candidate | undefined,
  ) {
    this.#request = request;
    this.#limits = limits;
    this.#random = random;
    this.#count = count;
    this.#accept = accept;
  }

  /** The cheapest members of some trees, at most `count`, cheapest first. */
  run(trees: readonly MemberTree[]): Candidate[] {
    const open = new CostHeap<OpenNode>();
    for (const tree of trees) if (tree.root !== undefined) this.#push(open, tree, tree.root);
    let tiedLeaves = 0;
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { tree, node } = next;
      if (node.kind === "branch") for (const child of node.children) this.#push(open, tree, child);
      else this.#search(tree, node.elements);
      if (open.leastCost > this.#worst) break;
      if (open.leastCost === this.#worst) tiedLeaves += 1;
      if (tiedLeaves > mostTiedLeaves) break;
    }
    return this.#found.map(({ candidate }) => candidate);
  }

  /** Cost above which nothing is of use. */
  get #worst(): number {
    return this.#found.length < this.#count ? Number.POSITIVE_INFINITY : (this.#found.at(-1)?.cost ?? 0);
  }

  #push(open: CostHeap<OpenNode>, tree: MemberTree, node: NodeView<Member, MemberSummary>): void {
    const summary = tree.summaryOf(node);
    const bound = this.#costOf(summary);
    if (bound <= this.#worst && this.#limits.visit(summary) !== "skip") open.push(bound, { tree, node });
  }

  #search(tree: MemberTree, elements: readonly Member[]): void {
    let from = 0;
    while (from < elements.length) {
      const first = elements[from] as Member;
      let to = from + 1;
      while (to < elements.length && priceOrder(elements[to] as Member, first) === 0) to += 1;
      if (this.#costOf(first) <= this.#worst) {
        const spansLeaves = (from === 0 || to === elements.length) && to - from < tree.size && to - from > 1;
        if (spansLeaves) this.#searchRange(tree, first);
        else for (let index = from; index < to; index += 1) this.#offer(elements[index] as Member);
      }
      from = to;
    }
  }

  /** Members of one price that may fill several leaves: as many as are wanted, drawn uniformly. */
  #searchRange(tree: MemberTree, first: Member): void {
    const from = tree.rankOf((other) => priceOrder(other, first) < 0);
    if (this.#taken.some((range) => range.tree === tree && range.from === from)) return;
    this.#taken.push({ tree, from });
    const size = tree.rankOf((other) => priceOrder(other, first) <= 0) - from;
    let accepted = 0;
    drawRanks(size, this.#count, this.#random, (rank) => {
      if (this.#offer(tree.at(from + rank) as Member)) accepted += 1;
      return accepted < this.#count;
    });
  }

  #offer(member: Member): boolean {
    if (this.#costOf(member) > this.#worst) return false;
    const candidate = this.#accept(member);
    if (candidate === undefined) return false;
    const cost = member.candidates.length === 1 ? this.#costOf(member) : Number(expectedCost(candidate, this.#request));
    const found = { candidate, cost, tie: this.#random() };
    let at = this.#found.length;
    while (at > 0 && isBefore(found, this.#found[at - 1] as Found)) at -= 1;
    if (at >= this.#count) return true;
    this.#found.splice(at, 0, found);
    if (this.#found.length > this.#count) this.#found.pop();
    return true;
  }

  #costOf(prices: { readonly leastInput: number; readonly leastOutput: number }): number {
    return this.#request.inputTokens * prices.leastInput + this.#request.outputTokens * prices.leastOutput;
  }
}

function isBefore(a: Found, b: Found): boolean {
  return a.cost === b.cost ? a.tie < b.tie : a.cost < b.cost;
}

function priceOrder(a: Member, b: Member): number {
  return a.leastInput === b.leastInput ? a.leastOutput - b.leastOutput : a.leastInput - b.leastInput;
}
