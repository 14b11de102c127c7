import type { Random } from "../../protocol/clock.ts";

/**
 * Items in the order of successive weighted draws without replacement: P(first = i) = w_i / sum w. Negative and non-finite weights
 * count as 0; items of weight 0 come last, in random order, so that all-zero weights give a uniform order.
 */
export function weightedOrder<T>(items: readonly T[], weight: (item: T) => number, random: Random): T[] {
  const keyed = items.map((item) => {
    const value = weight(item);
    // 1 - random() is in (0, 1], so the logarithm is finite.
    const exponential = -Math.log(1 - random());
    const weighted = Number.isFinite(value) && value > 0;
    return { item, weighted, key: weighted ? exponential / value : exponential };
  });
  keyed.sort((a, b) => (a.weighted === b.weighted ? a.key - b.key : a.weighted ? -1 : 1));
  return keyed.map(({ item }) => item);
}
