import type { Address } from "viem";
import { FieldTable } from "../hash/field-table.ts";

/** Bits of a ring point that name its member. */
export const slotBits = 21;
const maxSlots = 2 ** slotBits;

/**
 * Small numbers for addresses, given once and never taken back, so that a ring point is one double and every version of every ring
 * reads the same table. Two million addresses in the life of a process; then `full` is true and the rings are built anew.
 */
export class MemberSlots {
  readonly #addresses: Address[] = [];
  readonly #slots = new Map<Address, number>();
  /** The texts of the addresses by their numbers, for the hashes of a ranking. */
  readonly texts = new FieldTable();

  get full(): boolean {
    return this.#addresses.length >= maxSlots - 1;
  }

  /** Numbers given so far: all are below this. */
  get count(): number {
    return this.#addresses.length;
  }

  /** The number of an address; gives it one when it has none. */
  slotOf(address: Address): number {
    const known = this.#slots.get(address);
    if (known !== undefined) return known;
    const slot = this.#addresses.length;
    if (slot >= maxSlots) throw new RangeError("too many addresses for one table of ring members");
    this.texts.push(address);
    this.#addresses.push(address);
    this.#slots.set(address, slot);
    return slot;
  }

  /** The number of an address; undefined when it has none. */
  find(address: Address): number | undefined {
    return this.#slots.get(address);
  }

  /** The address of a number that `slotOf` gave. */
  addressOf(slot: number): Address {
    const address = this.#addresses[slot];
    if (address === undefined) throw new RangeError(`no ring member ${slot}`);
    return address;
  }
}
