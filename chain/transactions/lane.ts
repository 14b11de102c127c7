/** One work at a time, in the order in which it was asked for. */
export class Lane {
  /** The end of what was asked for last; never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all before it has ended, however it ended. Rejects with the work's own error. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => undefined);
    return await turn;
  }

  /** Resolves when the work asked for until now has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
