/**
 * How many blocks to ask logs for at once: nodes bound the range, the number of results, or the time, each in its own way and words.
 * So it halves whenever a range fails and grows again when ranges succeed.
 */
export class RangePacer {
  readonly #max: number;
  #blocks: number;

  /** @param max Most blocks of one range; at least 1. */
  constructor(max: number) {
    this.#max = Math.max(1, max);
    this.#blocks = this.#max;
  }

  /** Blocks to ask for next. */
  get blocks(): number {
    return this.#blocks;
  }

  /** A range of so many blocks was answered. A short one at the head says nothing about longer ones. */
  served(blocks: number): void {
    if (blocks >= this.#blocks) this.#blocks = Math.min(this.#max, this.#blocks * 2);
  }

  /** A range failed; false when it was a single block, so that a smaller one cannot help. */
  refused(blocks: number): boolean {
    this.#blocks = Math.max(1, Math.floor(blocks / 2));
    return blocks > 1;
  }
}
