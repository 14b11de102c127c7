import { expect } from "chai";
import * as fc from "fast-check";
import { formatSse, formatSseComment, type SseFrame, SseFrameTooLargeError, SseSplitter } from "../../protocol/sse.ts";

type Block = readonly string[];

const lineEnd = fc.constantFrom("\n", "\r", "\r\n");
const text = fc.string({ unit: "grapheme", maxLength: 12 }).map((value) => value.replaceAll(/[\r\n]/g, ""));
const line = fc.oneof(
  text.map((value) => `data: ${value}`),
  text.map((value) => `data:${value}`),
  fc.constant("data"),
  text.map((value) => `: ${value}`),
  text.map((value) => `:${value}`),
  text.map((value) => `event: ${value}`),
  text.map((value) => `id: ${value}`),
  fc.constant("retry: 10"),
  text.map((value) => `unknown: ${value}`),
);
const block = fc.array(line, { minLength: 1, maxLength: 4 });

/** The text of blocks where each line end is drawn anew. */
function join(blocks: readonly Block[], ends: readonly string[]): Buffer {
  let next = 0;
  let out = "";
  const end = (): string => {
    const value = ends[next % ends.length] ?? "\n";
    next += 1;
    return value;
  };
  for (const lines of blocks) {
    for (const one of lines) out += one + end();
    // LF after CR would be one line end together: the blank line needs an end that cannot join the one before.
    const blank = end();
    out += out.endsWith("\r") && blank.startsWith("\n") ? "\r\n" : blank;
  }
  return Buffer.from(out);
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const pieces: Buffer[] = [];
  let from = 0;
  for (const place of [...places, bytes.length]) {
    pieces.push(bytes.subarray(from, place));
    from = place;
  }
  return pieces;
}

function run(pieces: readonly Buffer[]): { frames: SseFrame[]; rest: Buffer } {
  const splitter = new SseSplitter();
  const frames = pieces.flatMap((piece) => splitter.push(piece));
  return { frames, rest: splitter.end() };
}

function meaning(frames: readonly SseFrame[]) {
  return frames
    .filter((frame) => !frame.isBlank)
    .map(({ data, event, comments, hasControlFields }) => ({ data, event, comments, hasControlFields }));
}

/** What the WHATWG rules say of one block, from its lines. */
function expected(lines: Block) {
  const values = (field: string): string[] =>
    lines
      .filter((one) => one === field || one.startsWith(`${field}:`))
      .map((one) => one.slice(field.length + 1).replace(/^ /, ""));
  const data = values("data");
  return {
    data: data.length === 0 ? undefined : data.join("\n"),
    event: values("event").at(-1),
    comments: lines.filter((one) => one.startsWith(":")).map((one) => one.slice(1).replace(/^ /, "")),
    hasControlFields: values("id").length + values("retry").length > 0,
  };
}

