import { fieldWords, xxh3 } from "./xxh3.ts";

const mostTextBytes = 4 * (fieldWords - 1);
/** Words from one field to the next: none reaches into two lines of memory, each of which costs as much as all else. */
const stride = 16;
const leastFields = 64;

/**
 * Length-tagged texts by the order they came in, side by side, ready to be hashed behind a message. A decision hashes the addresses
 * of sixteen members: read from here, the processor fetches several at once.
 */
export class FieldTable {
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

  /** Writes some texts, by their places in the order, as the fields that `xxh3.units` takes. @param to At most 64 more than `from`. */
  write(places: readonly number[], from: number, to: number): void {
    const words = this.#words;
    const { fields } = xxh3;
    let into = 0;
    for (let index = from; index < to; index += 1) {
      const at = (places[index] as number) * stride;
      for (let word = 0; word < fieldWords; word += 1) fields[into + word] = words[at + word] as number;
      into += fieldWords;
    }
  }

  #grow(): void {
    const words = new Uint32Array(2 * this.#words.length);
    words.set(this.#words);
    this.#words = words;
    this.#bytes = new Uint8Array(words.buffer);
  }
}
