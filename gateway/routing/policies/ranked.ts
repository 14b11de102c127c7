/** How many candidates a policy ranks: two posts of eight, well under `maxListed`. */
export const rankedCount = 16;

/** The first `count` items. */
export function take<T>(items: Iterable<T>, count = rankedCount): T[] {
  const taken: T[] = [];
  for (const item of items) {
    taken.push(item);
    if (taken.length >= count) break;
  }
  return taken;
}