describe("SseSplitter", () => {
  const stream = fc.record({
    blocks: fc.array(block, { maxLength: 6 }),
    ends: fc.array(lineEnd, { minLength: 1, maxLength: 5 }),
    cuts: fc.array(fc.nat(), { maxLength: 12 }),
    mark: fc.boolean(),
  });

  it("gives the same blocks however the bytes are split and whichever line ends are used", () => {
    fc.assert(
      fc.property(stream, ({ blocks, ends, cuts, mark }) => {
        const bytes = Buffer.concat([mark ? Buffer.from([0xef, 0xbb, 0xbf]) : Buffer.alloc(0), join(blocks, ends)]);
        const { frames } = run(split(bytes, cuts));
        expect(meaning(frames)).to.deep.equal(blocks.map(expected));
      }),
      { numRuns: 500 },
    );
  });

  it("loses no byte: raw blocks and the rest concatenate to the input, whatever the input is", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc
        .array(fc.constantFrom(10, 13, 0xef, 0xbb, 0xbf, 58, 100), { maxLength: 60 })
        .map((list) => Uint8Array.from(list)),
    );
    fc.assert(
      fc.property(bytes, fc.array(fc.nat(), { maxLength: 12 }), (array, cuts) => {
        const input = Buffer.from(array);
        const { frames, rest } = run(split(input, cuts));
        expect(Buffer.concat([...frames.map((frame) => frame.raw), rest]).equals(input)).to.equal(true);
      }),
      { numRuns: 1000 },
    );
  });

  it("keeps the blocks that it gave out unchanged while it goes on reading", () => {
    fc.assert(
      fc.property(stream, ({ blocks, ends, cuts }) => {
        const splitter = new SseSplitter();
        const seen: { frame: SseFrame; copy: Buffer }[] = [];
        for (const piece of split(join(blocks, ends), cuts)) {
          for (const frame of splitter.push(piece)) seen.push({ frame, copy: Buffer.from(frame.raw) });
        }
        for (const { frame, copy } of seen) expect(frame.raw.equals(copy)).to.equal(true);
      }),
    );
  });

  it("hands a block over with its blank line's CR, without waiting for an LF that may never come", () => {
    const splitter = new SseSplitter();
    expect(splitter.push(Buffer.from("data: a\r\n\r")).map((frame) => frame.data)).to.deep.equal(["a"]);
    expect(splitter.push(Buffer.from("\ndata: b\r\n\r\n")).map((frame) => frame.data)).to.deep.equal([undefined, "b"]);
    expect(splitter.end().length).to.equal(0);
  });

  it("does not take a byte order mark in the middle of a stream for its start", () => {
    const { frames } = run([Buffer.from("data: a\n\n\ufeffdata: b\n\n")]);
    expect(meaning(frames).map((frame) => frame.data)).to.deep.equal(["a", undefined]);
  });

  it("keeps a character whole when it is split across packets", () => {
    const bytes = Buffer.from("data: 🦙é\n\n");
    const { frames } = run([...bytes].map((byte) => Buffer.from([byte])));
    expect(frames.map((frame) => frame.data)).to.deep.equal(["🦙é"]);
  });

  it("refuses a block over the bound however it arrives, and takes one at the bound", () => {
    const bytes = Buffer.from(`data: ${"x".repeat(92)}\n\n`);
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 5 }), (cuts) => {
        const pieces = split(bytes, cuts);
        const exact = new SseSplitter(bytes.length);
        expect(pieces.flatMap((piece) => exact.push(piece))).to.have.length(1);
        const tight = new SseSplitter(bytes.length - 1);
        expect(() => {
          for (const piece of pieces) tight.push(piece);
        }).to.throw(SseFrameTooLargeError);
      }),
    );
  });

  it("holds an unfinished block back and gives it at the end, so that a cut stream is noticed", () => {
    const splitter = new SseSplitter();
    expect(splitter.push(Buffer.from("data: a\n\ndata: b\n"))).to.have.length(1);
    expect(splitter.pendingBytes).to.equal(8);
    expect(splitter.end().toString()).to.equal("data: b\n");
    expect(splitter.pendingBytes).to.equal(0);
  });

  it("takes a 300 kB line byte by byte, and 200,000 line ends at once, without quadratic work", () => {
    const long = Buffer.from(`data: ${"y".repeat(300_000)}\n\n`);
    const splitter = new SseSplitter();
    let frames = 0;
    for (let at = 0; at < long.length; at += 1) frames += splitter.push(long.subarray(at, at + 1)).length;
    expect(frames).to.equal(1);
    expect(new SseSplitter().push(Buffer.from("\r".repeat(200_000)))).to.have.length(200_000);
    expect(new SseSplitter().push(Buffer.from("d\r".repeat(200_000)))).to.have.length(0);
  }).timeout(5_000);
});

describe("formatSse and formatSseComment", () => {
  it("write what the splitter reads back, so no text can break out of its block", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), fc.constantFrom(undefined, "status"), (data, event) => {
        const { frames, rest } = run([Buffer.from(formatSse(event === undefined ? { data } : { event, data }))]);
        expect(rest.length).to.equal(0);
        expect(frames).to.have.length(1);
        expect(frames[0]?.data).to.equal(data.replaceAll(/\r\n|\r/g, "\n"));
        expect(frames[0]?.event).to.equal(event);
      }),
    );
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), (comment) => {
        const { frames } = run([Buffer.from(formatSseComment(comment))]);
        expect(frames).to.have.length(1);
        expect(frames[0]?.data).to.equal(undefined);
        expect(frames[0]?.comments).to.deep.equal([comment.replaceAll(/[\r\n]+/g, " ")]);
      }),
    );
  });
});
