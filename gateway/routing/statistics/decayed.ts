/**
 * A sum whose parts lose half their weight every half-life. Constant memory, exact at every reading: all parts decay by the same
 * factor, so only the sum and the time of its last change are kept.
 */
export class DecayedSum {
  readonly #halfLifeMs: number;
  #sum = 0;
  #atMs = 0;

  /** @param halfLifeMs Ms in which a part loses half its weight; > 0. */
  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs;
  }

  /** Adds a part of full weight. @param nowMs Monotonic ms; a time before the last one counts as the last one. */
  add(value: number, nowMs: number): void {
    this.#sum = this.value(nowMs) + value;
    this.#atMs = Math.max(this.#atMs, nowMs);
  }

  /** The sum at a time. */
  value(nowMs: number): number {
    if (this.#sum === 0 || nowMs <= this.#atMs) return this.#sum;
    return this.#sum * 2 ** ((this.#atMs - nowMs) / this.#halfLifeMs);
  }
}

/** Mean of samples whose weights halve every half-life; undefined before the first. */
export class DecayedMean {
  readonly #weight: DecayedSum;
  readonly #total: DecayedSum;

  constructor(halfLifeMs: number) {
    this.#weight = new DecayedSum(halfLifeMs);
    this.#total = new DecayedSum(halfLifeMs);
  }

  /** Adds a sample. @param nowMs Monotonic ms. */
  add(sample: number, nowMs: number): void {
    this.#weight.add(1, nowMs);
    this.#total.add(sample, nowMs);
  }

  /** The mean; time alone does not change it. Undefined once all samples have decayed below what a double can hold. */
  value(nowMs: number): number | undefined {
    const weight = this.#weight.value(nowMs);
    return weight > 0 ? this.#total.value(nowMs) / weight : undefined;
  }
}
