import { Editor, type TreeEdit } from "./tree-edit.ts";
import {
  emptySummary,
  findIn,
  foldInto,
  type Node,
  type NodeView,
  prefixLength,
  type TreeShape,
  type Visitor,
} from "./tree-node.ts";
import { countIn, iterate, matchingIn } from "./tree-query.ts";

/**
 * An immutable sorted set: a B+ tree with shared structure. A change copies the path to one leaf, O(log n); older versions stay as they
 * are. Many changes at once go through `edit`, which copies each touched node once.
 */
export class SortedTree<E> {
  readonly shape: TreeShape<E>;
  readonly #root: Node<E> | undefined;
  readonly size: number;
  /** Summary of all elements; infinite when empty. */
  readonly summary: readonly number[];

  private constructor(shape: TreeShape<E>, root: Node<E> | undefined, size: number) {
    this.shape = shape;
    this.#root = root;
    this.size = size;
    const summary = emptySummary(shape.summaryWidth);
    if (root !== undefined) foldInto(summary, 0, root.summaries, shape.summaryWidth);
    this.summary = summary;
  }

  static empty<E>(shape: TreeShape<E>): SortedTree<E> {
    return new SortedTree(shape, undefined, 0);
  }

  /** Applies changes and returns the new tree, or this one when nothing changed. */
  edit(change: (edit: TreeEdit<E>) => void): SortedTree<E> {
    const edit = new Editor(this.shape, this.#root, this.size);
    change(edit);
    if (!edit.changed) return this;
    return new SortedTree(this.shape, edit.root, edit.size);
  }

  /** Element at a rank, 0-based; undefined out of range. */
  at(rank: number): E | undefined {
    if (rank < 0 || rank >= this.size) return undefined;
    let node = this.#root;
    let left = rank;
    while (node?.kind === "branch") {
      let index = 0;
      for (; ; index += 1) {
        const count: number = node.counts[index] ?? 0;
        if (left < count) break;
        left -= count;
      }
      node = node.children[index];
    }
    return node?.elements[left];
  }

  /** Number of elements for which `isBefore` holds; it must hold for a prefix of the order. */
  rankOf(isBefore: (element: E) => boolean): number {
    let node = this.#root;
    let rank = 0;
    while (node?.kind === "branch") {
      const index = Math.max(0, prefixLength(node.firsts, isBefore) - 1);
      for (let before = 0; before < index; before += 1) rank += node.counts[before] ?? 0;
      node = node.children[index];
    }
    return node === undefined ? 0 : rank + prefixLength(node.elements, isBefore);
  }

  /** The element of the same place in the order. */
  get(element: E): E | undefined {
    return this.#root === undefined ? undefined : findIn(this.#root, element, this.shape);
  }

  /** Elements in order, from a rank on. */
  *from(rank = 0): IterableIterator<E> {
    if (this.#root !== undefined) yield* iterate(this.#root, rank);
  }

  [Symbol.iterator](): IterableIterator<E> {
    return this.from();
  }

  /**
   * Number of elements that match; `visit` decides on whole subtrees by their summary, `matches` on single elements. Exact while no more
   * than `maxLeaves` leaves must be entered; of the leaves beyond, the share of matches seen so far is assumed.
   */
  count(visit: Visitor, matches: (element: E) => boolean, maxLeaves = Number.POSITIVE_INFINITY): number {
    if (this.#root === undefined) return 0;
    const decision = visit(this.summary, 0);
    if (decision !== "enter") return decision === "take" ? this.size : 0;
    const sample = { leavesLeft: maxLeaves, seen: 0, matched: 0 };
    return Math.round(countIn(this.#root, this.shape, visit, matches, sample));
  }

  /** Elements that match, in order, entering no subtree that `visit` skips. */
  *matching(visit: Visitor, matches: (element: E) => boolean): IterableIterator<E> {
    if (this.#root !== undefined) yield* matchingIn(this.#root, this.shape, visit, matches);
  }

  /** The tree's nodes, for a search of its own. */
  get root(): NodeView<E> | undefined {
    return this.#root;
  }
}
