/** How a tree orders its elements, and what each subtree remembers of them. */
export interface TreeShape<E> {
  /** Total order; 0 only for the same element. */
  compare(a: E, b: E): number;
  /** Numbers of a summary. */
  readonly summaryWidth: number;
  /** Summary of one element; that of several is the least of each number. */
  summarise(element: E): readonly number[];
}

/** A leaf as a search sees it. */
export interface LeafView<E> {
  readonly kind: "leaf";
  readonly elements: readonly E[];
  /** Summaries of the elements, one behind the other. */
  readonly summaries: readonly number[];
}

/** A branch as a search sees it. */
export interface BranchView<E> {
  readonly kind: "branch";
  readonly children: readonly NodeView<E>[];
  /** Elements below each child. */
  readonly counts: readonly number[];
  /** Summaries of the children, one behind the other: a search judges all of them without meeting one. */
  readonly summaries: readonly number[];
}

/** A subtree as a search sees it. */
export type NodeView<E> = LeafView<E> | BranchView<E>;

interface Leaf<E> {
  readonly kind: "leaf";
  /** Who may change it in place: the edit that made it. */
  readonly owner: object;
  readonly elements: E[];
  readonly summaries: number[];
}

interface Branch<E> {
  readonly kind: "branch";
  readonly owner: object;
  readonly children: Node<E>[];
  readonly counts: number[];
  /** First element below each child. */
  readonly firsts: E[];
  readonly summaries: number[];
}

type Node<E> = Leaf<E> | Branch<E>;

/** What a query does with a subtree. */
export type Visit = "take" | "skip" | "enter";

/** Judges the summary that starts at a place of a list of numbers. */
export type Visitor = (summaries: readonly number[], at: number) => Visit;

/** Most elements of a leaf and children of a branch. Wide, so that a descent meets few nodes: each may be far away in memory. */
const width = 64;

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

/** Changes of one edit. */
export interface TreeEdit<E> {
  /** Adds an element, or replaces the one of the same place in the order. */
  put(element: E): void;
  /** Removes the element of the same place in the order; false when there is none. */
  delete(element: E): boolean;
}

class Editor<E> implements TreeEdit<E> {
  readonly #shape: TreeShape<E>;
  readonly #owner: object = {};
  root: Node<E> | undefined;
  size: number;
  changed = false;

  constructor(shape: TreeShape<E>, root: Node<E> | undefined, size: number) {
    this.#shape = shape;
    this.root = root;
    this.size = size;
  }

  put(element: E): void {
    this.changed = true;
    if (this.root === undefined) {
      this.root = this.#leaf([element], [...this.#shape.summarise(element)]);
      this.size = 1;
      return;
    }
    const root = this.#own(this.root);
    const right = this.#putIn(root, element);
    this.root = right === undefined ? root : this.#branch([root, right]);
  }

