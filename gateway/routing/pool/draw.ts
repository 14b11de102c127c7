import type { Random } from "../../../protocol/clock.ts";
import { SeenNumbers } from "../seen-numbers.ts";

/**
 * Distinct numbers of 0 .. size - 1 in uniformly random order. Wanting few of many costs only the few: single draws, repeated ones skipped;
 * when those find too little, the rest is shuffled.
 */
export class RankDraw {
  readonly #size: number;
  readonly #random: Random;
  readonly #drawn = new SeenNumbers();
  #singleDraws: number;
  /** Numbers not drawn yet, in the first `#left` places; undefined while single draws do. */
  #rest: Uint32Array | undefined;
  #left = 0;

  /** @param wanted How many will probably do. */
  constructor(size: number, wanted: number, random: Random) {
    this.#size = size;
    this.#random = random;
    this.#singleDraws = size > 4 * wanted ? 4 * wanted : 0;
  }

  /** The next numbers, as many as asked for while there are so many; none when all were drawn. */
  next(count: number): number[] {
    const ranks: number[] = [];
    while (ranks.length < count && this.#singleDraws > 0) {
      this.#singleDraws -= 1;
      const rank = Math.floor(this.#random() * this.#size);
      if (this.#drawn.add(rank)) ranks.push(rank);
    }
    while (ranks.length < count) {
      const rest = (this.#rest ??= this.#notDrawn());
      if (this.#left === 0) break;
      const pick = Math.floor(this.#random() * this.#left);
      this.#left -= 1;
      ranks.push(rest[pick] as number);
      rest[pick] = rest[this.#left] as number;
    }
    return ranks;
  }

  #notDrawn(): Uint32Array {
    const rest = new Uint32Array(this.#size - this.#drawn.size);
    for (let rank = 0; rank < this.#size; rank += 1) {
      if (this.#drawn.has(rank)) continue;
      rest[this.#left] = rank;
      this.#left += 1;
    }
    return rest;
  }
}
