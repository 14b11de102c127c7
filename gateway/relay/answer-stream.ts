import type { Hex } from "viem";
import { BodyHasher } from "../../protocol/body-hash.ts";
import { type SseFrame, SseFrameTooLargeError, SseSplitter } from "../../protocol/sse.ts";
import type { Usage } from "../../protocol/usage.ts";
import { decodeDelivered, usageCommentPrefix, type UsageStatementWire } from "../../protocol/wire.ts";
import type { CompletionKind } from "../openai/completion-request.ts";
import { isObject, type JsonObject } from "../openai/field-types.ts";
import { readUsage } from "./read-usage.ts";
import { ToolCallIndexer } from "./tool-call-indexer.ts";
import { skipSpace } from "../openai/json-spans.ts";
import { setMember } from "./set-member.ts";

/** What is wrong with a provider's stream. `kind` is a bounded word; `message` is the backend's own text, not yet fit for clients. */
export interface StreamFault {
  readonly kind: "error_object" | "malformed" | "too_large" | "cut";
  readonly message?: string;
  /** The error object itself, not yet fit for clients. */
  readonly error?: JsonObject;
}

/** What became of the bytes that were pushed. */
export interface StreamStep {
  /** Bytes for the client, in order. */
  readonly output: readonly Buffer[];
  readonly fault?: StreamFault;
}

/** What was seen of an answer so far. */
export interface StreamObservation {
  /** The first content was passed on: from here on no other provider can take over. */
  readonly started: boolean;
  /** `[DONE]` was passed on: the client's answer is complete. */
  readonly done: boolean;
  /** Blocks with content. */
  readonly contentFrames: number;
  /** About the bytes of content in them: their length beyond the shortest of them. */
  readonly contentBytes: number;
  /** Usage as the backend reported it in the stream. */
  readonly usage: Usage | undefined;
  readonly statement: UsageStatementWire | undefined;
}

/** Options of `AnswerStream`. */
export interface AnswerStreamOptions {
  readonly kind: CompletionKind;
  /** Choices whose end makes the answer whole. */
  readonly choices: number;
  /** The client asked for the usage chunk. */
  readonly includeUsage: boolean;
  /** Id that inert chunks already carried: real chunks get the same one. undefined: ids pass unchanged. */
  readonly id: string | undefined;
  /** Name of the model that serves a request which named none. Absent: the backend's own name for it passes unchanged. */
  readonly model?: string;
  readonly maxFrameBytes?: number;
}

const maxHeldBytes = 256 * 1024;
const doneFrame = Buffer.from("data: [DONE]\n\n");

/**
 * Turns a provider's SSE bytes into what the client gets, without I/O. Blocks pass byte for byte; only what would break an OpenAI
 * client is taken out or mended: `id` and `retry` fields, comments, event names, the usage chunk that the client did not ask for, a
 * tool call without its index; and a client that named no model is told one that it can ask for. Blocks before the first content are held back, so that an early error can still lead to another
 * provider.
 */
export class AnswerStream {
  readonly #options: AnswerStreamOptions;
  readonly #splitter: SseSplitter;
  readonly #hasher = new BodyHasher();
  readonly #indexer = new ToolCallIndexer();
  readonly #finished = new Set<number>();
  #held: Buffer[] = [];
  #heldBytes = 0;
  #started = false;
  #done = false;
  #faulty = false;
  #contentFrames = 0;
  #dataBytes = 0;
  #shortest = Number.MAX_SAFE_INTEGER;
  #usage: Usage | undefined;
  #statement: UsageStatementWire | undefined;

  constructor(options: AnswerStreamOptions) {
    this.#options = options;
    this.#splitter = new SseSplitter(options.maxFrameBytes);
  }

  /** `[DONE]` was passed on. */
  get done(): boolean {
    return this.#done;
  }

  get observation(): StreamObservation {
    return {
      started: this.#started,
      done: this.#done,
      contentFrames: this.#contentFrames,
      contentBytes:
        this.#contentFrames === 0 ? 0 : this.#dataBytes - this.#contentFrames * this.#shortest + this.#contentFrames,
      usage: this.#usage,
      statement: this.#statement,
    };
  }

