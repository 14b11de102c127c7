import { type Member, memberShape, memberSummary } from "./member.ts";
import type { MemberTree } from "./pool.ts";
import type { NodeView } from "./tree-node.ts";

/** What a request pays for. */
interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Ranks of a tree from one to before another. */
export interface RankRange {
  readonly tree: MemberTree;
  readonly from: number;
  readonly to: number;
}

/**
 * A node of which a search has not seen all parts: the children of a branch, the elements of a leaf. The parts stay where they are; only
 * what each can cost at least is worked out, so that opening a node makes one list of numbers and no object for a part.
 */
export class OpenNode {
  readonly tree: MemberTree;
  readonly node: NodeView<Member>;
  /** Rank of its first element. */
  readonly #firstRank: number;
  readonly #costs: number[];
  /** The part that may cost least. */
  index = 0;
  /** What it costs at least; infinite when all parts were seen. */
  leastCost = Number.POSITIVE_INFINITY;

  constructor(tree: MemberTree, node: NodeView<Member>, firstRank: number, { inputTokens, outputTokens }: Tokens) {
    this.tree = tree;
    this.node = node;
    this.#firstRank = firstRank;
    const { summaries } = node;
    const step = memberShape.summaryWidth;
    // Cut from the summaries only for the length: a list that grows is copied several times.
    const costs = summaries.slice(0, summaries.length / step);
    for (let index = 0; index < costs.length; index += 1) {
      const input = summaries[index * step + memberSummary.leastInput] as number;
      const output = summaries[index * step + memberSummary.leastOutput] as number;
      costs[index] = inputTokens * input + outputTokens * output;
    }
    this.#costs = costs;
    this.#findLeast();
  }

  /** Rank of the first element of a part. */
  rankAt(index: number): number {
    const { node } = this;
    if (node.kind === "leaf") return this.#firstRank + index;
    let rank = this.#firstRank;
    for (let before = 0; before < index; before += 1) rank += node.counts[before] as number;
    return rank;
  }

  /** Marks some parts as seen and finds the next. */
  pass(from: number, to: number): void {
    for (let index = from; index < to; index += 1) this.#costs[index] = Number.POSITIVE_INFINITY;
    this.#findLeast();
  }

  /** Marks the parts as seen that lie within a range. */
  passRange({ tree, from, to }: RankRange): void {
    if (tree !== this.tree) return;
    const { node } = this;
    let rank = this.#firstRank;
    for (let index = 0; index < this.#costs.length; index += 1) {
      const next = rank + (node.kind === "leaf" ? 1 : (node.counts[index] as number));
      if (rank >= from && next <= to) this.#costs[index] = Number.POSITIVE_INFINITY;
      rank = next;
    }
    this.#findLeast();
  }

  /** Marks the parts as seen for whose index a condition holds. */
  passWhere(condition: (index: number) => boolean): void {
    for (let index = 0; index < this.#costs.length; index += 1) {
      if (this.#costs[index] !== Number.POSITIVE_INFINITY && condition(index)) {
        this.#costs[index] = Number.POSITIVE_INFINITY;
      }
    }
    this.#findLeast();
  }

  #findLeast(): void {
    const costs = this.#costs;
    let least = Number.POSITIVE_INFINITY;
    let at = 0;
    for (let index = 0; index < costs.length; index += 1) {
      const cost = costs[index] as number;
      if (cost < least) {
        least = cost;
        at = index;
      }
    }
    this.index = at;
    this.leastCost = least;
  }
}
