import { xxh3Module } from "./xxh3-module.ts";

/** What the module exports; xxh3.wat says what stands where in its memory. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  hash(length: number): bigint;
  high(length: number): number;
  unit(length: number): number;
  units(prefix: number, count: number): void;
}

const fieldsAt = 512;
const unitsAt = 3584;
const messageAt = 4096;
const pageBytes = 65_536;

/** Fields that `units` takes at once. */
export const mostFields = 64;
/** 32-bit words of a field: its length in bytes, then its text. */
export const fieldWords = 12;

/**
 * XXH3-64 with the default secret and seed 0, synchronous: the Pulsar ranking hashes once per candidate. The message is written into the
 * memory of a WebAssembly module, where 64-bit numbers are numbers, and stays there: one for all who hash.
 *
 * Why not a library: on 113 bytes, Node 24, one hash costs 580 ns through `hash-wasm`, whose result is text, and 290 ns through a native
 * addon that returns a BigInt; here 16 cost less than 2,000 ns. Tested against vectors of two independent implementations.
 */
class Xxh3 {
  readonly #exports: Exports;
  /** The message. Replaced by `makeRoom`. */
  bytes: Uint8Array;
  /** The same bytes. Replaced by `makeRoom`. */
  view: DataView;
  /** Fields for `units`, `fieldWords` each. Replaced by `makeRoom`. */
  fields: Uint32Array;
  /** Results of `units`. Replaced by `makeRoom`. */
  results: Float64Array;

  constructor() {
    const module = new WebAssembly.Module(Buffer.from(xxh3Module, "base64"));
    this.#exports = new WebAssembly.Instance(module).exports as Exports;
    const { buffer } = this.#exports.memory;
    this.bytes = new Uint8Array(buffer, messageAt);
    this.view = new DataView(buffer, messageAt);
    this.fields = new Uint32Array(buffer, fieldsAt, mostFields * fieldWords);
    this.results = new Float64Array(buffer, unitsAt, mostFields);
  }

  /** Room for a message. What was written of one stays. Throws RangeError above about 4 GB. @param length In bytes. */
  makeRoom(length: number): void {
    // A field is copied as a whole, so one may reach beyond the message that it ends.
    const missing = length + 4 * fieldWords - this.bytes.length;
    if (missing <= 0) return;
    const { memory } = this.#exports;
    memory.grow(Math.ceil(missing / pageBytes));
    this.bytes = new Uint8Array(memory.buffer, messageAt);
    this.view = new DataView(memory.buffer, messageAt);
    this.fields = new Uint32Array(memory.buffer, fieldsAt, mostFields * fieldWords);
    this.results = new Float64Array(memory.buffer, unitsAt, mostFields);
  }

  /** The hash of the message's first bytes, unsigned. @param length At most the room that was made. */
  hash(length: number): bigint {
    return BigInt.asUintN(64, this.#exports.hash(length));
  }

  /** The hash's upper 32 bits, unsigned. */
  high(length: number): number {
    return this.#exports.high(length) >>> 0;
  }

  /** The hash as a number in (0, 1): `((hash >> 11) + 0.5) / 2^53`, uniform, never 0 or 1. */
  unit(length: number): number {
    return this.#exports.unit(length);
  }

  /**
   * Into `results` the same of the message's first bytes with each of some fields behind them.
   * @param prefix Length of those first bytes. @param count Fields that were written into `fields`.
   */
  units(prefix: number, count: number): void {
    this.#exports.units(prefix, count);
  }
}

/** The one hash of this process: it has no state but the message that is written into it. */
export const xxh3 = new Xxh3();
