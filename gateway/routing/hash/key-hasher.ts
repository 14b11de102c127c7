import { CommonPrefixHash, xxh3 } from "./xxh3.ts";

const encoder = new TextEncoder();
const lengthBytes = 4;
const seedBytes = 8;
/** Room for a last field without growing: an address at three bytes a character. */
const spare = 144;

/**
 * Hashes length-tagged fields: the seed as 8 bytes little-endian, then each text as UTF-8, every field behind its length in 4 bytes
 * little-endian. The tags keep ("ab", "c") and ("a", "bc") apart. The first fields stay, the last one changes from hash to hash.
 */
export class KeyHasher {
  #bytes: Uint8Array;
  #view: DataView;
  readonly #prefixLength: number;
  readonly #hash: CommonPrefixHash;

  /** @param seed Unsigned integer up to 2^53 - 1. */
  constructor(seed: number, ...fields: readonly string[]) {
    // UTF-8 takes at most 3 bytes per UTF-16 code unit.
    const room = fields.reduce((sum, field) => sum + lengthBytes + 3 * field.length, lengthBytes + seedBytes + spare);
    this.#bytes = new Uint8Array(room);
    this.#view = new DataView(this.#bytes.buffer);
    this.#view.setUint32(0, seedBytes, true);
    this.#view.setUint32(lengthBytes, seed % 2 ** 32, true);
    this.#view.setUint32(lengthBytes + 4, Math.floor(seed / 2 ** 32), true);
    let at = lengthBytes + seedBytes;
    for (const field of fields) at = this.#write(at, field);
    this.#prefixLength = at;
    this.#hash = new CommonPrefixHash(at);
  }

  /** Uniform number in (0, 1) of the fields so far and this last one. */
  unit(last: string): number {
    const room = this.#prefixLength + lengthBytes + 3 * last.length;
    if (room > this.#bytes.length) this.#grow(room);
    return this.#hash.unit(this.#view, this.#write(this.#prefixLength, last));
  }

  /** Top 32 bits of the hash of the fields so far: a place on a ring. */
  position(): number {
    return xxh3(this.#view, this.#prefixLength).high;
  }

  /** Writes a tagged field and returns where it ends. */
  #write(at: number, field: string): number {
    const start = at + lengthBytes;
    const length = writeUtf8(this.#bytes, start, field);
    this.#view.setUint32(at, length, true);
    return start + length;
  }

  #grow(room: number): void {
    const bytes = new Uint8Array(room);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
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
