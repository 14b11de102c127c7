/** A counted gate: so many holders at once, the others wait in the order of their coming. */
export class SlotGate {
  readonly #slots: number;
  #held = 0;
  readonly #line: { readonly enter: () => void }[] = [];

  /** @param slots At least 1. */
  constructor(slots: number) {
    this.#slots = slots;
  }

  get held(): number {
    return this.#held;
  }

  get waiting(): number {
    return this.#line.length;
  }

  /**
   * Takes a slot, waiting for one if need be. The returned function gives it back and may be called again without effect. Throws the
   * signal's reason when it fires first.
   */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#held < this.#slots) this.#held += 1;
    else await this.#wait(signal);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const next = this.#line.shift();
      if (next === undefined) this.#held -= 1;
      else next.enter();
    };
  }

  /** Resolves with a slot handed over by its last holder. */
  #wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const place = {
      enter: () => {
        signal.removeEventListener("abort", leave);
        resolve();
      },
    };
    const leave = () => {
      this.#line.splice(this.#line.indexOf(place), 1);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#line.push(place);
    return promise;
  }
}
