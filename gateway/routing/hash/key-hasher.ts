import type { Fields } from "./field-table.ts";
import { mostFields, xxh3 } from "./xxh3.ts";

const encoder = new TextEncoder();
const lengthBytes = 4;
const seedBytes = 8;

/** Whose first fields the message of `xxh3` holds; somebody else writes its own anew. */
const message: { owner: KeyHasher | undefined } = { owner: undefined };

/**
 * Hashes length-tagged fields: the seed as 8 bytes little-endian, then each text as UTF-8, every field behind its length in 4 bytes
 * little-endian. The tags keep ("ab", "c") and ("a", "bc") apart. The first fields stay, the last one changes from hash to hash.
 */
export class KeyHasher {
  readonly #seed: number;
  readonly #fields: readonly string[];
  readonly #prefixLength: number;

  /** @param seed Unsigned integer up to 2^53 - 1. */
  constructor(seed: number, ...fields: readonly string[]) {
    this.#seed = seed;
    this.#fields = fields;
    this.#prefixLength = this.#writePrefix();
  }

  /** Uniform number in (0, 1) of the fields so far and this last one. */
  unit(last: string): number {
    this.#own();
    return xxh3.unit(writeField(this.#prefixLength, last));
  }

  /** The same of each of some last ones of a table, by their places in it. */
  units(table: Fields, places: readonly number[]): number[] {
    this.#own();
    xxh3.makeRoom(this.#prefixLength);
    const units: number[] = [];
    for (let from = 0; from < places.length; from += mostFields) {
      const to = Math.min(from + mostFields, places.length);
      table.write(places, from, to);
      xxh3.units(this.#prefixLength, to - from);
      const { results } = xxh3;
      for (let index = 0; index < to - from; index += 1) units.push(results[index] as number);
    }
    return units;
  }

  /** Top 32 bits of the hash of the fields so far: a place on a ring. */
  position(): number {
    this.#own();
    return xxh3.high(this.#prefixLength);
  }

  #own(): void {
    if (message.owner !== this) this.#writePrefix();
  }

  /** Writes the fields so far and returns their length. */
  #writePrefix(): number {
    xxh3.makeRoom(lengthBytes + seedBytes);
    const { view } = xxh3;
    view.setUint32(0, seedBytes, true);
    view.setUint32(lengthBytes, this.#seed % 2 ** 32, true);
    view.setUint32(lengthBytes + 4, Math.floor(this.#seed / 2 ** 32), true);
    let at = lengthBytes + seedBytes;
    for (const field of this.#fields) at = writeField(at, field);
    message.owner = this;
    return at;
  }
}

/** Writes a tagged field and returns where it ends. */
function writeField(at: number, field: string): number {
  const start = at + lengthBytes;
  // UTF-8 takes at most 3 bytes per UTF-16 code unit.
  xxh3.makeRoom(start + 3 * field.length);
  const length = writeUtf8(xxh3.bytes, start, field);
  xxh3.view.setUint32(at, length, true);
  return start + length;
}

/** Writes UTF-8 and returns its length. ASCII, which addresses are, goes the short way: a call of the encoder costs more than the copy. */
function writeUtf8(bytes: Uint8Array, at: number, text: string): number {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code > 0x7f) return encoder.encodeInto(text, bytes.subarray(at)).written;
    bytes[at + index] = code;
  }
  return text.length;
}
