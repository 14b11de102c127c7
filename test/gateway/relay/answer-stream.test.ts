import { expect } from "chai";
import fc from "fast-check";
import { AnswerStream, type AnswerStreamOptions, type StreamFault } from "../../../gateway/relay/answer-stream.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { chunkData, frame } from "../../support/upstream-scripts.ts";

const role = frame(chunkData({ role: "assistant", content: "" }));
const hello = frame(chunkData({ content: "Hello" }));
const stop = frame(chunkData({}, "stop"));
const usageOnly = frame(JSON.stringify({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } }));
const done = frame("[DONE]");
const statement = `: t4t-usage ${JSON.stringify({ inputTokens: 7, outputTokens: 3, responseHash: `0x${"ab".repeat(32)}`, signature: "0x1234" })}\n\n`;

interface Outcome {
  readonly text: string;
  readonly fault: StreamFault | undefined;
  readonly stream: AnswerStream;
}

/** Relays a text, cut into pieces at the given offsets. */
function relay(
  text: string | Buffer,
  options: Partial<AnswerStreamOptions> = {},
  cuts: readonly number[] = [],
): Outcome {
  const stream = new AnswerStream({ kind: "chat", choices: 1, includeUsage: false, id: undefined, ...options });
  const bytes = Buffer.from(text);
  const edges = [
    0,
    ...[...new Set(cuts)].filter((cut) => cut > 0 && cut < bytes.length).toSorted((a, b) => a - b),
    bytes.length,
  ];
  const output: Buffer[] = [];
  let fault: StreamFault | undefined;
  for (const [index, from] of edges.slice(0, -1).entries()) {
    // A copy: pieces of a socket do not lie beside each other.
    const step = stream.push(Buffer.from(bytes.subarray(from, edges[index + 1])));
    output.push(...step.output.map((piece) => Buffer.from(piece)));
    fault ??= step.fault;
    if (fault !== undefined) break;
  }
  if (fault === undefined) {
    const step = stream.end();
    output.push(...step.output);
    fault = step.fault;
  }
  return { text: Buffer.concat(output).toString("utf8"), fault, stream };
}

