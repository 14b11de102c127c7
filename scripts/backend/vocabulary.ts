import { corpus } from "./corpus.ts";

/** A token of the embedded models: its index in `vocabulary`. */
export type Token = number;

/** Ends an answer. */
export const endToken: Token = 0;
/** Begins every prompt. */
export const beginToken: Token = 1;
/** Closes the prompt of a chat: the answer starts after it. */
export const answerToken: Token = 2;
/** Token of byte 0; byte b is `firstByteToken + b`. */
export const firstByteToken: Token = 3;

const fragmentCount = 128;
/** Rows of the model file are padded to a multiple of this, which keeps the arithmetic of the CPU aligned. */
const alignment = 64;

/** How a token is used. Only `byte` and `text` stand for text. */
export type TokenKind = "control" | "byte" | "text" | "unused";

export interface VocabularyEntry {
  readonly kind: TokenKind;
  /**
   * What the token stands for. Control and unused tokens have bytes that no UTF-8 text contains, so that no prompt can smuggle one in.
   */
  readonly bytes: Uint8Array;
}

const paragraphBreak = "\n\n";

/**
 * The words of a text with the space before them, its punctuation and its paragraph breaks. A piece that starts with a letter always
 * follows something that is no letter, so joining pieces and cutting the result again gives the same pieces.
 */
export function splitPieces(text: string): string[] {
  return text.match(/ ?[A-Za-z]+|\n+|[^A-Za-z\s]+|\s/g) ?? [];
}

/**
 * Every token that there is: control tokens, the 256 bytes (so that any text can be written), the corpus' words in the order of their
 * first use, frequent letter groups (so that other words cost fewer tokens than letters), padding.
 */
export const vocabulary: readonly VocabularyEntry[] = buildVocabulary();

/** Parts two paragraphs. */
export const paragraphToken: Token = vocabulary.findIndex(({ kind, bytes }) => kind === "text" && bytes[0] === 10);

function buildVocabulary(): readonly VocabularyEntry[] {
  const entries: VocabularyEntry[] = [reserved("control", 0), reserved("control", 1), reserved("control", 2)];
  for (let byte = 0; byte < 256; byte += 1) entries.push({ kind: "byte", bytes: Uint8Array.of(byte) });
  const words = new Set(corpus.flatMap((paragraph) => splitPieces(paragraph)).filter((piece) => piece.length > 1));
  words.add(paragraphBreak);
  for (const role of ["system", "user", "assistant", "tool", "developer"]) words.add(role);
  const texts = [...words, ...frequentFragments(words)];
  for (const text of texts) entries.push({ kind: "text", bytes: Buffer.from(text, "utf8") });
  while (entries.length % alignment !== 0) entries.push(reserved("unused", entries.length));
  return Object.freeze(entries);
}

/** Bytes 0xff and 0xfe never occur in UTF-8. */
function reserved(kind: "control" | "unused", number: number): VocabularyEntry {
  return { kind, bytes: Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from(String(number), "ascii")]) };
}

/** Groups of 2 to 4 letters, with or without a space before them, by the letters that they save in the list of words. */
function frequentFragments(words: ReadonlySet<string>): string[] {
  const savings = new Map<string, number>();
  for (const word of words) {
    for (let start = 0; start < word.length; start += 1) {
      for (let length = 2; length <= 4 && start + length <= word.length; length += 1) {
        const fragment = word.slice(start, start + length);
        if (/^ ?[A-Za-z]+$/.test(fragment) && !words.has(fragment)) {
          savings.set(fragment, (savings.get(fragment) ?? 0) + length - 1);
        }
      }
    }
  }
  return [...savings.entries()]
    .toSorted(([a, left], [b, right]) => right - left || (a < b ? -1 : 1))
    .slice(0, fragmentCount)
    .map(([fragment]) => fragment);
}
