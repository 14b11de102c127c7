import type { Random } from "../../protocol/clock.ts";

/** A copy in uniformly random order. */
export function shuffle<T>(items: readonly T[], random: Random): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last -= 1) {
    const pick = Math.floor(random() * (last + 1));
    const item = copy[last] as T;
    copy[last] = copy[pick] as T;
    copy[pick] = item;
  }
  return copy;
}
