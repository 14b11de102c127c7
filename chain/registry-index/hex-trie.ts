import type { Random } from "../../protocol/clock.ts";

/**
 * A persistent map from hexadecimal keys (addresses, hashes) of one length to values. A change copies the path to its entry, some
 * log16(n) small nodes, and shares the rest; so a version per block of a registry of 100,000 entries costs what changed in the block.
 * The digits of a key are its path: no hash function, no collisions. Keys are told apart without regard to case.
 */
export class HexTrie<V> {
  readonly size: number;
  readonly #root: Node<V>;

  private constructor(root: Node<V>, size: number) {
    this.#root = root;
    this.size = size;
  }

  /** The map with no entry. */
  static empty<V>(): HexTrie<V> {
    return new HexTrie<V>(emptyNode<V>(undefined), 0);
  }

  /** Value of a key; undefined when absent. */
  get(key: string): V | undefined {
    return find(this.#root, key.toLowerCase());
  }

  /** Values in the order of their keys. */
  *values(): Generator<V> {
    for (const leaf of leavesOf(this.#root)) yield leaf.value;
  }

  /** Keys in lower case, in order, with their values. */
  *entries(): Generator<readonly [string, V]> {
    for (const leaf of leavesOf(this.#root)) yield [leaf.key, leaf.value];
  }

  /** Some value, by a random walk: quick, and near enough to uniform for keys that are. Undefined when empty. */
  sample(random: Random): V | undefined {
    let node = this.#root;
    for (;;) {
      const slots = node.slots.filter((slot) => slot !== undefined);
      const slot = slots[Math.floor(random() * slots.length)];
      if (slot === undefined) return undefined;
      if (!("slots" in slot)) return slot.value;
      node = slot;
    }
  }

  /** A mutable copy-on-write view for a batch of changes; this map stays as it is. */
  edit(): HexTrieEditor<V> {
    return new HexTrieEditor<V>(this.#root, this.size, (root, size) => new HexTrie<V>(root, size));
  }
}

/** Changes to a `HexTrie`: nodes made by this editor are changed in place, others are copied first. */
export class HexTrieEditor<V> {
  #owner: object = {};
  #root: Node<V>;
  #size: number;
  readonly #wrap: (root: Node<V>, size: number) => HexTrie<V>;

  constructor(root: Node<V>, size: number, wrap: (root: Node<V>, size: number) => HexTrie<V>) {
    this.#root = root;
    this.#size = size;
    this.#wrap = wrap;
  }

  get size(): number {
    return this.#size;
  }

  /** Value of a key as changed so far. */
  get(key: string): V | undefined {
    return find(this.#root, key.toLowerCase());
  }

  /** Adds or replaces. */
  set(key: string, value: V): void {
    this.#root = this.#set(this.#root, key.toLowerCase(), value, firstDigit);
  }

  /** Removes; absent keys are no error. */
  delete(key: string): void {
    const lower = key.toLowerCase();
    if (find(this.#root, lower) === undefined) return;
    this.#root = this.#delete(this.#root, lower, firstDigit);
    this.#size -= 1;
  }

  /** The changed map. The editor may go on; what it does next does not touch the map returned. */
  done(): HexTrie<V> {
    this.#owner = {};
    return this.#wrap(this.#root, this.#size);
  }

  #own(node: Node<V>): Node<V> {
    return node.owner === this.#owner ? node : { owner: this.#owner, slots: node.slots.slice() };
  }

  #set(node: Node<V>, key: string, value: V, depth: number): Node<V> {
    const own = this.#own(node);
    const digit = digitAt(key, depth);
    const slot = own.slots[digit];
    if (slot === undefined) {
      own.slots[digit] = { key, value };
      this.#size += 1;
    } else if ("slots" in slot) {
      own.slots[digit] = this.#set(slot, key, value, depth + 1);
    } else if (slot.key === key) {
      own.slots[digit] = { key, value };
    } else {
      // Two keys share the path so far: push the old one down and try again below.
      const below = emptyNode<V>(this.#owner);
      below.slots[digitAt(slot.key, depth + 1)] = slot;
      own.slots[digit] = this.#set(below, key, value, depth + 1);
    }
    return own;
  }

  #delete(node: Node<V>, key: string, depth: number): Node<V> {
    const own = this.#own(node);
    const digit = digitAt(key, depth);
    const slot = own.slots[digit];
    if (slot !== undefined && "slots" in slot) {
      const below = this.#delete(slot, key, depth + 1);
      own.slots[digit] = soleLeaf(below) ?? below;
    } else {
      own.slots[digit] = undefined;
    }
    return own;
  }
}

/** Keys start with `0x`. */
const firstDigit = 2;

interface Leaf<V> {
  readonly key: string;
  readonly value: V;
}

interface Node<V> {
  /** The editor that may change it in place; anything else must copy. */
  readonly owner: object | undefined;
  readonly slots: (Node<V> | Leaf<V> | undefined)[];
}

function emptyNode<V>(owner: object | undefined): Node<V> {
  return { owner, slots: Array.from({ length: 16 }, () => undefined) };
}

function digitAt(key: string, position: number): number {
  const code = key.charCodeAt(position);
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  throw new RangeError(`not a hexadecimal key of the map's length: ${key}`);
}

function find<V>(root: Node<V>, key: string): V | undefined {
  let node = root;
  for (let depth = firstDigit; depth < key.length; depth += 1) {
    const slot = node.slots[digitAt(key, depth)];
    if (slot === undefined) return undefined;
    if ("slots" in slot) node = slot;
    else return slot.key === key ? slot.value : undefined;
  }
  return undefined;
}

/** The only entry of a node that holds one leaf and nothing else: it moves up, so that equal maps have equal shapes. */
function soleLeaf<V>(node: Node<V>): Leaf<V> | undefined {
  let sole: Leaf<V> | undefined;
  for (const slot of node.slots) {
    if (slot === undefined) continue;
    if (sole !== undefined || "slots" in slot) return undefined;
    sole = slot;
  }
  return sole;
}

/** Depth first with a stack of its own: nested generators would cost a step per level and entry. */
function* leavesOf<V>(root: Node<V>): Generator<Leaf<V>> {
  const stack: (Node<V> | Leaf<V>)[] = [root];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    if (!("slots" in top)) {
      yield top;
      continue;
    }
    for (let digit = 15; digit >= 0; digit -= 1) {
      const slot = top.slots[digit];
      if (slot !== undefined) stack.push(slot);
    }
  }
}