describe("the relay of a stream", () => {
  it("passes blocks byte for byte, unknown fields, spacing and big numbers included", () => {
    const odd =
      'data:{ "choices" : [ {"index":0,"delta":{"content":"x"},"logprobs":null} ] , "vendor": 12345678901234567890 }\n\n';
    const { text, fault } = relay(odd + stop + done);
    expect(fault).to.equal(undefined);
    expect(text).to.equal(odd + stop + done);
  });

  it("gives the same bytes, facts and hash however the stream is cut into packets", () => {
    const body = `${role}: comment\n\nid: 7\n${hello}${frame(chunkData({ content: "é€😀" }))}retry: 5\r\n\r\n${stop}${usageOnly}${done}${statement}`;
    const whole = relay(body);
    const hash = whole.stream.responseHash();
    expect(hash).to.equal(bodyHash(body.replace(statement, "")));
    fc.assert(
      fc.property(fc.array(fc.nat(Buffer.byteLength(body)), { maxLength: 40 }), (cuts) => {
        const split = relay(body, {}, cuts);
        expect(split.text).to.equal(whole.text);
        expect(split.fault).to.equal(undefined);
        expect(split.stream.observation.usage).to.deep.equal({ inputTokens: 7, outputTokens: 3 });
        expect(split.stream.observation.statement?.outputTokens).to.equal(3);
        expect(split.stream.responseHash()).to.equal(hash);
      }),
    );
  });

  it("takes out what breaks OpenAI clients: id, retry, comments, event names, a byte order mark", () => {
    const body = `\uFEFFid: 1\nretry: 3\n${role}: still here\n\nevent: message\n${hello}:x\n\nretry: 10\n\n${stop}${done}`;
    const { text, fault } = relay(body);
    expect(fault).to.equal(undefined);
    expect(text).to.not.match(/^(id|retry|event|:)/m);
    expect(text).to.not.include("\uFEFF");
    expect(text.match(/data: /g)).to.have.length(4);
  });

  it("drops the usage chunk for a client that did not ask, and keeps it for one that did", () => {
    expect(relay(role + hello + stop + usageOnly + done).text).to.not.include("prompt_tokens");
    expect(relay(role + hello + stop + usageOnly + done, { includeUsage: true }).text).to.include("prompt_tokens");
  });

  it("keeps usage that rides on a chunk with choices, for everybody", () => {
    const last = frame(chunkData({}, "stop", { usage: { prompt_tokens: 7, completion_tokens: 3 } }));
    const { text, stream } = relay(hello + last + done);
    expect(text).to.equal(hello + last + done);
    expect(stream.observation.usage).to.deep.equal({ inputTokens: 7, outputTokens: 3 });
  });

  it("reads no usage out of the text of an answer", () => {
    const trap = frame(
      chunkData({
        content: '"usage":{"prompt_tokens":1,"completion_tokens":1},"error":{"message":"x"},"finish_reason":"stop"',
      }),
    );
    const { stream, fault, text } = relay(hello + trap + stop + done);
    expect(fault).to.equal(undefined);
    expect(text).to.equal(hello + trap + stop + done);
    expect(stream.observation.usage).to.equal(undefined);
  });

  it("hides the provider's statement from the client and from the hash", () => {
    const { text, stream } = relay(hello + stop + done + statement);
    expect(text).to.equal(hello + stop + done);
    expect(stream.responseHash()).to.equal(bodyHash(hello + stop + done));
  });

  it("holds the role back until there is content, so that an early error can still be cured elsewhere", () => {
    const stream = new AnswerStream({ kind: "chat", choices: 1, includeUsage: false, id: undefined });
    expect(stream.push(Buffer.from(role)).output).to.have.length(0);
    expect(stream.observation.started).to.equal(false);
    const step = stream.push(Buffer.from(hello));
    expect(Buffer.concat(step.output).toString()).to.equal(role + hello);
    expect(stream.observation.started).to.equal(true);
  });

  for (const [what, body] of [
    ["reasoning", frame(chunkData({ reasoning_content: "hm" }))],
    ["a refusal", frame(chunkData({ refusal: "no" }))],
    ["a tool call", frame(chunkData({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: "" } }] }))],
    ["an end without content", stop],
  ] as const) {
    it(`takes ${what} for content`, () => {
      const stream = new AnswerStream({ kind: "chat", choices: 1, includeUsage: false, id: undefined });
      stream.push(Buffer.from(role));
      stream.push(Buffer.from(body));
      expect(stream.observation.started).to.equal(true);
    });
  }

  it("joins blocks that pass unchanged into one write", () => {
    const stream = new AnswerStream({ kind: "chat", choices: 1, includeUsage: false, id: undefined });
    stream.push(Buffer.from(hello));
    expect(stream.push(Buffer.from(hello + hello + hello)).output).to.have.length(1);
  });

  it("gives real chunks the id that inert ones carried, and changes nothing else of them", () => {
    const odd =
      'data: {"a":1.0, "id" : "chatcmpl-x","choices":[{"index":0,"delta":{"content":"\\u00e9","id":"inner"}}]}\n\n';
    const { text } = relay(odd + stop + done, { id: "ours" });
    expect(text).to.include(
      'data: {"a":1.0, "id" : "ours","choices":[{"index":0,"delta":{"content":"\\u00e9","id":"inner"}}]}\n\n',
    );
  });

  it("names the model that serves a client which named none, in every chunk, and leaves a chunk without a name as it is", () => {
    const named = `data: {"model" : "backend.gguf","choices":[{"index":0,"delta":{"content":"Hi \\"model\\":\\"x\\""}}]}\n\n`;
    const nameless = frame('{"choices":[{"index":0,"delta":{"content":"!"}}]}');
    const { text } = relay(role + named + nameless + stop + done, { model: "market/model" });
    expect(text).to.equal(
      role.replace('"scripted"', '"market/model"') +
        named.replace('"backend.gguf"', '"market/model"') +
        nameless +
        stop.replace('"scripted"', '"market/model"') +
        done,
    );
  });

  for (const [what, body, kind] of [
    ["an error object before any content", role + frame('{"error":{"message":"m","code":"c"}}'), "error_object"],
    ["an error object after content", hello + frame('{"error":{"message":"m"}}'), "error_object"],
    ["an error as a bare string", hello + frame('{"error":"out of memory"}'), "error_object"],
    ["an error object by another name", hello + frame('{"object":"error","message":"m"}'), "error_object"],
    ["an event called error", `${hello}event: error\ndata: {"message":"m"}\n\n`, "error_object"],
    ["data that is no JSON", hello + frame("{not json"), "malformed"],
    ["HTML", frame("<html>"), "malformed"],
    ["a chunk without choices", frame('{"hello":1}'), "malformed"],
    ["nothing but [DONE]", done, "malformed"],
    ["an end without [DONE] and finish_reason", role + hello, "cut"],
    ["an end in the middle of a block", `${hello}data: {"cho`, "cut"],
    ["nothing at all", "", "cut"],
  ] as const) {
    it(`sees through ${what}`, () => {
      expect(relay(body).fault?.kind).to.equal(kind);
    });
  }

  it("passes nothing on after a fault", () => {
    const stream = new AnswerStream({ kind: "chat", choices: 1, includeUsage: false, id: undefined });
    stream.push(Buffer.from(hello + frame('{"error":{"message":"m"}}')));
    expect(stream.push(Buffer.from(hello + done)).output).to.have.length(0);
  });

  it("ends an answer that has all its finish reasons with the [DONE] that its backend forgot", () => {
    expect(relay(hello + stop).text).to.equal(`${hello}${stop}data: [DONE]\n\n`);
    expect(relay(hello + stop, { choices: 2 }).fault?.kind, "the second choice is missing").to.equal("cut");
    const second = frame(JSON.stringify({ choices: [{ index: 1, delta: {}, finish_reason: "stop" }] }));
    expect(relay(hello + stop + second, { choices: 2 }).fault).to.equal(undefined);
  });

  it("takes a [DONE] without its blank line", () => {
    expect(relay(`${hello}${stop}data: [DONE]`).text).to.match(/data: \[DONE\]\n\n$/);
  });

  it("refuses a block without end instead of filling memory with it", () => {
    expect(relay(`data: {"x":"${"x".repeat(5000)}`, { maxFrameBytes: 4096 }).fault?.kind).to.equal("too_large");
  });

  it("gives tool calls without an index a stable one, per choice, and leaves the rest of the chunk alone", () => {
    const calls = [
      '{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]}}],"big":12345678901234567890}',
      '{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}',
      '{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":""}},{"id":"a","function":{"arguments":"}"}}]}}]}',
      '{"choices":[{"index":1,"delta":{"tool_calls":[{"index":null,"id":"c","function":{"name":"h","arguments":""}}]}}]}',
      '{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}',
    ];
    const { text, fault } = relay(calls.map((data) => frame(data)).join("") + stop + done);
    expect(fault).to.equal(undefined);
    const indexes = [...text.matchAll(/"index":(\d+),?"?(?:id|function)?/g)].length;
    expect(indexes).to.be.greaterThan(5);
    const deltas = text
      .split("\n\n")
      .filter((line) => line.includes("tool_calls"))
      .map(
        (line) =>
          JSON.parse(line.slice("data: ".length)) as { choices: { delta: { tool_calls: { index: number }[] } }[] },
      )
      .map(({ choices }) => choices[0]?.delta.tool_calls.map(({ index }) => index));
    expect(deltas).to.deep.equal([[0], [0], [1, 0], [0], [0]]);
    expect(text).to.include('"big":12345678901234567890');
  });
});
