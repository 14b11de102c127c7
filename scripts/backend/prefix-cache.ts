import { hashNumbers } from "./seeded-random.ts";
import type { Token } from "./vocabulary.ts";

/** Tokens are remembered in blocks of this length, as inference servers do. */
export const prefixBlockTokens = 16;

/**
 * Which prefixes of prompts an engine has read before: a set of blocks, each named by a hash of all tokens up to its end, the least
 * recently used leaving first.
 */
export class PrefixCache {
  readonly #maxBlocks: number;
  /** Insertion order is the order of use. */
  readonly #blocks = new Set<string>();

  /** @param maxBlocks Blocks that are kept; 0 = nothing is remembered. */
  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks;
  }

  /** How many leading tokens of the prompt are known, and remembers the prompt. The last token is never counted: it has to be read for the next. */
  read(prompt: readonly Token[]): number {
    const keys = blockKeys(prompt);
    let known = 0;
    while (known < keys.length && this.#blocks.has(keys[known] ?? "")) known += 1;
    // The last block goes in first, so that the beginnings, which more prompts share, leave last.
    for (const key of keys.toReversed()) {
      this.#blocks.delete(key);
      this.#blocks.add(key);
    }
    for (const key of this.#blocks) {
      if (this.#blocks.size <= this.#maxBlocks) break;
      this.#blocks.delete(key);
    }
    return known * prefixBlockTokens;
  }
}

function blockKeys(prompt: readonly Token[]): string[] {
  const keys: string[] = [];
  let left = 0x811c9dc5;
  let right = 0x9747b28c;
  for (let start = 0; start + prefixBlockTokens < prompt.length; start += prefixBlockTokens) {
    const block = prompt.slice(start, start + prefixBlockTokens);
    left = hashNumbers(block, left);
    right = hashNumbers(block, right);
    keys.push(`${left} ${right}`);
  }
  return keys;
}
