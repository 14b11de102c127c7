import { chunk, close, end, hang, head, raw, reset, type Script } from "./scripted-upstream.ts";

const eventStream = { "content-type": "text/event-stream" };
const json = { "content-type": "application/json" };

/** Facts that the frames of one answer share. */
const chunkHead = {
  id: "chatcmpl-scripted",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "scripted",
};
const scriptedUsage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };

/** The text of the well-behaved scripts. */
export const scriptedText = "One two three";

/** Data of a chunk with one choice, and whatever else is given. */
export function chunkData(delta: unknown, finishReason: string | null = null, extra: object = {}): string {
  return JSON.stringify({ ...chunkHead, choices: [{ index: 0, delta, finish_reason: finishReason }], ...extra });
}

/** An SSE block with one data line. */
export function frame(data: string, lineEnd = "\n"): string {
  return `data: ${data}${lineEnd}${lineEnd}`;
}

const roleFrame = frame(chunkData({ role: "assistant", content: "" }));
const textFrames = ["One", " two", " three"].map((content) => frame(chunkData({ content })));
const finishFrame = frame(chunkData({}, "stop"));
const usageFrame = frame(JSON.stringify({ ...chunkHead, choices: [], usage: scriptedUsage }));
const doneFrame = frame("[DONE]");
const wholeStream = [roleFrame, ...textFrames, finishFrame, usageFrame, doneFrame].join("");

/** A stream with these bytes as its body. */
export function stream(body: string | Uint8Array, cuts: readonly number[] = []): Script {
  return [head(200, eventStream), chunk(body, cuts), end];
}

/** An answer in one piece with the right length. */
export function answer(status: number, headers: Readonly<Record<string, string>>, body: string): Script {
  return [head(status, { ...headers, "content-length": String(Buffer.byteLength(body)) }), raw(body)];
}

export function jsonAnswer(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Script {
  return answer(status, { ...json, ...headers }, JSON.stringify(body));
}

/** An error as OpenAI words it. */
export function errorAnswer(status: number, code: string, headers: Readonly<Record<string, string>> = {}): Script {
  return jsonAnswer(status, { error: { message: `scripted ${code}`, type: "api_error", param: null, code } }, headers);
}

/** A whole answer that is not streamed. */
export const goodJson: Script = jsonAnswer(200, {
  ...chunkHead,
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: scriptedText }, finish_reason: "stop" }],
  usage: scriptedUsage,
});

function everyOffset(text: string): number[] {
  return Array.from({ length: Buffer.byteLength(text) - 1 }, (_, index) => index + 1);
}

/** Streams that are odd but legal: a client must get `scriptedText` and, but for the last, the usage 7 + 3. */
export const oddStreams = {
  plain: stream(wholeStream),
  "a packet for every frame": [
    head(200, eventStream),
    ...[roleFrame, ...textFrames, finishFrame, usageFrame, doneFrame].map((text) => chunk(text)),
    end,
  ],
  "a packet for every byte": stream(wholeStream, everyOffset(wholeStream)),
  "CRLF line ends": stream(wholeStream.replaceAll("\n", "\r\n")),
  "CR line ends": stream(wholeStream.replaceAll("\n", "\r")),
  "CRLF cut between its bytes": stream(
    wholeStream.replaceAll("\n", "\r\n"),
    [...wholeStream.replaceAll("\n", "\r\n").matchAll(/\r/g)].map(({ index }) => index + 1),
  ),
  "no space after data:": stream(wholeStream.replaceAll("data: ", "data:")),
  "a byte order mark": stream(`\uFEFF${wholeStream}`),
  "comments between frames": stream(wholeStream.replaceAll("data: ", ": still here\n\ndata: ")),
  "several data lines": stream(wholeStream.replaceAll('"choices":', '\ndata: "choices":')),
  "retry and id fields": stream(`retry: 10\n\n${wholeStream.replaceAll("data: ", "id: 4\nretry: 3\ndata: ")}`),
  "unknown fields": stream(wholeStream.replaceAll('"choices":', '"provider":"x","reasoning_content":null,"choices":')),
  "usage that rides on a chunk with choices": stream(
    [roleFrame, ...textFrames, frame(chunkData({}, "stop", { usage: scriptedUsage })), doneFrame].join(""),
  ),
  "bytes after [DONE]": stream(`${wholeStream}: bye\n\n`),
  "a body that ends with the connection": [
    raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"),
    raw(wholeStream),
    close,
  ],
  "no usage at all": stream([roleFrame, ...textFrames, finishFrame, doneFrame].join("")),
} as const satisfies Record<string, Script>;

