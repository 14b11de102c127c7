/**
 * The GGUF container, version 3, little-endian: metadata, a table of tensors, then their data.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */

/** A metadata value with its type on disk. Strings may be given as bytes, as tokens are not always UTF-8. */
export type GgufValue =
  | { readonly type: "uint32"; readonly value: number }
  | { readonly type: "float32"; readonly value: number }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] }
  | { readonly type: "int32s"; readonly value: readonly number[] }
  | { readonly type: "float32s"; readonly value: readonly number[] };

/** A matrix or vector. `shape[0]` is the length of a row, as ggml counts. */
export interface GgufTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint16Array;
}

const alignment = 32;
const magic = 0x46554747;
const version = 3;
const typeCodes = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;
const tensorCodes = { float32: 0, float16: 1 } as const;

/** The file's bytes: the same input gives the same bytes. Float32 data is stored as F32, Uint16 data as F16 (`toFloat16`). */
export function writeGguf(metadata: Readonly<Record<string, GgufValue>>, tensors: readonly GgufTensor[]): Buffer {
  const entries = Object.entries(metadata);
  const header = [uint32(magic), uint32(version), uint64(tensors.length), uint64(entries.length)];
  for (const [key, value] of entries) header.push(string(key), metadataValue(value));
  let offset = 0;
  for (const tensor of tensors) {
    header.push(string(tensor.name), uint32(tensor.shape.length), ...tensor.shape.map(uint64));
    header.push(
      uint32(tensor.data instanceof Float32Array ? tensorCodes.float32 : tensorCodes.float16),
      uint64(offset),
    );
    offset += aligned(tensor.data.byteLength);
  }
  const parts = [padded(Buffer.concat(header))];
  for (const { data } of tensors) parts.push(padded(Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
  return Buffer.concat(parts);
}

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** The bits of the nearest IEEE half. Numbers beyond its range are clamped, those too small for a normal half become 0. */
export function toFloat16(value: number): number {
  float[0] = value;
  const bits = floatBits[0] ?? 0;
  const sign = (bits >>> 16) & 0x8000;
  const rounded = (bits & 0x7fffffff) + 0x1000;
  const exponent = (rounded >>> 23) - 127 + 15;
  if (exponent >= 31) return sign | 0x7bff;
  if (exponent <= 0) return sign;
  return sign | (exponent << 10) | ((rounded >>> 13) & 0x3ff);
}

function metadataValue(entry: GgufValue): Buffer {
  switch (entry.type) {
    case "uint32":
      return Buffer.concat([uint32(typeCodes.uint32), uint32(entry.value)]);
    case "float32":
      return Buffer.concat([uint32(typeCodes.float32), float32(entry.value)]);
    case "bool":
      return Buffer.concat([uint32(typeCodes.bool), Buffer.of(entry.value ? 1 : 0)]);
    case "string":
      return Buffer.concat([uint32(typeCodes.string), string(entry.value)]);
    case "strings":
      return array(typeCodes.string, entry.value.map(string));
    case "int32s":
      return array(typeCodes.int32, entry.value.map(int32));
    case "float32s":
      return array(typeCodes.float32, entry.value.map(float32));
  }
}

function array(typeCode: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([uint32(typeCodes.array), uint32(typeCode), uint64(items.length), ...items]);
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text, "utf8");
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function float32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function aligned(length: number): number {
  return Math.ceil(length / alignment) * alignment;
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes], aligned(bytes.length));
}
