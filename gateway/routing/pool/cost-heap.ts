/** A binary heap of items by cost, least first. */
export class CostHeap<T> {
  readonly #costs: number[] = [];
  readonly #items: T[] = [];

  /** All items, in no order. */
  get items(): readonly T[] {
    return this.#items;
  }

  /** Cost of the least item; infinite when empty. */
  get leastCost(): number {
    return this.#costs[0] ?? Number.POSITIVE_INFINITY;
  }

  push(cost: number, item: T): void {
    let at = this.#costs.length;
    this.#costs.push(cost);
    this.#items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const parentCost = this.#costs[parent] as number;
      if (parentCost <= cost) break;
      this.#costs[at] = parentCost;
      this.#items[at] = this.#items[parent] as T;
      at = parent;
    }
    this.#costs[at] = cost;
    this.#items[at] = item;
  }

  /** Takes the least item; undefined when empty. */
  pop(): T | undefined {
    const least = this.#items[0];
    const cost = this.#costs.pop();
    const item = this.#items.pop();
    if (cost === undefined || this.#costs.length === 0) return least;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.#costs.length) break;
      const right = child + 1;
      if (right < this.#costs.length && (this.#costs[right] as number) < (this.#costs[child] as number)) child = right;
      const childCost = this.#costs[child] as number;
      if (childCost >= cost) break;
      this.#costs[at] = childCost;
      this.#items[at] = this.#items[child] as T;
      at = child;
    }
    this.#costs[at] = cost;
    this.#items[at] = item as T;
    return least;
  }
}
