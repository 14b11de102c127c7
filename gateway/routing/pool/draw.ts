import type { Random } from "../../../protocol/clock.ts";

/**
 * Draws distinct numbers of 0 .. size - 1 in uniformly random order until `visit` returns false or all were drawn. Wanting few of many
 * costs only the few: single draws, repeated ones skipped; when those find too little, the rest is shuffled.
 * @param wanted How many will probably do.
 */
export function drawRanks(size: number, wanted: number, random: Random, visit: (rank: number) => boolean): void {
  const drawn = new Set<number>();
  if (size > 4 * wanted) {
    for (let draws = 4 * wanted; draws > 0; draws -= 1) {
      const rank = Math.floor(random() * size);
      if (drawn.has(rank)) continue;
      drawn.add(rank);
      if (!visit(rank)) return;
    }
  }
  const rest = new Uint32Array(size - drawn.size);
  let length = 0;
  for (let rank = 0; rank < size; rank += 1) {
    if (drawn.has(rank)) continue;
    rest[length] = rank;
    length += 1;
  }
  for (let left = length; left > 0; left -= 1) {
    const pick = Math.floor(random() * left);
    const rank = rest[pick] as number;
    rest[pick] = rest[left - 1] as number;
    if (!visit(rank)) return;
  }
}
