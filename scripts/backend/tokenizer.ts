import { firstByteToken, type Token, vocabulary } from "./vocabulary.ts";

/**
 * Longest match over bytes: from each position the longest token that fits is taken. The same rule as the RWKV tokenizer, which the
 * model file declares, so llama.cpp cuts a text into the same tokens.
 */
export interface Tokenizer {
  /** Tokens of any text; never throws. Takes time and memory linear in the text. */
  encode(text: string): Token[];
  /** The text of tokens. Control tokens have none. Bytes that are no UTF-8 become U+FFFD. */
  decode(tokens: readonly Token[]): string;
  /** Turns tokens into text one by one; a character that spans tokens comes out with its last one. */
  decoder(): TokenDecoder;
}

export interface TokenDecoder {
  /** The text that the token completes, perhaps empty. */
  push(token: Token): string;
  /** What is left when no token follows. */
  end(): string;
}

/** One row of 256 child indices per node of the prefix tree; 0 = no child. */
interface PrefixTree {
  readonly children: Int32Array;
  /** Token that ends at the node, or -1. */
  readonly tokens: Int32Array;
}

/** The tokenizer of both embedded engines. */
export const tokenizer: Tokenizer = createTokenizer();

function createTokenizer(): Tokenizer {
  const tree = buildTree();
  return {
    encode: (text) => encodeBytes(tree, Buffer.from(text, "utf8")),
    decode(tokens) {
      const decoder = createDecoder();
      return tokens.map((token) => decoder.push(token)).join("") + decoder.end();
    },
    decoder: createDecoder,
  };
}

function buildTree(): PrefixTree {
  const capacity = vocabulary.reduce((sum, entry) => sum + entry.bytes.length, 1);
  const children = new Int32Array(capacity * 256);
  const tokens = new Int32Array(capacity).fill(-1);
  let nodes = 1;
  for (const [token, entry] of vocabulary.entries()) {
    if (entry.kind === "control" || entry.kind === "unused") continue;
    let node = 0;
    for (const byte of entry.bytes) {
      const slot = node * 256 + byte;
      if (children[slot] === 0) {
        children[slot] = nodes;
        nodes += 1;
      }
      node = children[slot] ?? 0;
    }
    tokens[node] = token;
  }
  return { children, tokens };
}

function encodeBytes(tree: PrefixTree, bytes: Uint8Array): Token[] {
  const found: Token[] = [];
  let position = 0;
  while (position < bytes.length) {
    let node = 0;
    let best = firstByteToken + (bytes[position] ?? 0);
    let bestEnd = position + 1;
    for (let end = position; end < bytes.length; ) {
      node = tree.children[node * 256 + (bytes[end] ?? 0)] ?? 0;
      if (node === 0) break;
      end += 1;
      const token = tree.tokens[node] ?? -1;
      if (token !== -1) {
        best = token;
        bestEnd = end;
      }
    }
    found.push(best);
    position = bestEnd;
  }
  return found;
}

function createDecoder(): TokenDecoder {
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  return {
    push(token) {
      const entry = vocabulary[token];
      if (entry === undefined || entry.kind === "control" || entry.kind === "unused") return "";
      return utf8.decode(entry.bytes, { stream: true });
    },
    end: () => utf8.decode(),
  };
}
