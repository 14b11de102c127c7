const STEP_MS = 1_000;

/** How long this process stood still, because it was stopped or got no time. */
export class Pauses {
  readonly #timer: NodeJS.Timeout;
  #last = performance.now();
  #longest = 0;

  constructor() {
    this.#timer = setInterval(() => this.#look(), STEP_MS);
    this.#timer.unref();
  }

  /** The longest pause since the last call, ms. */
  take(): number {
    this.#look();
    const longest = this.#longest;
    this.#longest = 0;
    return longest;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
  }
}
