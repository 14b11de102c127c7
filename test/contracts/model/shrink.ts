/**
 * A short part of a history that still fails: drops ever smaller pieces as long as the rest fails (delta debugging).
 * @param tries most histories that are run.
 */
export async function shrink<T>(
  history: readonly T[],
  fails: (part: readonly T[]) => Promise<boolean>,
  tries = 150,
): Promise<readonly T[]> {
  let shortest = history;
  let left = tries;
  for (let size = Math.ceil(shortest.length / 2); size >= 1 && left > 0; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < shortest.length && left > 0; ) {
      const part = [...shortest.slice(0, from), ...shortest.slice(from + size)];
      left -= 1;
      if (await fails(part)) shortest = part;
      else from += size;
    }
  }
  return shortest;
}
