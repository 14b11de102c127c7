import type { Random } from "../../../protocol/clock.ts";
import { expectedCost } from "../expected-cost.ts";
import type { Candidate, RoutingRequest } from "../types.ts";
import { CostHeap } from "./cost-heap.ts";
import type { Limits } from "./limits.ts";
import { type Member, memberShape, memberSummary } from "./member.ts";
import { drawRanks } from "./draw.ts";
import type { MemberTree } from "./pool.ts";
import type { LeafView, NodeView } from "./sorted-tree.ts";

interface Found {
  readonly candidate: Candidate;
  readonly cost: number;
  /** Orders equal costs at random. */
  readonly tie: number;
}

interface OpenNode {
  readonly tree: MemberTree;
  readonly node: NodeView<Member>;
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
    for (const tree of trees) {
      const { root, summary } = tree;
      if (root !== undefined) this.#push(open, tree, root, summary, 0);
    }
    let tiedLeaves = 0;
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { tree, node } = next;
      if (node.kind === "leaf") this.#search(tree, node);
      else {
        for (let index = 0; index < node.children.length; index += 1) {
          const child = node.children[index] as NodeView<Member>;
          this.#push(open, tree, child, node.summaries, index * memberShape.summaryWidth);
        }
      }
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

  #push(
    open: CostHeap<OpenNode>,
    tree: MemberTree,
    node: NodeView<Member>,
    summaries: readonly number[],
    at: number,
  ): void {
    const bound = this.#costAt(summaries, at);
    if (bound <= this.#worst && this.#limits.visit(summaries, at) !== "skip") open.push(bound, { tree, node });
  }

  #search(tree: MemberTree, { elements, summaries }: LeafView<Member>): void {
    const step = memberShape.summaryWidth;
    let from = 0;
    while (from < elements.length) {
      let to = from + 1;
      while (to < elements.length && isSamePrice(summaries, from * step, to * step)) to += 1;
      if (this.#costAt(summaries, from * step) <= this.#worst) {
        const spansLeaves = (from === 0 || to === elements.length) && to - from < tree.size && to - from > 1;
        if (spansLeaves) this.#searchRange(tree, elements[from] as Member);
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

  #costOf({ leastInput, leastOutput }: Member): number {
    return this.#request.inputTokens * leastInput + this.#request.outputTokens * leastOutput;
  }

  /** Least cost of what a summary stands for. */
  #costAt(summaries: readonly number[], at: number): number {
    const input = summaries[at + memberSummary.leastInput] as number;
    const output = summaries[at + memberSummary.leastOutput] as number;
    return this.#request.inputTokens * input + this.#request.outputTokens * output;
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
