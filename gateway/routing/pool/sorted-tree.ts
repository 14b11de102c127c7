/**
 * How a tree orders its elements, and what each subtree remembers of them. `S` is a summary that two neighbours combine into one:
 * counts, bounds of prices. Queries use it to take or skip whole subtrees.
 */
export interface TreeShape<E, S> {
  /** Total order; 0 only for the same element. */
  compare(a: E, b: E): number;
  summarise(element: E): S;
  combine(a: S, b: S): S;
}

/** A leaf as a search sees it. */
export interface LeafView<E> {
  readonly kind: "leaf";
  readonly elements: readonly E[];
}

/** A branch as a search sees it. */
export interface BranchView<E, S> {
  readonly kind: "branch";
  readonly children: readonly NodeView<E, S>[];
}

/** A subtree as a search sees it; `SortedTree.summaryOf` tells what is in it. */
export type NodeView<E, S> = LeafView<E> | BranchView<E, S>;

interface Leaf<E, S> {
  readonly kind: "leaf";
  /** Who may change it in place: the edit that made it. */
  readonly owner: object;
  readonly elements: E[];
  summary: S | undefined;
}

interface Branch<E, S> {
  readonly kind: "branch";
  readonly owner: object;
  readonly children: Node<E, S>[];
  readonly counts: number[];
  /** First element below each child. */
  readonly firsts: E[];
  summary: S | undefined;
}

type Node<E, S> = Leaf<E, S> | Branch<E, S>;

/** What a query does with a subtree. */
export type Visit = "take" | "skip" | "enter";

/** Most elements of a leaf and children of a branch. Wide, so that a descent meets few nodes: each may be far away in memory. */
const width = 64;

/**
 * An immutable sorted set: a B+ tree with shared structure. A change copies the path to one leaf, O(log n); older versions stay as they
 * are. Many changes at once go through `edit`, which copies each touched node once.
 */
export class SortedTree<E, S> {
  readonly shape: TreeShape<E, S>;
  readonly #root: Node<E, S> | undefined;
  readonly size: number;

  private constructor(shape: TreeShape<E, S>, root: Node<E, S> | undefined, size: number) {
    this.shape = shape;
    this.#root = root;
    this.size = size;
  }

  static empty<E, S>(shape: TreeShape<E, S>): SortedTree<E, S> {
    return new SortedTree(shape, undefined, 0);
  }