  delete(element: E): boolean {
    if (this.root === undefined) return false;
    // Looking first keeps a miss from copying the path.
    if (findIn(this.root, element, this.#shape) === undefined) return false;
    this.changed = true;
    this.size -= 1;
    const root = this.#own(this.root);
    this.#deleteIn(root, element);
    this.root = root;
    while (this.root.kind === "branch" && this.root.children.length === 1) this.root = this.root.children[0] as Node<E>;
    if (this.size === 0) this.root = undefined;
    return true;
  }

  /** Puts into an owned node; returns the right half when it had to split. */
  #putIn(node: Node<E>, element: E): Node<E> | undefined {
    const { summaryWidth } = this.#shape;
    if (node.kind === "leaf") {
      const index = lowerBound(node.elements, element, this.#shape);
      const present = node.elements[index];
      const isThere = present !== undefined && this.#shape.compare(present, element) === 0;
      node.elements.splice(index, isThere ? 1 : 0, element);
      const summary = this.#shape.summarise(element);
      node.summaries.splice(index * summaryWidth, isThere ? summaryWidth : 0, ...summary);
      if (!isThere) this.size += 1;
      if (node.elements.length <= width) return undefined;
      const half = width >> 1;
      return this.#leaf(node.elements.splice(half), node.summaries.splice(half * summaryWidth));
    }
    const index = childFor(node, element, this.#shape);
    const child = this.#ownChild(node, index);
    const right = this.#putIn(child, element);
    this.#refresh(node, index);
    if (right === undefined) return undefined;
    this.#insertChild(node, index + 1, right);
    if (node.children.length <= width) return undefined;
    const half = width >> 1;
    node.counts.splice(half);
    node.firsts.splice(half);
    node.summaries.splice(half * summaryWidth);
    return this.#branch(node.children.splice(half));
  }

  #deleteIn(node: Node<E>, element: E): void {
    const { summaryWidth } = this.#shape;
    if (node.kind === "leaf") {
      const index = lowerBound(node.elements, element, this.#shape);
      node.elements.splice(index, 1);
      node.summaries.splice(index * summaryWidth, summaryWidth);
      return;
    }
    const index = childFor(node, element, this.#shape);
    const child = this.#ownChild(node, index);
    this.#deleteIn(child, element);
    if (countOf(child) === 0) {
      this.#removeChild(node, index);
      return;
    }
    this.#refresh(node, index);
    this.#mergeSmall(node, index);
  }

  /** Joins a child that has become small with its right or left neighbour, so that removals leave no thin tree. */
  #mergeSmall(node: Branch<E>, index: number): void {
    const child = node.children[index] as Node<E>;
    if (widthOf(child) > width >> 2) return;
    const left = index + 1 < node.children.length ? index : index - 1;
    const a = node.children[left];
    const b = node.children[left + 1];
    if (a === undefined || b === undefined || widthOf(a) + widthOf(b) > width) return;
    const owned = this.#ownChild(node, left);
    if (owned.kind === "leaf" && b.kind === "leaf") owned.elements.push(...b.elements);
    else if (owned.kind === "branch" && b.kind === "branch") {
      owned.children.push(...b.children);
      owned.counts.push(...b.counts);
      owned.firsts.push(...b.firsts);
    }
    owned.summaries.push(...b.summaries);
    this.#removeChild(node, left + 1);
    this.#refresh(node, left);
  }

  /** Takes over into a branch what has changed in a child. */
  #refresh(node: Branch<E>, index: number): void {
    const child = node.children[index] as Node<E>;
    node.counts[index] = countOf(child);
    node.firsts[index] = firstOf(child);
    const { summaryWidth } = this.#shape;
    for (let number = 0; number < summaryWidth; number += 1) {
      node.summaries[index * summaryWidth + number] = Number.POSITIVE_INFINITY;
    }
    foldInto(node.summaries, index * summaryWidth, child.summaries, summaryWidth);
  }

  #insertChild(node: Branch<E>, index: number, child: Node<E>): void {
    const { summaryWidth } = this.#shape;
    node.children.splice(index, 0, child);
    node.counts.splice(index, 0, 0);
    node.firsts.splice(index, 0, firstOf(child));
    node.summaries.splice(index * summaryWidth, 0, ...emptySummary(summaryWidth));
    this.#refresh(node, index);
  }

  #removeChild(node: Branch<E>, index: number): void {
    const { summaryWidth } = this.#shape;
    node.children.splice(index, 1);
    node.counts.splice(index, 1);
    node.firsts.splice(index, 1);
    node.summaries.splice(index * summaryWidth, summaryWidth);
  }

  #ownChild(node: Branch<E>, index: number): Node<E> {
    const child = this.#own(node.children[index] as Node<E>);
    node.children[index] = child;
    return child;
  }

  #own(node: Node<E>): Node<E> {
    if (node.owner === this.#owner) return node;
    if (node.kind === "leaf") return this.#leaf(node.elements.slice(), node.summaries.slice());
    return {
      kind: "branch",
      owner: this.#owner,
      children: node.children.slice(),
      counts: node.counts.slice(),
      firsts: node.firsts.slice(),
      summaries: node.summaries.slice(),
    };
  }

  #leaf(elements: E[], summaries: number[]): Leaf<E> {
    return { kind: "leaf", owner: this.#owner, elements, summaries };
  }

  #branch(children: readonly Node<E>[]): Branch<E> {
    const branch: Branch<E> = {
      kind: "branch",
      owner: this.#owner,
      children: [],
      counts: [],
      firsts: [],
      summaries: [],
    };
    children.forEach((child, index) => this.#insertChild(branch, index, child));
    return branch;
  }
}

