import type { Address, Hex } from "viem";
import type { IndexedLog } from "./logs.ts";
import type { RegistryState } from "./state.ts";

/** One block that the index has passed, with the state after it. */
export interface WindowEntry {
  readonly number: number;
  readonly hash: Hex;
  readonly state: RegistryState;
  /** Addresses whose record changed between the entry before and this one. */
  readonly touched: ReadonlySet<Address>;
  /** Job events between the entry before and this one, in order: taken back when the block is. */
  readonly jobLogs: readonly (IndexedLog & { readonly subject: "job" })[];
}

/**
 * The blocks that the index can go back to, oldest first. Not every block of the chain is in it: several that were read at once may
 * have left one entry. Immutable.
 */
export class Window {
  readonly entries: readonly WindowEntry[];
  readonly #capacity: number;

  private constructor(entries: readonly WindowEntry[], capacity: number) {
    this.entries = entries;
    this.#capacity = capacity;
  }

  /** A window with its first entry; holds at most `capacity` entries. */
  static from(first: WindowEntry, capacity: number): Window {
    return new Window([first], capacity);
  }

  /** The newest block. */
  get tip(): WindowEntry {
    const tip = this.entries.at(-1);
    if (tip === undefined) throw new RangeError("a window is never empty");
    return tip;
  }

  /** With more blocks on top, the oldest dropped beyond the capacity. */
  push(more: readonly WindowEntry[]): Window {
    return new Window([...this.entries, ...more].slice(-this.#capacity), this.#capacity);
  }

  /** Cut back so that entry number `index` is the tip. */
  unwindTo(index: number): { readonly window: Window; readonly dropped: readonly WindowEntry[] } {
    return {
      window: new Window(this.entries.slice(0, index + 1), this.#capacity),
      dropped: this.entries.slice(index + 1),
    };
  }

  /**
   * Index of the newest entry that is still part of the chain, asking the chain for as few hashes as a binary search needs; -1 when
   * even the oldest is not. If a block is canonical, so are all before it.
   */
  async newestCanonical(hashAt: (blockNumber: number) => Promise<Hex | undefined>): Promise<number> {
    let known = -1;
    let unknown = this.entries.length;
    while (unknown - known > 1) {
      const middle = (known + unknown) >>> 1;
      const entry = this.entries[middle];
      if (entry !== undefined && (await hashAt(entry.number)) === entry.hash) known = middle;
      else unknown = middle;
    }
    return known;
  }
}
