import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { successorsOfOne } from "./bigrams.ts";
import { type GgufTensor, type GgufValue, toFloat16, writeGguf } from "./gguf-writer.ts";
import { beginToken, endToken, vocabulary } from "./vocabulary.ts";

/** Tokens of prompt and answer together that the model file declares. */
export const ggufContextLength = 32_768;

const width = vocabulary.length;
const headWidth = 8;
const feedForwardWidth = 32;
const epsilon = 1e-6;
/** Logit of a token that the corpus never has at the place: out of reach at every temperature up to 2. */
const impossible = -64;

/**
 * The model file: a llama of one layer whose attention and feed-forward weights are zero, so that the residual stream still holds the
 * one-hot embedding of the last token when it meets the output matrix. Column i of that matrix holds the logarithms of the corpus'
 * bigram probabilities after token i. Plain llama.cpp runs it: real tokenizer, real batches, real cache, about 3 MB.
 */
export function buildGguf(): Buffer {
  return writeGguf(metadata(), tensors());
}

/**
 * Puts the model file into a folder, which is made if need be, and returns its path. A file that is there and whole is left alone;
 * several processes may do this at once.
 */
export async function ensureGguf(folder: string): Promise<string> {
  const bytes = buildGguf();
  const digest = createHash("sha256").update(bytes).digest("hex");
  const path = join(folder, `bigram-${digest.slice(0, 12)}.gguf`);
  const present = await readFile(path).catch(() => undefined);
  if (present?.equals(bytes) === true) return path;
  await mkdir(folder, { recursive: true });
  const unfinished = `${path}.${randomUUID()}`;
  await writeFile(unfinished, bytes);
  await rename(unfinished, path);
  return path;
}

function metadata(): Record<string, GgufValue> {
  return {
    "general.architecture": { type: "string", value: "llama" },
    "general.name": { type: "string", value: "T4T bigram" },
    "general.file_type": { type: "uint32", value: 1 },
    "llama.block_count": { type: "uint32", value: 1 },
    "llama.context_length": { type: "uint32", value: ggufContextLength },
    "llama.embedding_length": { type: "uint32", value: width },
    "llama.feed_forward_length": { type: "uint32", value: feedForwardWidth },
    "llama.vocab_size": { type: "uint32", value: width },
    "llama.attention.head_count": { type: "uint32", value: 1 },
    "llama.attention.head_count_kv": { type: "uint32", value: 1 },
    "llama.attention.key_length": { type: "uint32", value: headWidth },
    "llama.attention.value_length": { type: "uint32", value: headWidth },
    "llama.attention.layer_norm_rms_epsilon": { type: "float32", value: epsilon },
    "llama.rope.dimension_count": { type: "uint32", value: headWidth },
    "tokenizer.ggml.model": { type: "string", value: "rwkv" },
    "tokenizer.ggml.tokens": { type: "strings", value: vocabulary.map(({ bytes }) => escapeToken(bytes)) },
    "tokenizer.ggml.token_type": { type: "int32s", value: vocabulary.map(({ kind }) => tokenTypes[kind]) },
    "tokenizer.ggml.bos_token_id": { type: "uint32", value: beginToken },
    "tokenizer.ggml.eos_token_id": { type: "uint32", value: endToken },
    "tokenizer.ggml.add_bos_token": { type: "bool", value: false },
  };
}

/** llama.cpp's `LLAMA_TOKEN_TYPE_*`. A byte is declared as text: only the SPM tokenizer gives byte tokens a meaning of their own. */
const tokenTypes = { text: 1, byte: 1, control: 3, unused: 5 } as const;

function tensors(): GgufTensor[] {
  return [
    { name: "token_embd.weight", shape: [width, width], data: oneHotRows() },
    { name: "output.weight", shape: [width, width], data: outputMatrix() },
    { name: "output_norm.weight", shape: [width], data: new Float32Array(width).fill(unitNorm()) },
    { name: "blk.0.attn_norm.weight", shape: [width], data: new Float32Array(width).fill(1) },
    zeros("blk.0.attn_q.weight", width, headWidth),
    zeros("blk.0.attn_k.weight", width, headWidth),
    zeros("blk.0.attn_v.weight", width, headWidth),
    zeros("blk.0.attn_output.weight", headWidth, width),
    { name: "blk.0.ffn_norm.weight", shape: [width], data: new Float32Array(width).fill(1) },
    zeros("blk.0.ffn_gate.weight", width, feedForwardWidth),
    zeros("blk.0.ffn_up.weight", width, feedForwardWidth),
    zeros("blk.0.ffn_down.weight", feedForwardWidth, width),
  ];
}

function zeros(name: string, rowLength: number, rows: number): GgufTensor {
  return { name, shape: [rowLength, rows], data: new Uint16Array(rowLength * rows) };
}

function oneHotRows(): Uint16Array {
  const rows = new Uint16Array(width * width);
  for (let token = 0; token < width; token += 1) rows[token * width + token] = toFloat16(1);
  return rows;
}

/** Undoes the RMS norm of a one-hot vector, so that its one is a one again. */
function unitNorm(): number {
  return Math.sqrt(1 / width + epsilon);
}

/** Row = next token, column = token before it. */
function outputMatrix(): Uint16Array {
  const matrix = new Uint16Array(width * width).fill(toFloat16(impossible));
  for (let token = 0; token < width; token += 1) {
    const { tokens, counts, total } = successorsOfOne(token);
    for (const [index, next] of tokens.entries()) {
      matrix[next * width + token] = toFloat16(Math.log((counts[index] ?? 0) / total));
    }
  }
  return matrix;
}

/** The spelling of a token in an RWKV vocabulary: printable ASCII as it is, the rest as `\xHH`. */
function escapeToken(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    const printable = byte >= 0x20 && byte < 0x7f && byte !== 0x5c;
    text += printable ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  }
  return text;
}
