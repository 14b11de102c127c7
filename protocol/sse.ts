/** Content type of every stream that we send. */
export const sseContentType = "text/event-stream; charset=utf-8";

const lineFeed = 10;
const carriageReturn = 13;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const empty: Buffer = Buffer.alloc(0);

/** One block of an SSE stream: the lines up to and with the blank line. */
export interface SseFrame {
  /**
   * The bytes exactly as received, blank line included. The raw bytes of all blocks, then `end()`, concatenate to the input, so a
   * proxy may forward and hash them. A leading byte order mark is part of the first block's bytes and of no field.
   */
  readonly raw: Buffer;
  /** `data` lines joined with LF; undefined when the block has none. */
  readonly data: string | undefined;
  /** Last `event` field; undefined when the block has none. */
  readonly event: string | undefined;
  /** Comment lines without the colon and one leading space. */
  readonly comments: readonly string[];
  /** True when the block has an `id` or `retry` field, which must not reach OpenAI clients. */
  readonly hasControlFields: boolean;
  /** True for a block without any line: a surplus line end between blocks. */
  readonly isBlank: boolean;
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
 * be split anywhere. It works on bytes, so a character that is split across packets is never damaged. Time and memory are linear in
 * the input however it is split: the peer may be hostile.
 */
export class SseSplitter {
  readonly #maxFrameBytes: number;
  /** Received bytes that belong to the unfinished block: a window of `#storage`. */
  #pending: Buffer = empty;
  /** Buffer of our own with room behind `#pending`; bytes once written are never changed, as blocks given out share them. */
  #storage: Buffer = empty;
  /** Offset of `#pending` in `#storage`; undefined while `#pending` is a window of the caller's chunk. */
  #offset: number | undefined;
  /** Where in `#pending` the search for line ends goes on. */
  #scan = 0;
  /** Where in `#pending` the current line starts. */
  #lineStart = 0;
  /** The last byte taken was a CR, so an LF that follows belongs to the same line end. */
  #skipLineFeed = false;
  #atStart = true;
  /** Bytes at the start of the next block that are a byte order mark. */
  #markBytes = 0;

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
    this.#append(chunk);
    if (this.#atStart) {
      if (this.#pending.length < 3 && byteOrderMark.subarray(0, this.#pending.length).equals(this.#pending)) return [];
      if (this.#pending.subarray(0, 3).equals(byteOrderMark)) {
        this.#scan = 3;
        this.#lineStart = 3;
        this.#markBytes = 3;
      }
      this.#atStart = false;
    }
    const frames: SseFrame[] = [];
    const lineEnds = new LineEnds(this.#pending);
    // Blocks are cut from one buffer by offset: moving the window for each would make many small blocks quadratic.
    let start = 0;
    for (;;) {
      const end = this.#nextBlockEnd(lineEnds, start);
      if (end === undefined) break;
      if (end - start > this.#maxFrameBytes) throw new SseFrameTooLargeError(this.#maxFrameBytes);
      frames.push(parseFrame(this.#pending.subarray(start, end), this.#markBytes));
      this.#markBytes = 0;
      start = end;
    }
    this.#drop(start);
    if (this.#pending.length > this.#maxFrameBytes) throw new SseFrameTooLargeError(this.#maxFrameBytes);
    return frames;
  }

  /** The stream ended: returns what was left without its blank line (the WHATWG rules discard it; a proxy must know of it). */
  end(): Buffer {
    const rest = this.#pending;
    this.#drop(rest.length);
    return rest;
  }

  #append(chunk: Uint8Array): void {
    const held = this.#pending.length;
    if (held === 0) {
      this.#pending = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      this.#offset = undefined;
      return;
    }
    const needed = held + chunk.byteLength;
    if (this.#offset === undefined || this.#offset + needed > this.#storage.length) {
      this.#storage = Buffer.allocUnsafe(needed * 2);
      this.#pending.copy(this.#storage, 0);
      this.#offset = 0;
    }
    this.#storage.set(chunk, this.#offset + held);
    this.#pending = this.#storage.subarray(this.#offset, this.#offset + needed);
  }

  #drop(bytes: number): void {
    this.#pending = this.#pending.subarray(bytes);
    this.#scan -= bytes;
    this.#lineStart -= bytes;
    if (this.#pending.length === 0) {
      this.#pending = empty;
      this.#storage = empty;
      this.#offset = undefined;
      this.#scan = 0;
      this.#lineStart = 0;
    } else if (this.#offset !== undefined) {
      this.#offset += bytes;
    }
  }

  /** Offset just after the blank line of the first complete block at or after `start`, if there is one. */
  #nextBlockEnd(lineEnds: LineEnds, start: number): number | undefined {
    const bytes = this.#pending;
    while (this.#scan < bytes.length) {
      const byte = bytes[this.#scan];
      if (this.#skipLineFeed) {
        this.#skipLineFeed = false;
        if (byte === lineFeed) {
          this.#scan += 1;
          this.#lineStart = this.#scan;
          // The blank line's CR came, and ended its block, in an earlier chunk: its LF is a block of its own.
          if (this.#scan === start + 1) return this.#scan;
          continue;
        }
      }
      if (byte !== lineFeed && byte !== carriageReturn) {
        this.#scan = lineEnds.from(this.#scan);
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

/** Finds line ends in one buffer from growing offsets, looking at each byte a bounded number of times. */
class LineEnds {
  readonly #bytes: Buffer;
  #nextLineFeed = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Offset of the first CR or LF at or after `offset`, or the buffer's length. */
  from(offset: number): number {
    if (this.#nextLineFeed < offset) {
      const found = this.#bytes.indexOf(lineFeed, offset);
      this.#nextLineFeed = found === -1 ? this.#bytes.length : found;
    }
    const found = this.#bytes.subarray(offset, this.#nextLineFeed).indexOf(carriageReturn);
    return found === -1 ? this.#nextLineFeed : offset + found;
  }
}

function parseFrame(raw: Buffer, start: number): SseFrame {
  let data: string | undefined;
  let event: string | undefined;
  let hasControlFields = false;
  let isBlank = true;
  const comments: string[] = [];
  for (const line of raw.toString("utf8", start).split(/\r\n|\n|\r/)) {
    if (line === "") continue;
    isBlank = false;
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
  return { raw, data, event, comments, hasControlFields, isBlank };
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