/** Faults before the first byte of an answer: another provider can take the request. */
export const earlyFaults = {
  "a reset connection": [reset],
  "a closed connection": [close],
  "half a status line": [raw("HTTP/1.1 20"), reset],
  "headers and a reset": [head(200, eventStream), reset],
  "no answer": [hang],
  "headers and then nothing": [head(200, eventStream), hang],
  "no HTTP": [raw("SSH-2.0-OpenSSH_9.2\r\n"), close],
  "status 500": errorAnswer(500, "internal_error"),
  "status 502 with HTML": answer(502, { "content-type": "text/html" }, "<html><h1>502 Bad Gateway</h1></html>"),
  "status 503 with Retry-After": errorAnswer(503, "server_is_overloaded", { "retry-after": "1" }),
  "status 429": errorAnswer(429, "rate_limit_exceeded", { "retry-after": "1" }),
  "status 204": [raw("HTTP/1.1 204 No Content\r\n\r\n")],
  "HTML with status 200": [
    head(200, { "content-type": "text/html; charset=utf-8" }),
    chunk("<!doctype html><title>Welcome</title><script>alert(1)</script>"),
    end,
  ],
  "a redirect to a metadata address": [
    head(302, { location: "http://169.254.169.254/latest/meta-data/", "content-length": "0" }),
  ],
  "a permanent redirect": [head(308, { location: "http://127.0.0.1:1/v1/chat/completions", "content-length": "0" })],
  "an error object inside a 200": stream(
    frame(JSON.stringify({ error: { message: "scripted", type: "server_error", param: null, code: "model_crashed" } })),
  ),
  "JSON that is none": [head(200, json), chunk('{"id": "chatcmpl-'), end],
  "an empty stream": [head(200, eventStream), end],
  "only [DONE]": stream(doneFrame),
  "a header of 100 kB": [head(200, { ...eventStream, "x-long": "a".repeat(100_000) }), chunk(wholeStream), end],
  "a wrong content length": [head(200, { ...json, "content-length": "5000" }), raw('{"choices":[]}'), close],
} as const satisfies Record<string, Script>;

/** Faults after the first token: the client must be told, and never be left with a silent end. */
export const lateFaults = {
  "a reset in the middle": [head(200, eventStream), chunk(roleFrame + (textFrames[0] ?? "")), reset],
  "half a chunk and a reset": [
    head(200, eventStream),
    chunk(roleFrame + (textFrames[0] ?? "")),
    raw("ff\r\ndata: {"),
    reset,
  ],
  "half a frame and an orderly end": [
    head(200, eventStream),
    chunk(`${roleFrame}${textFrames[0] ?? ""}data: {"id"`),
    end,
  ],
  "an end without [DONE] and finish": [head(200, eventStream), chunk(roleFrame + (textFrames[0] ?? "")), end],
  "an error object in the middle": stream(
    `${roleFrame}${textFrames[0] ?? ""}${frame(JSON.stringify({ error: { message: "scripted", code: "model_crashed" } }))}`,
  ),
  "a frame that is no JSON": stream(`${roleFrame}${textFrames[0] ?? ""}${frame("{not json")}${doneFrame}`),
  silence: [head(200, eventStream), chunk(roleFrame + (textFrames[0] ?? "")), hang],
} as const satisfies Record<string, Script>;

/** One line of so many bytes, in packets of 16 kB: tool calls and images come like that. */
export function longLine(bytes: number): Script {
  const body = [roleFrame, frame(chunkData({ content: "x".repeat(bytes) })), finishFrame, usageFrame, doneFrame].join(
    "",
  );
  const cuts = Array.from({ length: Math.floor((body.length - 1) / 16_384) }, (_, index) => (index + 1) * 16_384);
  return stream(body, cuts);
}

/** A stream that never ends its line. Plays until the client leaves. */
export function endlessLine(bytes: number): Script {
  return [head(200, eventStream), chunk(`data: {"choices":[{"delta":{"content":"${"x".repeat(bytes)}`), hang];
}

/** A text with characters of 2 to 4 bytes, each byte in a packet of its own. */
export function splitCharacters(text: string): Script {
  const body = [roleFrame, frame(chunkData({ content: text })), finishFrame, usageFrame, doneFrame].join("");
  return stream(body, everyOffset(body));
}

/** Tool calls in the given deltas, then a finish for them. */
export function toolCalls(deltas: readonly unknown[]): Script {
  const frames = deltas.map((delta) => frame(chunkData({ tool_calls: [delta] })));
  return stream([roleFrame, ...frames, frame(chunkData({}, "tool_calls")), usageFrame, doneFrame].join(""));
}
