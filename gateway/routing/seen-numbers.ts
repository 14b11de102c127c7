/** Up to so many, a look at each of a short list costs less than a set, which is made anew for every decision. */
const mostListed = 32;

/** Numbers that were met, few as a rule. */
export class SeenNumbers {
  readonly #list: number[] = [];
  #set: Set<number> | undefined;
  /** A bit for the last five bits of each listed number: one whose bit is not there was not met, and nobody looks at the list. */
  #bits = 0;

  get size(): number {
    return this.#set?.size ?? this.#list.length;
  }

  has(value: number): boolean {
    if (this.#set !== undefined) return this.#set.has(value);
    return (this.#bits & (1 << (value & 31))) !== 0 && this.#list.includes(value);
  }

  /** False when it was met before. */
  add(value: number): boolean {
    if (this.has(value)) return false;
    if (this.#set !== undefined) this.#set.add(value);
    else if (this.#list.length < mostListed) {
      this.#list.push(value);
      this.#bits |= 1 << (value & 31);
    } else this.#set = new Set(this.#list).add(value);
    return true;
  }
}
