const bits = 5;
const width = 2 ** bits;
const mask = width - 1;

type Node<V> = (Node<V> | V | undefined)[];

/**
 * An immutable map from small numbers to values: a radix tree, 32 wide, that shares structure between versions. Finding a value among
 * 100,000 meets four short arrays, where a hash map of text would read the text as well.
 */
export class SlotMap<V> {
  readonly #root: Node<V>;
  /** Bits below the digit that selects in the root. */
  readonly #shift: number;

  private constructor(root: Node<V>, shift: number) {
    this.#root = root;
    this.#shift = shift;
  }

  static empty<V>(): SlotMap<V> {
    return new SlotMap<V>([], 0);
  }

  /** @param slot Non-negative integer. */
  get(slot: number): V | undefined {
    if (slot >>> this.#shift >= width) return undefined;
    let node: Node<V> | undefined = this.#root;
    for (let shift = this.#shift; shift > 0; shift -= bits) {
      node = node[(slot >>> shift) & mask] as Node<V> | undefined;
      if (node === undefined) return undefined;
    }
    return node[slot & mask] as V | undefined;
  }

  /** The map with some values replaced; undefined removes. */
  with(changes: Iterable<readonly [number, V | undefined]>): SlotMap<V> {
    const owned = new Set<Node<V>>();
    const own = (node: Node<V> | undefined): Node<V> => {
      if (node !== undefined && owned.has(node)) return node;
      const copy = node === undefined ? [] : node.slice();
      owned.add(copy);
      return copy;
    };
    let root = own(this.#root);
    let top = this.#shift;
    for (const [slot, value] of changes) {
      while (slot >>> top >= width) {
        root = own([root]);
        top += bits;
      }
      let node = root;
      for (let shift = top; shift > 0; shift -= bits) {
        const digit = (slot >>> shift) & mask;
        const child = own(node[digit] as Node<V> | undefined);
        node[digit] = child;
        node = child;
      }
      node[slot & mask] = value;
    }
    return new SlotMap(root, top);
  }
}
