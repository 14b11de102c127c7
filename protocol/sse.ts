/** Content type of every stream that we send. */
export const sseContentType = "text/event-stream; charset=utf-8";

const lineFeed = 10;
const carriageReturn = 13;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** One dispatched block of an SSE stream: the lines up to and with the blank line. */
export interface SseFrame {
  /** The bytes exactly as received, blank line included. */
  readonly raw: Buffer;
  /** `data` lines joined with LF; undefined when the block has none. */
  readonly data: string | undefined;
  /** Last `event` field; undefined when the block has none. */
  readonly event: string | undefined;
  /** Comment lines without the colon and one leading space. */
  readonly comments: readonly string[];
  /** True when the block has an `id` or `retry` field, which must not reach OpenAI clients. */
  readonly hasControlFields: boolean;
}

/** Thrown when a block grows past the splitter's bound. */
export class SseFrameTooLargeError extends Error {
  override readonly name = "SseFrameTooLargeError";
  readonly limitBytes: number;

  constructor(limitBytes: number) {
    super(`an SSE frame is longer than ${limitBytes} bytes`);
    this.limitBytes = limitBytes;
  }
}

/**
 * Cuts a byte stream into SSE blocks by the rules of the WHATWG: lines end with LF, CR or CRLF, blocks with an empty line, bytes may
 * be split anywhere. It works on bytes, so a character that is split across packets is never damaged.
 */
export class SseSplitter {
  readonly #maxFrameBytes: number;
  /** Received bytes that belong to the unfinished block. */
  #pending: Buffer = Buffer.alloc(0);
  /** Where in `#pending` the search for line ends goes on. */
  #scan = 0;
  /** Where in `#pending` the current line starts. */
  #lineStart = 0;
  /** The last byte taken was a CR, so an LF that follows belongs to the same line end. */
  #skipLineFeed = false;
  #atStart = true;

  /** @param maxFrameBytes Bound of one block in bytes. */
  constructor(maxFrameBytes = 4 * 1024 * 1024) {
    this.#maxFrameBytes = maxFrameBytes;
  }

  /** Bytes held back for an unfinished block. */
  get pendingBytes(): number {
    return this.#pending.length;
  }

  /** Takes the next bytes and returns the blocks that they complete. Throws `SseFrameTooLargeError`. */
  push(chunk: Uint8Array): SseFrame[] {
    const incoming = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this.#pending = this.#pending.length === 0 ? incoming : Buffer.concat([this.#pending, incoming]);
    if (this.#atStart) {
      if (this.#pending.length < 3 && byteOrderMark.subarray(0, this.#pending.length).equals(this.#pending)) return [];
      if (this.#pending.subarray(0, 3).equals(byteOrderMark)) this.#pending = this.#pending.subarray(3);
      this.#atStart = false;
    }
    const frames: SseFrame[] = [];
    for (;;) {
      const end = this.#nextBlockEnd();
      if (end === undefined) break;
      const raw = this.#pending.subarray(0, end);
      this.#pending = this.#pending.subarray(end);
      this.#scan = 0;
      this.#lineStart = 0;
      const frame = parseFrame(raw);
      if (frame !== undefined) frames.push(frame);
    }
    if (this.#pending.length > this.#maxFrameBytes) throw new SseFrameTooLargeError(this.#maxFrameBytes);
    return frames;
  }

  /** The stream ended: returns what was left without its blank line (the WHATWG rules discard it; a proxy must know of it). */
  end(): Buffer {
    const rest = this.#pending;
    this.#pending = Buffer.alloc(0);
    this.#scan = 0;
    this.#lineStart = 0;
    return rest;
  }

  /** Offset just after the blank line of the first complete block, if there is one. */
  #nextBlockEnd(): number | undefined {
    const bytes = this.#pending;
    while (this.#scan < bytes.length) {
      const byte = bytes[this.#scan];
      if (this.#skipLineFeed) {
        this.#skipLineFeed = false;
        if (byte === lineFeed) {
          this.#scan += 1;
          this.#lineStart = this.#scan;
          continue;
        }
      }
      if (byte !== lineFeed && byte !== carriageReturn) {
        this.#scan = nextLineEnd(bytes, this.#scan);
        continue;
      }
      const blank = this.#scan === this.#lineStart;
      this.#scan += 1;
      if (byte === carriageReturn) {
        if (this.#scan < bytes.length && bytes[this.#scan] === lineFeed) this.#scan += 1;
        else if (this.#scan === bytes.length) this.#skipLineFeed = true;
      }
      this.#lineStart = this.#scan;
      if (blank) return this.#scan;
    }
    return undefined;
  }
}

function nextLineEnd(bytes: Buffer, from: number): number {
  const lf = bytes.indexOf(lineFeed, from);
  const until = lf === -1 ? bytes.length : lf;
  const cr = bytes.subarray(from, until).indexOf(carriageReturn);
  return cr === -1 ? until : from + cr;
}

function parseFrame(raw: Buffer): SseFrame | undefined {
  const text = raw.toString("utf8");
  let data: string | undefined;
  let event: string | undefined;
  let hasControlFields = false;
  const comments: string[] = [];
  let sawField = false;
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line === "") continue;
    sawField = true;
    const colon = line.indexOf(":");
    if (colon === 0) {
      comments.push(line.charCodeAt(1) === 32 ? line.slice(2) : line.slice(1));
      continue;
    }
    const field = colon === -1 ? line : line.slice(0, colon);
    const afterColon = colon === -1 ? "" : line.slice(colon + 1);
    const value = afterColon.charCodeAt(0) === 32 ? afterColon.slice(1) : afterColon;
    if (field === "data") data = data === undefined ? value : `${data}\n${value}`;
    else if (field === "event") event = value;
    else if (field === "id" || field === "retry") hasControlFields = true;
  }
  if (!sawField) return undefined;
  return { raw, data, event, comments, hasControlFields };
}

/** An SSE block with optional event name; every line of `data` becomes its own `data:` line. */
export function formatSse(frame: { readonly event?: string; readonly data: string }): string {
  const name = frame.event === undefined ? "" : `event: ${frame.event}\n`;
  const lines = frame.data.split(/\r\n|\n|\r/).map((line) => `data: ${line}\n`);
  return `${name}${lines.join("")}\n`;
}

/** An SSE comment block; line ends inside the text become spaces. */
export function formatSseComment(text: string): string {
  return `: ${text.replaceAll(/[\r\n]+/g, " ")}\n\n`;
}
