import {
  type Branch,
  childFor,
  countOf,
  emptySummary,
  findIn,
  firstOf,
  foldInto,
  type Leaf,
  lowerBound,
  type Node,
  type TreeShape,
  width,
  widthOf,
} from "./tree-node.ts";

/** Changes of one edit. */
export interface TreeEdit<E> {
  /** Adds an element, or replaces the one of the same place in the order. */
  put(element: E): void;
  /** Removes the element of the same place in the order; false when there is none. */
  delete(element: E): boolean;
}

/** An edit of one tree: copies each node that it touches once, and changes its own copies in place. */
export class Editor<E> implements TreeEdit<E> {
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
