/** Prefixes that a backend holds, by session; the least recently used go when the tokens do not fit. */
export class PrefixCache {
  readonly #capacity: number;
  readonly #entries = new Map<number, number>();
  #tokens = 0;

  /** @param capacity Tokens. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Tokens held of a session; touching it keeps it. */
  touch(session: number): number {
    const tokens = this.#entries.get(session);
    if (tokens === undefined) return 0;
    this.#entries.delete(session);
    this.#entries.set(session, tokens);
    return tokens;
  }

  put(session: number, tokens: number): void {
    this.#tokens += tokens - (this.#entries.get(session) ?? 0);
    this.#entries.delete(session);
    this.#entries.set(session, tokens);
    for (const [oldest, held] of this.#entries) {
      if (this.#tokens <= this.#capacity) return;
      this.#entries.delete(oldest);
      this.#tokens -= held;
    }
  }
}
