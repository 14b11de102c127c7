import { once } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { text as readText } from "node:stream/consumers";
import { expect } from "chai";
import { SseSplitter } from "../../protocol/sse.ts";
import {
  type ChooseScript,
  chunk,
  end,
  hang,
  head,
  hold,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "./scripted-upstream.ts";
import {
  earlyFaults,
  goodJson,
  lateFaults,
  longLine,
  oddStreams,
  scriptedText,
  splitCharacters,
  stream,
  toolCalls,
} from "./upstream-scripts.ts";

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
  readonly usage?: { readonly total_tokens: number };
}

/** Posts to the upstream; rejects when the connection ends before the headers. */
async function post(upstream: ScriptedUpstream, body = "{}", agent: Agent | false = false): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = httpRequest(`${upstream.url}/v1/chat/completions`, { method: "POST", agent }, resolve);
  request.on("error", reject);
  request.end(body);
  return promise;
}

/** Text and total tokens of a stream, read by the rules of SSE. */
function read(bytes: string | Buffer): { text: string; total: number | undefined } {
  let text = "";
  let total: number | undefined;
  for (const { data } of new SseSplitter().push(Buffer.from(bytes))) {
    if (data === undefined || data === "[DONE]") continue;
    const parsed = JSON.parse(data) as Chunk;
    text += parsed.choices[0]?.delta.content ?? "";
    total = parsed.usage?.total_tokens ?? total;
  }
  return { text, total };
}

describe("the scripted upstream", () => {
  let upstream: ScriptedUpstream;
  const started: ScriptedUpstream[] = [];
  const start = async (answer: Script | ChooseScript): Promise<ScriptedUpstream> => {
    const next = await startScriptedUpstream(answer);
    started.push(next);
    return next;
  };
  afterEach(async () => {
    await Promise.all(started.splice(0).map((one) => one.close()));
  });

  for (const [name, script] of Object.entries(oddStreams)) {
    it(`plays a legal stream: ${name}`, async () => {
      upstream = await start(script);
      const response = await post(upstream);
      expect(read(await readText(response))).to.deep.equal({
        text: scriptedText,
        total: name === "no usage at all" ? undefined : 10,
      });
    });
  }

  it("sends packets cut where the script says, not joined by Nagle's rule", async () => {
    const later = Promise.withResolvers<undefined>();
    upstream = await start([head(200), chunk("abcdef", [2]), hold(later.promise), chunk("gh"), end]);
    const response = await post(upstream);
    const parts: string[] = [];
    response.on("data", (part: Buffer) => {
      parts.push(part.toString());
      if (parts.join("") === "abcdef") later.resolve(undefined);
    });
    await once(response, "end");
    expect(parts).to.deep.equal(["ab", "cdef", "gh"]);
  });

  it("plays every early fault without falling over itself", async () => {
    const outcomes: Record<string, number | string> = {};
    for (const [name, script] of Object.entries(earlyFaults)) {
      upstream = await start(script);
      const answer = post(upstream);
      const ended = script.some((step) => step.kind === "hang") ? upstream.request(0).then(() => "hangs") : answer;
      const outcome = await ended.catch((error: unknown) => (error as NodeJS.ErrnoException).code ?? "error");
      outcomes[name] = typeof outcome === "string" ? outcome : (outcome.statusCode ?? 0);
      answer.catch(() => undefined);
    }
    expect(outcomes).to.include({
      "a reset connection": "ECONNRESET",
      "no answer": "hangs",
      "status 500": 500,
      "status 502 with HTML": 502,
      "a redirect to a metadata address": 302,
      "HTML with status 200": 200,
    });
  });

  for (const [name, script] of Object.entries(lateFaults)) {
    it(`shows a first token before a late fault: ${name}`, async () => {
      upstream = await start(script);
      const response = await post(upstream);
      let received = "";
      const closed = Promise.withResolvers<void>();
      response.on("error", () => undefined);
      response.on("close", () => {
        closed.resolve();
      });
      response.on("data", (part: Buffer) => {
        received += part.toString();
        if (name === "silence" && received.includes("One")) response.destroy();
      });
      await closed.promise;
      expect(received).to.include('"content":"One"').and.to.not.include(" two");
    });
  }

  it("keeps what it was sent and serves several requests on one connection", async () => {
    upstream = await start((_request, index) => (index === 0 ? goodJson : stream("data: [DONE]\n\n")));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await readText(await post(upstream, '{"a":"é"}', agent));
    await readText(await post(upstream, "{}", agent));
    agent.destroy();
    expect(upstream.requests.map(({ body, connection }) => [body, connection])).to.deep.equal([
      ['{"a":"é"}', 1],
      ["{}", 1],
    ]);
    expect(upstream.connections).to.equal(1);
  });

  it("tells when the client leaves", async () => {
    upstream = await start([head(200), chunk("x"), hang]);
    const response = await post(upstream);
    const request = await upstream.request(0);
    response.destroy();
    await request.gone;
    await request.played;
  });

  it("plays long lines, split characters and tool calls", async () => {
    const scripts = [longLine(300_000), splitCharacters("é日本🙂"), toolCalls([{ id: "a" }, { index: 0 }])];
    upstream = await start((_request, index) => scripts[index] ?? goodJson);
    expect(read(await readText(await post(upstream))).text).to.have.length(300_000);
    expect(read(await readText(await post(upstream))).text).to.equal("é日本🙂");
    expect(await readText(await post(upstream))).to.include('"finish_reason":"tool_calls"');
  });
});
