import type { Random } from "../../../protocol/clock.ts";
import { expectedCost } from "../expected-cost.ts";
import type { RoutingRequest } from "../types.ts";
import { CostHeap } from "./cost-heap.ts";
import type { Limits } from "./limits.ts";
import type { Member, MemberSummary } from "./member.ts";
import { permutation } from "./permutation.ts";
import type { MemberTree } from "./pool.ts";
import type { TreePart } from "./sorted-tree.ts";

/** Price classes of one cost that are mixed at random; beyond, the ones found first come first. */
const maxTies = 64;

/** Members of one price: a range of ranks of one tree. */
interface Range {
  readonly tree: MemberTree;
  readonly from: number;
  readonly size: number;
}

type Item =
  | { readonly kind: "part"; readonly tree: MemberTree; readonly part: TreePart<Member, MemberSummary> }
  /** Members of one price side by side in a leaf; `open` when the same price may go on in the neighbour leaf. */
  | { readonly kind: "run"; readonly tree: MemberTree; readonly members: readonly Member[]; readonly open: boolean }
  /** A member with several offerings, at the least that it may cost. */
  | { readonly kind: "several"; readonly member: Member }
  | { readonly kind: "exact"; readonly member: Member };

/**
 * Members within the limits, cheapest for this request first, equal costs in random order, worked out one by one. A best-first search:
 * it opens only subtrees whose least prices could still win, and takes all members of one price as a range, so that the first few cost
 * little however many members there are.
 */
export function* byExpectedCost(
  trees: readonly MemberTree[],
  request: RoutingRequest,
  limits: Limits,
  random: Random,
): IterableIterator<Member> {
  const search = new CostSearch(request, limits);
  for (const tree of trees) if (tree.root !== undefined) search.open({ kind: "part", tree, part: tree.root });
  for (;;) {
    const tied = search.nextTied();
    if (tied === undefined) return;
    const total = tied.reduce((sum, range) => sum + (range.kind === "range" ? range.range.size : 1), 0);
    for (const drawn of total === 1 ? [0] : permutation(total, random)) {
      let left = drawn;
      for (const entry of tied) {
        const size = entry.kind === "range" ? entry.range.size : 1;
        if (left >= size) {
          left -= size;
          continue;
        }
        if (entry.kind === "member") yield entry.member;
        else {
          const member = entry.range.tree.at(entry.range.from + left);
          // One with several offerings has its own place in the search: its least prices may belong to different offerings.
          if (member?.candidates.length === 1) yield member;
        }
        break;
      }
    }
  }
}

type Tied = { readonly kind: "range"; readonly range: Range } | { readonly kind: "member"; readonly member: Member };

class CostSearch {
  readonly #heap = new CostHeap<Item>();
  readonly #limits: Limits;
  readonly #request: RoutingRequest;
  readonly #inputTokens: number;
  readonly #outputTokens: number;
  /** Price ranges over several leaves that were taken whole. */
  readonly #done: Range[] = [];

  constructor(request: RoutingRequest, limits: Limits) {
    this.#limits = limits;
    this.#request = request;
    this.#inputTokens = request.inputTokens;
    this.#outputTokens = request.outputTokens;
  }

  open(item: Extract<Item, { readonly kind: "part" }>): void {
    const { summary } = item.part;
    if (this.#limits.visit(summary) === "skip") return;
    this.#heap.push(this.#bound(summary), item);
  }

  /** All that is tied at the next least cost; undefined at the end. */
  nextTied(): readonly Tied[] | undefined {
    for (;;) {
      const cost = this.#heap.leastCost;
      const tied: Tied[] = [];
      while (this.#heap.leastCost === cost && tied.length < maxTies) {
        const item = this.#heap.pop();
        if (item === undefined) return undefined;
        this.#take(item, tied);
      }
      if (tied.length > 0) return tied;
    }
  }

  #take(item: Item, tied: Tied[]): void {
    switch (item.kind) {
      case "part":
        this.#expand(item.tree, item.part);
        break;
      case "run":
        if (item.open) this.#takeRange(item.tree, item.members, tied);
        else for (const member of item.members) tied.push({ kind: "member", member });
        break;
      case "several": {
        const candidate = this.#limits.best(item.member);
        if (candidate === undefined) return;
        const cost = Number(expectedCost(candidate, this.#request));
        this.#heap.push(cost, { kind: "exact", member: item.member });
        break;
      }
      default:
        tied.push({ kind: "member", member: item.member });
    }
  }

  #takeRange(tree: MemberTree, members: readonly Member[], tied: Tied[]): void {
    const first = members[0] as Member;
    const from = tree.rankOf((other) => priceOrder(other, first) < 0);
    if (this.#done.some((range) => range.tree === tree && range.from === from)) return;
    const size = tree.rankOf((other) => priceOrder(other, first) <= 0) - from;
    const range = { tree, from, size };
    this.#done.push(range);
    tied.push({ kind: "range", range });
  }

  #expand(tree: MemberTree, part: TreePart<Member, MemberSummary>): void {
    if (part.elements === undefined) {
      for (const child of part.parts()) this.open({ kind: "part", tree, part: child });
      return;
    }
    const { elements } = part;
    let from = 0;
    while (from < elements.length) {
      const first = elements[from] as Member;
      if (first.candidates.length > 1) {
        this.#heap.push(this.#bound(first), { kind: "several", member: first });
        from += 1;
        continue;
      }
      let to = from + 1;
      while (to < elements.length && isSamePrice(elements[to] as Member, first)) to += 1;
      const members = elements.slice(from, to);
      const open = from === 0 || to === elements.length;
      this.#heap.push(this.#bound(first), { kind: "run", tree, members, open });
      from = to;
    }
  }

  #bound(prices: { readonly leastInput: number; readonly leastOutput: number }): number {
    return this.#inputTokens * prices.leastInput + this.#outputTokens * prices.leastOutput;
  }
}

function isSamePrice(a: Member, b: Member): boolean {
  return a.candidates.length === 1 && priceOrder(a, b) === 0;
}

function priceOrder(a: Member, b: Member): number {
  return a.leastInput === b.leastInput ? a.leastOutput - b.leastOutput : a.leastInput - b.leastInput;
}
