/**
 * The first block of `low`..`high` that is not older than a time; `high` when none is. Asks for the times of as few blocks as a binary
 * search needs, as the times of a chain never fall.
 *
 * @param time Chain time, Unix seconds.
 * @param timeOf Time of a block. A rejection ends the search.
 */
export async function firstBlockSince(
  time: number,
  low: bigint,
  high: bigint,
  timeOf: (block: bigint) => Promise<number>,
): Promise<bigint> {
  let first = low;
  let last = high;
  while (first < last) {
    const middle = (first + last) / 2n;
    if ((await timeOf(middle)) < time) first = middle + 1n;
    else last = middle;
  }
  return first;
}
