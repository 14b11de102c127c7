import type { Random } from "../../../protocol/clock.ts";

/**
 * The numbers 0 .. size - 1 in uniformly random order, drawn one at a time. Taking k of them costs O(k), however large the size: only the
 * places that were swapped are remembered.
 */
export function* permutation(size: number, random: Random): IterableIterator<number> {
  const moved = new Map<number, number>();
  for (let last = size - 1; last >= 0; last -= 1) {
    const pick = Math.floor(random() * (last + 1));
    const drawn = moved.get(pick) ?? pick;
    const tail = moved.get(last) ?? last;
    if (pick !== last) moved.set(pick, tail);
    moved.delete(last);
    yield drawn;
  }
}
