import { xxh3, xxh3Unit } from "./xxh3.ts";

const encoder = new TextEncoder();
const lengthBytes = 4;
const seedBytes = 8;

/**
 * Hashes length-tagged fields: the seed as 8 bytes little-endian, then each text as UTF-8, every field behind its length in 4 bytes
 * little-endian. The tags keep ("ab", "c") and ("a", "bc") apart. The first fields stay, the last one changes from hash to hash.
 */
export class KeyHasher {
  #bytes: Uint8Array;
  #view: DataView;
  readonly #prefixLength: number;

  /** @param seed Unsigned integer up to 2^53 - 1. */
  constructor(seed: number, ...fields: readonly string[]) {
    const encoded = fields.map((field) => encoder.encode(field));
    const prefixLength = encoded.reduce((sum, field) => sum + lengthBytes + field.length, lengthBytes + seedBytes);
    this.#bytes = new Uint8Array(prefixLength + 256);
    this.#view = new DataView(this.#bytes.buffer);
    this.#view.setUint32(0, seedBytes, true);
    this.#view.setBigUint64(lengthBytes, BigInt(seed), true);
    let at = lengthBytes + seedBytes;
    for (const field of encoded) {
      this.#view.setUint32(at, field.length, true);
      this.#bytes.set(field, at + lengthBytes);
      at += lengthBytes + field.length;
    }
    this.#prefixLength = prefixLength;
  }

  /** Uniform number in (0, 1) of the fields so far and this last one. @param last UTF-8. */
  unit(last: Uint8Array): number {
    const end = this.#prefixLength + lengthBytes + last.length;
    if (end > this.#bytes.length) this.#grow(end);
    this.#view.setUint32(this.#prefixLength, last.length, true);
    this.#bytes.set(last, this.#prefixLength + lengthBytes);
    return xxh3Unit(this.#view, end);
  }

  /** Top 32 bits of the hash of the fields so far: a place on a ring. */
  position(): number {
    return xxh3(this.#view, this.#prefixLength).high;
  }

  #grow(least: number): void {
    const bytes = new Uint8Array(least * 2);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}

/** UTF-8 of a text, for `KeyHasher.unit`. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}
