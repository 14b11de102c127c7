/** The best clusters of a key, best first. Side by side, because thousands of rankings are kept: two lists and no objects. */
export interface Best<P> {
  readonly places: readonly P[];
  readonly scores: readonly number[];
}

/** Before anything was ranked. */
export const nothing: Best<never> = { places: [], scores: [] };

/**
 * Keeps the best of those it is offered, greater scores first, ties by id. In order while they come: of a thousand only a few dozen ever
 * enter a list of sixteen, which costs less than to sort them all.
 */
export class BestList<P> implements Best<P> {
  readonly places: P[] = [];
  readonly scores: number[] = [];
  readonly #ids: string[] = [];
  readonly #limit: number;

  /** @param limit Greatest number of entries. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes one if it is among the best so far. */
  offer(id: string, score: number, place: P): void {
    const { places, scores } = this;
    const ids = this.#ids;
    let at = scores.length;
    while (at > 0 && (score > (scores[at - 1] as number) || (score === scores[at - 1] && id < (ids[at - 1] as string))))
      at -= 1;
    if (at >= this.#limit) return;
    for (let to = Math.min(scores.length, this.#limit - 1); to > at; to -= 1) {
      places[to] = places[to - 1] as P;
      scores[to] = scores[to - 1] as number;
      ids[to] = ids[to - 1] as string;
    }
    places[at] = place;
    scores[at] = score;
    ids[at] = id;
  }
}
