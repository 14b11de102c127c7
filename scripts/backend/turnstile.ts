/** A door that many pass through again and again, and that is shut while somebody works on what lies behind it. */
export class Turnstile {
  #workers = 0;
  #open: PromiseWithResolvers<void> | undefined;

  /** What those who pass wait for; undefined when the door is open. */
  get shut(): Promise<void> | undefined {
    return this.#open?.promise;
  }

  /** Keeps the door shut while the work goes on. Several may work at once. Throws what the work throws. */
  async whileShut<T>(work: () => Promise<T>): Promise<T> {
    this.#workers += 1;
    this.#open ??= Promise.withResolvers();
    try {
      return await work();
    } finally {
      this.#workers -= 1;
      if (this.#workers === 0) {
        this.#open.resolve();
        this.#open = undefined;
      }
    }
  }
}