function emptySummary(summaryWidth: number): number[] {
  const summary: number[] = [];
  for (let number = 0; number < summaryWidth; number += 1) summary.push(Number.POSITIVE_INFINITY);
  return summary;
}

/** Takes the least of each number over some summaries into one. */
function foldInto(into: number[], at: number, summaries: readonly number[], summaryWidth: number): void {
  let from = 0;
  while (from < summaries.length) {
    for (let number = 0; number < summaryWidth; number += 1) {
      const value = summaries[from + number] as number;
      if (value < (into[at + number] as number)) into[at + number] = value;
    }
    from += summaryWidth;
  }
}

/** How many elements at the start satisfy a condition that holds for a prefix. */
function prefixLength<E>(elements: readonly E[], isBefore: (element: E) => boolean): number {
  let low = 0;
  let high = elements.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(elements[middle] as E)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function lowerBound<E>(elements: readonly E[], element: E, shape: TreeShape<E>): number {
  let low = 0;
  let high = elements.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shape.compare(elements[middle] as E, element) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the child whose range holds the element. */
function childFor<E>(node: Branch<E>, element: E, shape: TreeShape<E>): number {
  let low = 1;
  let high = node.firsts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shape.compare(node.firsts[middle] as E, element) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function findIn<E>(start: Node<E>, element: E, shape: TreeShape<E>): E | undefined {
  let node = start;
  while (node.kind === "branch") node = node.children[childFor(node, element, shape)] as Node<E>;
  const found = node.elements[lowerBound(node.elements, element, shape)];
  return found !== undefined && shape.compare(found, element) === 0 ? found : undefined;
}

function countOf<E>(node: Node<E>): number {
  if (node.kind === "leaf") return node.elements.length;
  let total = 0;
  for (const count of node.counts) total += count;
  return total;
}

function widthOf<E>(node: Node<E>): number {
  return node.kind === "leaf" ? node.elements.length : node.children.length;
}

function firstOf<E>(node: Node<E>): E {
  return (node.kind === "leaf" ? node.elements[0] : node.firsts[0]) as E;
}

function* iterate<E>(node: Node<E>, rank: number): IterableIterator<E> {
  if (node.kind === "leaf") {
    for (let index = Math.max(0, rank); index < node.elements.length; index += 1) yield node.elements[index] as E;
    return;
  }
  let left = rank;
  for (let index = 0; index < node.children.length; index += 1) {
    const count = node.counts[index] ?? 0;
    if (left < count) yield* iterate(node.children[index] as Node<E>, left);
    left = Math.max(0, left - count);
  }
}

function countIn<E>(
  node: Node<E>,
  shape: TreeShape<E>,
  visit: Visitor,
  matches: (element: E) => boolean,
  sample: { leavesLeft: number; seen: number; matched: number },
): number {
  if (node.kind === "leaf") {
    if (sample.leavesLeft <= 0) return (node.elements.length * sample.matched) / sample.seen;
    const matched = node.elements.reduce((total, element) => total + (matches(element) ? 1 : 0), 0);
    sample.leavesLeft -= 1;
    sample.seen += node.elements.length;
    sample.matched += matched;
    return matched;
  }
  let total = 0;
  for (let index = 0; index < node.children.length; index += 1) {
    const decision = visit(node.summaries, index * shape.summaryWidth);
    const count = node.counts[index] ?? 0;
    if (decision === "skip") continue;
    if (decision === "take") total += count;
    else if (sample.leavesLeft <= 0) total += (count * sample.matched) / sample.seen;
    else total += countIn(node.children[index] as Node<E>, shape, visit, matches, sample);
  }
  return total;
}

function* matchingIn<E>(
  node: Node<E>,
  shape: TreeShape<E>,
  visit: Visitor,
  matches: (element: E) => boolean,
): IterableIterator<E> {
  if (node.kind === "leaf") {
    for (const element of node.elements) if (matches(element)) yield element;
    return;
  }
  for (let index = 0; index < node.children.length; index += 1) {
    const decision = visit(node.summaries, index * shape.summaryWidth);
    if (decision === "take") yield* iterate(node.children[index] as Node<E>, 0);
    else if (decision === "enter") yield* matchingIn(node.children[index] as Node<E>, shape, visit, matches);
  }
}