  /** Applies changes and returns the new tree, or this one when nothing changed. */
  edit(change: (edit: TreeEdit<E>) => void): SortedTree<E, S> {
    const edit = new Editor(this.shape, this.#root, this.size);
    change(edit);
    if (!edit.changed) return this;
    return new SortedTree(this.shape, edit.root, edit.size);
  }

  /** Summary of all elements; undefined when empty. */
  get summary(): S | undefined {
    return this.#root === undefined ? undefined : summaryOf(this.#root, this.shape);
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
      let index = node.children.length - 1;
      while (index > 0 && !isBefore(node.firsts[index] as E)) index -= 1;
      for (let before = 0; before < index; before += 1) rank += node.counts[before] ?? 0;
      node = node.children[index];
    }
    if (node === undefined) return 0;
    let within = 0;
    while (within < node.elements.length && isBefore(node.elements[within] as E)) within += 1;
    return rank + within;
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
  count(visit: (summary: S) => Visit, matches: (element: E) => boolean, maxLeaves = Number.POSITIVE_INFINITY): number {
    if (this.#root === undefined) return 0;
    const sample = { leavesLeft: maxLeaves, seen: 0, matched: 0 };
    return Math.round(countIn(this.#root, this.shape, visit, matches, sample));
  }

  /** Elements that match, in order, entering no subtree that `visit` skips. */
  *matching(visit: (summary: S) => Visit, matches: (element: E) => boolean): IterableIterator<E> {
    if (this.#root !== undefined) yield* matchingIn(this.#root, this.shape, visit, matches);
  }

  /** The tree's nodes, for a search of its own. */
  get root(): NodeView<E, S> | undefined {
    return this.#root;
  }

  /** What is in a subtree of this tree. */
  summaryOf(node: NodeView<E, S>): S {
    return summaryOf(node as Node<E, S>, this.shape);
  }
}

/** Changes of one edit. */
export interface TreeEdit<E> {
  /** Adds an element, or replaces the one of the same place in the order. */
  put(element: E): void;
  /** Removes the element of the same place in the order; false when there is none. */
  delete(element: E): boolean;
}

class Editor<E, S> implements TreeEdit<E> {
  readonly #shape: TreeShape<E, S>;
  readonly #owner: object = {};
  root: Node<E, S> | undefined;
  size: number;
  changed = false;

  constructor(shape: TreeShape<E, S>, root: Node<E, S> | undefined, size: number) {
    this.#shape = shape;
    this.root = root;
    this.size = size;
  }

  put(element: E): void {
    this.changed = true;
    if (this.root === undefined) {
      this.root = { kind: "leaf", owner: this.#owner, elements: [element], summary: undefined };
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
    while (this.root.kind === "branch" && this.root.children.length === 1)
      this.root = this.root.children[0] as Node<E, S>;
    if (this.size === 0) this.root = undefined;
    return true;
  }

  /** Puts into an owned node; returns the right half when it had to split. */
  #putIn(node: Node<E, S>, element: E): Node<E, S> | undefined {
    node.summary = undefined;
    if (node.kind === "leaf") {
      const index = lowerBound(node.elements, element, this.#shape);
      const present = node.elements[index];
      if (present !== undefined && this.#shape.compare(present, element) === 0) {
        node.elements[index] = element;
        return undefined;
      }
      node.elements.splice(index, 0, element);
      this.size += 1;
      if (node.elements.length <= width) return undefined;
      const elements = node.elements.splice(width >> 1);
      return { kind: "leaf", owner: this.#owner, elements, summary: undefined };
    }
    const index = childFor(node, element, this.#shape);
    const child = this.#ownChild(node, index);
    const right = this.#putIn(child, element);
    this.#refresh(node, index);
    if (right === undefined) return undefined;
    node.children.splice(index + 1, 0, right);
    node.counts.splice(index + 1, 0, countOf(right));
    node.firsts.splice(index + 1, 0, firstOf(right));
    if (node.children.length <= width) return undefined;
    return this.#branch(node.children.splice(width >> 1), node);
  }

  #deleteIn(node: Node<E, S>, element: E): void {
    node.summary = undefined;
    if (node.kind === "leaf") {
      node.elements.splice(lowerBound(node.elements, element, this.#shape), 1);
      return;
    }
    const index = childFor(node, element, this.#shape);
    const child = this.#ownChild(node, index);
    this.#deleteIn(child, element);
    if (countOf(child) > 0) {
      this.#refresh(node, index);
      this.#mergeSmall(node, index);
      return;
    }
    node.children.splice(index, 1);
    node.counts.splice(index, 1);
    node.firsts.splice(index, 1);
  }

  /** Joins a child that has become small with its right or left neighbour, so that removals leave no thin tree. */
  #mergeSmall(node: Branch<E, S>, index: number): void {
    const child = node.children[index] as Node<E, S>;
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
    owned.summary = undefined;
    node.children.splice(left + 1, 1);
    node.counts.splice(left + 1, 1);
    node.firsts.splice(left + 1, 1);
    this.#refresh(node, left);
  }

  #refresh(node: Branch<E, S>, index: number): void {
    const child = node.children[index] as Node<E, S>;
    node.counts[index] = countOf(child);
    node.firsts[index] = firstOf(child);
  }

  #ownChild(node: Branch<E, S>, index: number): Node<E, S> {
    const child = this.#own(node.children[index] as Node<E, S>);
    node.children[index] = child;
    return child;
  }

  #own(node: Node<E, S>): Node<E, S> {
    if (node.owner === this.#owner) return node;
    if (node.kind === "leaf") {
      return { kind: "leaf", owner: this.#owner, elements: node.elements.slice(), summary: node.summary };
    }
    return {
      kind: "branch",
      owner: this.#owner,
      children: node.children.slice(),
      counts: node.counts.slice(),
      firsts: node.firsts.slice(),
      summary: node.summary,
    };
  }

  /** A branch over these children; `shortened` is the branch that they were cut from. */
  #branch(children: Node<E, S>[], shortened?: Branch<E, S>): Branch<E, S> {
    if (shortened !== undefined) {
      shortened.counts.length = shortened.children.length;
      shortened.firsts.length = shortened.children.length;
    }
    return {
      kind: "branch",
      owner: this.#owner,
      children,
      counts: children.map(countOf),
      firsts: children.map(firstOf),
      summary: undefined,
    };
  }
}

function lowerBound<E, S>(elements: readonly E[], element: E, shape: TreeShape<E, S>): number {
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
function childFor<E, S>(node: Branch<E, S>, element: E, shape: TreeShape<E, S>): number {
  let low = 1;
  let high = node.firsts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shape.compare(node.firsts[middle] as E, element) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function findIn<E, S>(start: Node<E, S>, element: E, shape: TreeShape<E, S>): E | undefined {
  let node = start;
  while (node.kind === "branch") node = node.children[childFor(node, element, shape)] as Node<E, S>;
  const found = node.elements[lowerBound(node.elements, element, shape)];
  return found !== undefined && shape.compare(found, element) === 0 ? found : undefined;
}

function countOf<E, S>(node: Node<E, S>): number {
  if (node.kind === "leaf") return node.elements.length;
  let total = 0;
  for (const count of node.counts) total += count;
  return total;
}

function widthOf<E, S>(node: Node<E, S>): number {
  return node.kind === "leaf" ? node.elements.length : node.children.length;
}

function firstOf<E, S>(node: Node<E, S>): E {
  return (node.kind === "leaf" ? node.elements[0] : node.firsts[0]) as E;
}

/** Worked out when first asked for and kept: a node does not change once its tree is published. */
function summaryOf<E, S>(node: Node<E, S>, shape: TreeShape<E, S>): S {
  if (node.summary !== undefined) return node.summary;
  const summaries =
    node.kind === "leaf"
      ? node.elements.map((element) => shape.summarise(element))
      : node.children.map((child) => summaryOf(child, shape));
  node.summary = summaries.reduce((a, b) => shape.combine(a, b));
  return node.summary;
}

function* iterate<E, S>(node: Node<E, S>, rank: number): IterableIterator<E> {
  if (node.kind === "leaf") {
    for (let index = Math.max(0, rank); index < node.elements.length; index += 1) yield node.elements[index] as E;
    return;
  }
  let left = rank;
  for (let index = 0; index < node.children.length; index += 1) {
    const count = node.counts[index] ?? 0;
    if (left < count) yield* iterate(node.children[index] as Node<E, S>, left);
    left = Math.max(0, left - count);
  }
}

function countIn<E, S>(
  node: Node<E, S>,
  shape: TreeShape<E, S>,
  visit: (summary: S) => Visit,
  matches: (element: E) => boolean,
  sample: { leavesLeft: number; seen: number; matched: number },
): number {
  const decision = visit(summaryOf(node, shape));
  if (decision === "skip") return 0;
  if (decision === "take") return countOf(node);
  if (sample.leavesLeft <= 0) return (countOf(node) * sample.matched) / sample.seen;
  if (node.kind === "branch") {
    return node.children.reduce((total, child) => total + countIn(child, shape, visit, matches, sample), 0);
  }
  const matched = node.elements.reduce((total, element) => total + (matches(element) ? 1 : 0), 0);
  sample.leavesLeft -= 1;
  sample.seen += node.elements.length;
  sample.matched += matched;
  return matched;
}

function* matchingIn<E, S>(
  node: Node<E, S>,
  shape: TreeShape<E, S>,
  visit: (summary: S) => Visit,
  matches: (element: E) => boolean,
): IterableIterator<E> {
  const decision = visit(summaryOf(node, shape));
  if (decision === "skip") return;
  if (decision === "take") yield* iterate(node, 0);
  else if (node.kind === "leaf") {
    for (const element of node.elements) if (matches(element)) yield element;
  } else for (const child of node.children) yield* matchingIn(child, shape, visit, matches);
}
