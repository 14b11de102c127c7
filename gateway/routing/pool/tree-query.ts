import type { LeafView, Node, TreeShape, Visitor } from "./tree-node.ts";

/** Elements below a node in order, from a rank of the node on. */
export function* iterate<E>(node: Node<E>, rank: number): IterableIterator<E> {
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

/** What a count has learnt of the leaves that it entered. */
export interface CountSample {
  /** Leaves that may still be entered. */
  leavesLeft: number;
  /** Elements of those entered. */
  seen: number;
  /** Those of them that match. */
  matched: number;
}

/** Number of matches below a node; of leaves beyond those that may be entered, at the share of matches seen so far. */
export function countIn<E>(
  node: Node<E>,
  shape: TreeShape<E>,
  visit: Visitor,
  matches: (element: E) => boolean,
  sample: CountSample,
): number {
  if (node.kind === "leaf") {
    if (sample.leavesLeft <= 0) return (node.elements.length * sample.matched) / sample.seen;
    let matched = 0;
    for (let index = 0; index < node.elements.length; index += 1) {
      if (matchesAt(node, index, shape, visit, matches)) matched += 1;
    }
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

/** Matches below a node in order, entering no subtree that `visit` skips. */
export function* matchingIn<E>(
  node: Node<E>,
  shape: TreeShape<E>,
  visit: Visitor,
  matches: (element: E) => boolean,
): IterableIterator<E> {
  if (node.kind === "leaf") {
    for (let index = 0; index < node.elements.length; index += 1) {
      if (matchesAt(node, index, shape, visit, matches)) yield node.elements[index] as E;
    }
    return;
  }
  for (let index = 0; index < node.children.length; index += 1) {
    const decision = visit(node.summaries, index * shape.summaryWidth);
    if (decision === "take") yield* iterate(node.children[index] as Node<E>, 0);
    else if (decision === "enter") yield* matchingIn(node.children[index] as Node<E>, shape, visit, matches);
  }
}

/** Whether an element of a leaf matches: by its summary where that tells it, because the element itself lies elsewhere in memory. */
export function matchesAt<E>(
  { elements, summaries }: LeafView<E>,
  index: number,
  shape: TreeShape<E>,
  visit: Visitor,
  matches: (element: E) => boolean,
): boolean {
  const decision = visit(summaries, index * shape.summaryWidth);
  return decision === "enter" ? matches(elements[index] as E) : decision === "take";
}
