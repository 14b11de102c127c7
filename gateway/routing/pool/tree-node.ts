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

/** A leaf as an edit sees it. */
export interface Leaf<E> {
  readonly kind: "leaf";
  /** Who may change it in place: the edit that made it. */
  readonly owner: object;
  readonly elements: E[];
  readonly summaries: number[];
}

/** A branch as an edit sees it. */
export interface Branch<E> {
  readonly kind: "branch";
  readonly owner: object;
  readonly children: Node<E>[];
  readonly counts: number[];
  /** First element below each child. */
  readonly firsts: E[];
  readonly summaries: number[];
}

/** A subtree as an edit sees it. */
export type Node<E> = Leaf<E> | Branch<E>;

/** What a query does with a subtree. */
export type Visit = "take" | "skip" | "enter";

/** Judges the summary that starts at a place of a list of numbers. */
export type Visitor = (summaries: readonly number[], at: number) => Visit;

/** Most elements of a leaf and children of a branch. Wide, so that a descent meets few nodes: each may be far away in memory. */
export const width = 64;

/** The summary of no elements: each number infinite. */
export function emptySummary(summaryWidth: number): number[] {
  const summary: number[] = [];
  for (let number = 0; number < summaryWidth; number += 1) summary.push(Number.POSITIVE_INFINITY);
  return summary;
}

/** Takes the least of each number over some summaries into one. */
export function foldInto(into: number[], at: number, summaries: readonly number[], summaryWidth: number): void {
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
export function prefixLength<E>(elements: readonly E[], isBefore: (element: E) => boolean): number {
  let low = 0;
  let high = elements.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(elements[middle] as E)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the first element that is not before another; the length when all are. */
export function lowerBound<E>(elements: readonly E[], element: E, shape: TreeShape<E>): number {
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
export function childFor<E>(node: Branch<E>, element: E, shape: TreeShape<E>): number {
  let low = 1;
  let high = node.firsts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shape.compare(node.firsts[middle] as E, element) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The element of the same place in the order; undefined when there is none. */
export function findIn<E>(start: Node<E>, element: E, shape: TreeShape<E>): E | undefined {
  let node = start;
  while (node.kind === "branch") node = node.children[childFor(node, element, shape)] as Node<E>;
  const found = node.elements[lowerBound(node.elements, element, shape)];
  return found !== undefined && shape.compare(found, element) === 0 ? found : undefined;
}

/** Number of elements below a node. */
export function countOf<E>(node: Node<E>): number {
  if (node.kind === "leaf") return node.elements.length;
  let total = 0;
  for (const count of node.counts) total += count;
  return total;
}

/** Elements of a leaf, children of a branch. */
export function widthOf<E>(node: Node<E>): number {
  return node.kind === "leaf" ? node.elements.length : node.children.length;
}

/** First element below a node that has one. */
export function firstOf<E>(node: Node<E>): E {
  return (node.kind === "leaf" ? node.elements[0] : node.firsts[0]) as E;
}
