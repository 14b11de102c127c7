/** Up to so many, a look at each of a short list costs less than a set, which is made anew for every decision. */
const mostListed = 32;

/** Numbers that were met, few as a rule. */
export class SeenNumbers {
  readonly #list: number[] = [];
  #set: Set<number> | undefined;

  get size(): number {
    return this.#set?.size ?? this.#list.length;
  }

  has(value: number): boolean {
    return this.#set === undefined ? this.#list.includes(value) : this.#set.has(value);
  }

  /** False when it was met before. */
  add(value: number): boolean {
    if (this.has(value)) return false;
    if (this.#set !== undefined) this.#set.add(value);
    else if (this.#list.length < mostListed) this.#list.push(value);
    else this.#set = new Set(this.#list).add(value);
    return true;
  }
}
