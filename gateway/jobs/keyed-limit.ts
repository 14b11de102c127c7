/** Lets at most so many pieces of work of one key run at once; the others of that key wait in order of arrival, and no other key does. */
export class KeyedLimit {
  readonly #most: number;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();

  /** @param most Pieces of work of one key at once; at least 1. */
  constructor(most: number) {
    this.#most = Math.max(1, most);
  }

  /** Runs the work when its turn comes; resolves and rejects as it does. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    await this.#turn(key);
    try {
      return await work();
    } finally {
      this.#leave(key);
    }
  }

  async #turn(key: string): Promise<void> {
    const running = this.#running.get(key) ?? 0;
    if (running < this.#most) {
      this.#running.set(key, running + 1);
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const line = this.#waiting.get(key);
    if (line === undefined) this.#waiting.set(key, [resolve]);
    else line.push(resolve);
    await promise;
  }

  /** Hands the place to the next in line, else gives it up. */
  #leave(key: string): void {
    const line = this.#waiting.get(key);
    const next = line?.shift();
    if (line?.length === 0) this.#waiting.delete(key);
    if (next !== undefined) {
      next();
      return;
    }
    const running = (this.#running.get(key) ?? 1) - 1;
    if (running === 0) this.#running.delete(key);
    else this.#running.set(key, running);
  }
}
