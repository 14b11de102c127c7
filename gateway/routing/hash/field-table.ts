import { fieldWords, xxh3 } from "./xxh3.ts";

const mostTextBytes = 4 * (fieldWords - 1);
/** Words from one field to the next: none reaches into two lines of memory, each of which costs as much as all else. */
const stride = 16;
const leastFields = 64;

/** Texts, by numbers, that can be hashed behind a message. */
export interface Fields {
  /** Writes some of them as the fields that `xxh3.units` takes. @param to At most 64 more than `from`. */
  write(places: readonly number[], from: number, to: number): void;
}

/**
 * Length-tagged texts by the order they came in, side by side, ready to be hashed behind a message. A decision hashes the addresses
 * of sixteen members: read from here, the processor fetches several at once.
 */
export class FieldTable implements Fields {
  #words = new Uint32Array(leastFields * stride);
  #bytes = new Uint8Array(this.#words.buffer);
  #count = 0;

  /** Appends a text. Throws RangeError unless it has at most 44 characters and all are ASCII: an address has 42. */
  push(text: string): void {
    if (text.length > mostTextBytes) throw new RangeError(`a field holds ${mostTextBytes} bytes, not ${text.length}`);
    if ((this.#count + 1) * stride > this.#words.length) this.#grow();
    const at = this.#count * stride;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) throw new RangeError("a field holds ASCII only");
      this.#bytes[4 * (at + 1) + index] = code;
    }
    this.#words[at] = text.length;
    this.#count += 1;
  }

  /** By their places in the order. */
  write(places: readonly number[], from: number, to: number): void {
    const { fields } = xxh3;
    for (let index = from; index < to; index += 1) {
      this.copy(places[index] as number, fields, (index - from) * fieldWords);
    }
  }

  /** Copies the field of a place into some words. */
  copy(place: number, into: Uint32Array, at: number): void {
    const words = this.#words;
    const from = place * stride;
    for (let word = 0; word < fieldWords; word += 1) into[at + word] = words[from + word] as number;
  }

  #grow(): void {
    const words = new Uint32Array(2 * this.#words.length);
    words.set(this.#words);
    this.#words = words;
    this.#bytes = new Uint8Array(words.buffer);
  }
}
