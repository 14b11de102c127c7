/** The best clusters of a key, best first. Side by side, because thousands of rankings are kept: two lists and no objects. */
export interface Best<P> {
  readonly places: readonly P[];
  readonly scores: readonly number[];
}

/** Before anything was ranked. */
export const nothing: Best<never> = { places: [], scores: [] };

/**
 * The places of the best of some scores, greater ones first, ties by id. Kept in order while they are looked at: of a thousand only a
 * few dozen ever enter a list of sixteen, which costs less than to sort them all.
 * @param limit Greatest number of places.
 * @param idOf Text of a place, asked for at a tie only: to read it costs more than all else.
 */
export function bestOf(scores: readonly number[], limit: number, idOf: (place: number) => string): Best<number> {
  const places: number[] = [];
  const best: number[] = [];
  for (let place = 0; place < scores.length; place += 1) {
    const score = scores[place] as number;
    let at = best.length;
    while (at > 0 && isBefore(score, place, best[at - 1] as number, places[at - 1] as number, idOf)) at -= 1;
    if (at >= limit) continue;
    for (let to = Math.min(best.length, limit - 1); to > at; to -= 1) {
      places[to] = places[to - 1] as number;
      best[to] = best[to - 1] as number;
    }
    places[at] = place;
    best[at] = score;
  }
  return { places, scores: best };
}

function isBefore(a: number, aPlace: number, b: number, bPlace: number, idOf: (place: number) => string): boolean {
  return a === b ? idOf(aPlace) < idOf(bPlace) : a > b;
}
