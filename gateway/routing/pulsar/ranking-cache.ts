/** A bounded map that forgets what was not used for longest. */
export class RankingCache<V> {
  readonly #limit: number;
  readonly #entries = new Map<string, V>();
  /**
   * Where the entry unused for longest is found next. Kept, because whoever starts at the front of a map anew steps over all that was
   * deleted there. What is used again is put at the end, so that nothing is left behind.
   */
  readonly #oldest = this.#entries.keys();

  /** @param limit Greatest number of entries; 0 keeps none. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    while (this.#entries.size > this.#limit) {
      const { value: oldest } = this.#oldest.next();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
  }
}