  /** Takes the next bytes of the provider. After a fault nothing is passed on any more. */
  push(chunk: Buffer): StreamStep {
    const output = new Output();
    try {
      for (const frame of this.#splitter.push(chunk)) {
        const fault = this.#take(frame, output);
        if (fault !== undefined) return { output: output.buffers, fault };
      }
    } catch (error) {
      if (!(error instanceof SseFrameTooLargeError)) throw error;
      this.#faulty = true;
      return { output: output.buffers, fault: { kind: "too_large" } };
    }
    return { output: output.buffers };
  }

  /** The provider's stream ended cleanly. A stream that ends before its answer is whole was cut. */
  end(): StreamStep {
    const output = new Output();
    const rest = this.#splitter.end();
    if (rest.length > 0) this.#hasher.update(rest);
    if (this.#done || this.#faulty) return { output: [] };
    if (rest.toString("latin1").trim() === "data: [DONE]") this.#passDone(output, doneFrame);
    // Some backends end with the last finish_reason and no [DONE].
    else if (rest.length === 0 && this.#finished.size >= this.#options.choices) this.#passDone(output, doneFrame);
    else return { output: [], fault: { kind: "cut" } };
    return { output: output.buffers };
  }

  /** Hash of all that the provider sent but its usage statement. Ends the stream. */
  responseHash(): Hex {
    return this.#hasher.digest();
  }

  #take(frame: SseFrame, output: Output): StreamFault | undefined {
    const statement = statementOf(frame);
    if (statement !== undefined) {
      this.#statement = statement.value;
      return undefined;
    }
    this.#hasher.update(frame.raw);
    if (this.#done || this.#faulty) return undefined;
    const { data } = frame;
    if (data === undefined) return undefined;
    const fault = this.#takeData(frame, data, output);
    if (fault !== undefined) this.#faulty = true;
    return fault;
  }

  #takeData(frame: SseFrame, data: string, output: Output): StreamFault | undefined {
    if (data.trimStart().startsWith("[DONE]")) {
      if (!this.#started && this.#contentFrames === 0 && this.#held.length === 0) return { kind: "malformed" };
      this.#passDone(output, isPlain(frame) ? frame.raw : doneFrame);
      return undefined;
    }
    if (data.trim() === "") return undefined;
    if (!data.trimStart().startsWith("{") || !data.trimEnd().endsWith("}")) return { kind: "malformed" };
    let text = data;
    if (this.#needsParsing(frame, data)) {
      let chunk: unknown;
      try {
        chunk = JSON.parse(data);
      } catch {
        return { kind: "malformed" };
      }
      if (!isObject(chunk)) return { kind: "malformed" };
      const error = errorOf(frame, chunk);
      if (error !== undefined) return error;
      const usage = readUsage(chunk.usage);
      if (usage !== undefined) this.#usage = usage;
      const choices = Array.isArray(chunk.choices) ? (chunk.choices as unknown[]) : undefined;
      if (choices === undefined) return { kind: "malformed" };
      this.#noteFinished(choices);
      if (choices.length === 0 && usage !== undefined && !this.#options.includeUsage) return undefined;
      if (data.includes('"tool_calls"')) text = this.#indexer.mend(data, chunk);
      if (!this.#started && hasContent(choices, this.#options.kind)) this.#start(output);
    }
    const { id, model } = this.#options;
    if (id !== undefined) text = setMember(text, "id", id);
    if (model !== undefined) text = setMember(text, "model", model);
    const bytes = text === data && isPlain(frame) ? frame.raw : Buffer.from(dataFrame(text));
    if (this.#started) {
      this.#contentFrames += 1;
      this.#dataBytes += data.length;
      if (data.length < this.#shortest) this.#shortest = data.length;
      output.add(bytes);
      return undefined;
    }
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    // A stream of inert blocks without end is no answer either; but it is no reason to fail: from here it passes.
    if (this.#heldBytes > maxHeldBytes) this.#start(output);
    return undefined;
  }

  /** Cheap looks at the text before the expensive one: most blocks hold one token and nothing that concerns us. */
  #needsParsing(frame: SseFrame, data: string): boolean {
    if (!this.#started || frame.event !== undefined) return true;
    return (
      data.includes('"error"') ||
      data.includes('"tool_calls"') ||
      valueOpens(data, '"finish_reason"', '"') ||
      valueOpens(data, '"usage"', "{")
    );
  }

  #start(output: Output): void {
    this.#started = true;
    for (const bytes of this.#held) output.add(bytes);
    this.#held = [];
  }

  #passDone(output: Output, bytes: Buffer): void {
    this.#start(output);
    this.#done = true;
    output.add(bytes);
  }

  #noteFinished(choices: readonly unknown[]): void {
    for (const choice of choices) {
      if (!isObject(choice) || typeof choice.finish_reason !== "string") continue;
      this.#finished.add(typeof choice.index === "number" ? choice.index : 0);
    }
  }
}

/** Joins neighbours in memory, so that blocks that pass unchanged leave in one write. */
class Output {
  readonly buffers: Buffer[] = [];

  add(bytes: Buffer): void {
    const last = this.buffers.at(-1);
    if (last !== undefined && last.buffer === bytes.buffer && last.byteOffset + last.byteLength === bytes.byteOffset) {
      this.buffers[this.buffers.length - 1] = Buffer.from(
        last.buffer,
        last.byteOffset,
        last.byteLength + bytes.byteLength,
      );
    } else {
      this.buffers.push(bytes);
    }
  }
}

/** The statement comment of a block; `value` is undefined when it is malformed. */
function statementOf(frame: SseFrame): { readonly value: UsageStatementWire | undefined } | undefined {
  if (frame.data !== undefined) return undefined;
  const comment = frame.comments.find((text) => text.startsWith(usageCommentPrefix));
  return comment === undefined ? undefined : { value: decodeDelivered(comment.slice(usageCommentPrefix.length)) };
}

/** One `data` line, one blank line, LF only, and nothing else: it can pass as it is. */
function isPlain(frame: SseFrame): boolean {
  const { raw } = frame;
  return (
    frame.event === undefined &&
    !frame.hasControlFields &&
    frame.comments.length === 0 &&
    raw[0] === 0x64 &&
    raw.indexOf(0x0a) === raw.length - 2 &&
    raw.indexOf(0x0d) === -1
  );
}

function dataFrame(data: string): string {
  return `data: ${data.replaceAll("\n", "\ndata: ")}\n\n`;
}

/** Whether the value after a key opens with a character, without parsing. Inside JSON strings quotes are escaped, so a key cannot be faked. */
function valueOpens(text: string, key: string, opening: string): boolean {
  for (let at = text.indexOf(key); at !== -1; at = text.indexOf(key, at + key.length)) {
    const colon = skipSpace(text, at + key.length);
    if (text[colon] === ":" && text[skipSpace(text, colon + 1)] === opening) return true;
  }
  return false;
}

function errorOf(frame: SseFrame, chunk: JsonObject): StreamFault | undefined {
  const { error } = chunk;
  if (frame.event !== "error" && (error === undefined || error === null || error === false)) {
    return chunk.object === "error" ? errorFault(chunk) : undefined;
  }
  return errorFault(isObject(error) ? error : { message: error ?? chunk.message });
}

function errorFault(error: JsonObject): StreamFault {
  const { message } = error;
  return { kind: "error_object", error, ...(typeof message === "string" ? { message } : {}) };
}

/** A choice says something when anything beside its role is there, or when it is over. */
function hasContent(choices: readonly unknown[], kind: CompletionKind): boolean {
  return choices.some((choice) => {
    if (!isObject(choice)) return false;
    if (typeof choice.finish_reason === "string") return true;
    if (kind === "text") return choice.text !== "" && choice.text !== undefined && choice.text !== null;
    const { delta } = choice;
    if (!isObject(delta)) return false;
    return Object.entries(delta).some(
      ([key, value]) => key !== "role" && value !== null && value !== "" && !isEmptyArray(value),
    );
  });
}

function isEmptyArray(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
