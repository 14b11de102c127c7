import { corpus } from "./corpus.ts";
import { tokenizer } from "./tokenizer.ts";
import { answerToken, endToken, paragraphToken, type Token } from "./vocabulary.ts";

/** Tokens that may follow, with how often the corpus has them there. Never empty, in the order of first use. */
export type Successors = ReadonlyMap<Token, number>;

/** The corpus as answers: each paragraph with the one after it, so that about every second paragraph ends an answer. */
const sequences: readonly (readonly Token[])[] = corpus.map((paragraph, index) => [
  answerToken,
  ...tokenizer.encode(paragraph),
  paragraphToken,
  ...tokenizer.encode(corpus[(index + 1) % corpus.length] ?? ""),
  endToken,
]);

const afterOne = countSuccessors(1);
const afterTwo = countSuccessors(2);
const atStart: Successors = afterOne.get(String(answerToken)) ?? new Map([[endToken, 1]]);

/** What follows a token; a token that the corpus does not go on from is followed by what begins a paragraph. */
export function successorsOfOne(token: Token): Successors {
  return afterOne.get(String(token)) ?? atStart;
}

/** What follows two tokens; undefined for a pair that the corpus does not have. */
export function successorsOfTwo(before: Token, token: Token): Successors | undefined {
  return afterTwo.get(`${before} ${token}`);
}

function countSuccessors(length: number): ReadonlyMap<string, Successors> {
  const counts = new Map<string, Map<Token, number>>();
  for (const sequence of sequences) {
    for (let end = length; end < sequence.length; end += 1) {
      const next = sequence[end] ?? endToken;
      const key = sequence.slice(end - length, end).join(" ");
      const row = counts.get(key) ?? new Map<Token, number>();
      row.set(next, (row.get(next) ?? 0) + 1);
      counts.set(key, row);
    }
  }
  return counts;
}
