import { type Member, memberShape } from "./member.ts";
import type { RankRange } from "./open-node.ts";
import type { LeafView, NodeView, Visitor } from "./tree-node.ts";
import { matchesAt } from "./tree-query.ts";

/** Elements of one leaf. */
interface LeafPart {
  readonly leaf: LeafView<Member>;
  /** Index of the first of them in the leaf. */
  readonly index: number;
  /** Index after the last of them. */
  readonly end: number;
  /** Place of the first of them in the range. */
  readonly place: number;
}

/**
 * The leaves of a range of ranks in which some member may fit, as one row of places. Subtrees are left out by their summaries, so that
 * of many members with few that fit only the leaves of those few are in the row: drawing places finds one in at most a leaf's width.
 */
export class FittingRange {
  readonly #visit: Visitor;
  readonly #parts: LeafPart[] = [];
  /** Number of places. */
  size = 0;

  /** @param visit Judges a subtree, and a member, by its summary. */
  constructor({ tree, from, to }: RankRange, visit: Visitor) {
    this.#visit = visit;
    if (tree.root !== undefined && visit(tree.summary, 0) !== "skip") this.#collect(tree.root, from, to);
  }

  /** The member at a place when it may fit by its summary, which is read without meeting it. */
  at(place: number): Member | undefined {
    const part = this.#partOf(place);
    if (part === undefined) return undefined;
    const index = part.index + place - part.place;
    if (this.#visit(part.leaf.summaries, index * memberShape.summaryWidth) === "skip") return undefined;
    return part.leaf.elements[index];
  }

  /** All its members that match: by their summaries, and by a look at those of which these do not tell. */
  matching(matches: (member: Member) => boolean): Member[] {
    const members: Member[] = [];
    for (const { leaf, index: from, end } of this.#parts) {
      for (let index = from; index < end; index += 1) {
        if (matchesAt(leaf, index, memberShape, this.#visit, matches)) members.push(leaf.elements[index] as Member);
      }
    }
    return members;
  }

  /** Adds the leaves below a node, from one rank of the node to before another. */
  #collect(node: NodeView<Member>, from: number, to: number): void {
    if (node.kind === "leaf") {
      const index = Math.max(0, from);
      const end = Math.min(node.elements.length, to);
      this.#parts.push({ leaf: node, index, end, place: this.size });
      this.size += end - index;
      return;
    }
    let rank = 0;
    for (let index = 0; index < node.children.length && rank < to; index += 1) {
      const next = rank + (node.counts[index] as number);
      if (next > from && this.#visit(node.summaries, index * memberShape.summaryWidth) !== "skip") {
        this.#collect(node.children[index] as NodeView<Member>, from - rank, to - rank);
      }
      rank = next;
    }
  }

  /** The last part that begins at a place or before it. */
  #partOf(place: number): LeafPart | undefined {
    let low = 0;
    let high = this.#parts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#parts[middle] as LeafPart).place <= place) low = middle + 1;
      else high = middle;
    }
    return this.#parts[low - 1];
  }
}
