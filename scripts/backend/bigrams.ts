import { corpus } from "./corpus.ts";
import { tokenizer } from "./tokenizer.ts";
import { answerToken, endToken, paragraphToken, type Token, vocabulary } from "./vocabulary.ts";

/** What may follow, in the order of first use; never empty. */
export interface Successors {
  readonly tokens: readonly Token[];
  /** How often the corpus has each of `tokens` at the place. */
  readonly counts: readonly number[];
  /** Sum of `counts`. */
  readonly total: number;
}

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
const atStart = afterOne.get(answerToken) ?? { tokens: [endToken], counts: [1], total: 1 };

/** What follows a token; a token that the corpus does not go on from is followed by what begins a paragraph. */
export function successorsOfOne(token: Token): Successors {
  return afterOne.get(token) ?? atStart;
}

/** What follows two tokens; undefined for a pair that the corpus does not have. */
export function successorsOfTwo(before: Token, token: Token): Successors | undefined {
  return afterTwo.get(contextKey([before, token]));
}

/** One number for the last tokens. */
function contextKey(tokens: readonly Token[]): number {
  return tokens.reduce((key, token) => key * vocabulary.length + token, 0);
}

function countSuccessors(length: number): ReadonlyMap<number, Successors> {
  const counts = new Map<number, Map<Token, number>>();
  for (const sequence of sequences) {
    for (let end = length; end < sequence.length; end += 1) {
      const next = sequence[end] ?? endToken;
      const key = contextKey(sequence.slice(end - length, end));
      const row = counts.get(key) ?? new Map<Token, number>();
      row.set(next, (row.get(next) ?? 0) + 1);
      counts.set(key, row);
    }
  }
  return new Map([...counts].map(([key, row]) => [key, freeze(row)]));
}

function freeze(row: ReadonlyMap<Token, number>): Successors {
  const counts = [...row.values()];
  return { tokens: [...row.keys()], counts, total: counts.reduce((sum, count) => sum + count, 0) };
}
