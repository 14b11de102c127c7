import { CommonPrefixHash, xxh3 } from "./xxh3.ts";

const encoder = new TextEncoder();
const lengthBytes = 4;
const seedBytes = 8;

/**
 * The bytes of whoever hashes: one array for all, because a decision that makes one of its own leaves more to the garbage collector
 * than all else that it does. Who finds somebody else's fields in it writes its own anew.
 */
const scratch: { bytes: Uint8Array; view: DataView; owner: KeyHasher | undefined } = {
  ...arrayOf(1024),
  owner: undefined,
};

function arrayOf(length: number): { bytes: Uint8Array; view: DataView } {
  const bytes = new Uint8Array(length);
  return { bytes, view: new DataView(bytes.buffer) };
}

/**
 * Hashes length-tagged fields: the seed as 8 bytes little-endian, then each text as UTF-8, every field behind its length in 4 bytes
 * little-endian. The tags keep ("ab", "c") and ("a", "bc") apart. The first fields stay, the last one changes from hash to hash.
 */
export class KeyHasher {
  readonly #seed: number;
  readonly #fields: readonly string[];
  readonly #prefixLength: number;
  readonly #hash: CommonPrefixHash;

  /** @param seed Unsigned integer up to 2^53 - 1. */
  constructor(seed: number, ...fields: readonly string[]) {
    this.#seed = seed;
    this.#fields = fields;
    this.#prefixLength = this.#writePrefix();
    this.#hash = new CommonPrefixHash(this.#prefixLength);
  }

  /** Uniform number in (0, 1) of the fields so far and this last one. */
  unit(last: string): number {
    this.#prepare(last.length);
    return this.#hash.unit(scratch.view, writeField(this.#prefixLength, last));
  }

  /** The same of each of some last ones. Their lengths are read first, so that the processor fetches several texts at once. */
  units(lasts: readonly string[]): number[] {
    let longest = 0;
    for (const last of lasts) longest = Math.max(longest, last.length);
    this.#prepare(longest);
    return lasts.map((last) => this.#hash.unit(scratch.view, writeField(this.#prefixLength, last)));
  }

  /** Writes the fields so far where they are not, with room behind them for a last one. @param length In UTF-16 code units. */
  #prepare(length: number): void {
    if (scratch.owner !== this) this.#writePrefix();
    // UTF-8 takes at most 3 bytes per UTF-16 code unit.
    const room = this.#prefixLength + lengthBytes + 3 * length;
    if (room <= scratch.bytes.length) return;
    makeRoom(room);
    this.#writePrefix();
  }

  /** Top 32 bits of the hash of the fields so far: a place on a ring. */
  position(): number {
    if (scratch.owner !== this) this.#writePrefix();
    return xxh3(scratch.view, this.#prefixLength).high;
  }

  /** Writes the fields so far and returns their length. */
  #writePrefix(): number {
    let room = lengthBytes + seedBytes;
    for (const field of this.#fields) room += lengthBytes + 3 * field.length;
    if (room > scratch.bytes.length) makeRoom(room);
    const { view } = scratch;
    view.setUint32(0, seedBytes, true);
    view.setUint32(lengthBytes, this.#seed % 2 ** 32, true);
    view.setUint32(lengthBytes + 4, Math.floor(this.#seed / 2 ** 32), true);
    let at = lengthBytes + seedBytes;
    for (const field of this.#fields) at = writeField(at, field);
    scratch.owner = this;
    return at;
  }
}

function makeRoom(length: number): void {
  Object.assign(scratch, arrayOf(2 * length));
}

/** Writes a tagged field and returns where it ends. */
function writeField(at: number, field: string): number {
  const start = at + lengthBytes;
  const length = writeUtf8(scratch.bytes, start, field);
  scratch.view.setUint32(at, length, true);
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
