import { setImmediate as nextTurn } from "node:timers/promises";
import type { Random } from "../../protocol/clock.ts";
import { successorsOfOne, successorsOfTwo, type Successors } from "./bigrams.ts";
import type { Engine, GenerationRequest } from "./engine.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { hashNumbers, seededRandom } from "./seeded-random.ts";
import { answerToken, beginToken, endToken, paragraphToken, type Token } from "./vocabulary.ts";

export interface TextEngineOptions {
  /** Tokens of prompt and answer together; 32,768 by default. */
  readonly contextLength?: number;
  /** Answers at the same time; unbounded by default. */
  readonly parallel?: number;
  /** Blocks of 16 tokens of the prefix cache; 4,096 by default, 0 = no cache. */
  readonly cacheBlocks?: number;
}

/** Share of tokens drawn by the last token alone: without it, the text would repeat whole paragraphs of the corpus. */
const wanderShare = 0.2;
/** Tokens written before other work of the process gets its turn. */
const tokensPerTurn = 32;

/**
 * A model of two-word memory that needs no library: readable English, the same text for the same prompt and seed (at temperature 0 for
 * the same prompt, whatever the seed). It has no pace of its own; the server delays tokens.
 */
export function createTextEngine(options: TextEngineOptions = {}): Engine {
  const cache = new PrefixCache(options.cacheBlocks ?? 4096);
  return {
    name: "text",
    contextLength: options.contextLength ?? 32_768,
    parallel: options.parallel ?? Number.MAX_SAFE_INTEGER,
    generate: (request) => write(cache, request),
    close: () => Promise.resolve(),
  };
}

async function* write(cache: PrefixCache, request: GenerationRequest): AsyncGenerator<Token, void, void> {
  const { prompt, signal } = request;
  signal.throwIfAborted();
  request.onPrompt(cache.read(prompt));
  const random = seededRandom(hashNumbers(prompt, request.temperature === 0 ? 0 : request.seed));
  let before = prompt.at(-2) ?? beginToken;
  let last = prompt.at(-1) ?? beginToken;
  for (let written = 0; written < request.maxTokens; written += 1) {
    if (written % tokensPerTurn === tokensPerTurn - 1) await nextTurn();
    signal.throwIfAborted();
    const next = draw(before, last, random);
    if (next !== endToken) {
      yield next;
      before = last;
      last = next;
    } else if (written >= request.minTokens) {
      return;
    } else {
      yield paragraphToken;
      before = beginToken;
      last = answerToken;
    }
  }
}

function draw(before: Token, last: Token, random: Random): Token {
  const wander = random() < wanderShare;
  const pair = wander ? undefined : successorsOfTwo(before, last);
  return pick(pair ?? successorsOfOne(last), random);
}

/** A token with the probability of its count. */
function pick({ tokens, counts, total }: Successors, random: Random): Token {
  let left = random() * total;
  let index = 0;
  while (index < tokens.length - 1) {
    left -= counts[index] ?? 0;
    if (left < 0) break;
    index += 1;
  }
  return tokens[index] ?? endToken;
}
