import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { expect } from "chai";
import { completionPrompt } from "../../../scripts/backend/prompt.ts";
import { createTextEngine } from "../../../scripts/backend/text-model.ts";
import { tokenizer } from "../../../scripts/backend/tokenizer.ts";
import { SseSplitter } from "../../../protocol/sse.ts";
import { readEngineTimings } from "../../../provider/upstream/engine-timings.ts";
import { ManualClock } from "../../gateway/routing/support/manual-clock.ts";
import { until } from "../../support/until.ts";
import { chat, closeBackends, jsonOf, post, postUnread, textBackend } from "./support/backend.ts";

interface ChatAnswer {
  readonly id: string;
  readonly object: string;
  readonly choices: {
    readonly index: number;
    readonly message: { readonly content: string };
    readonly finish_reason: string;
  }[];
  readonly usage: Usage;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

interface ErrorAnswer {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** The data of every frame of a stream. */
async function framesOf(response: Response): Promise<string[]> {
  const text = Buffer.from(await response.arrayBuffer());
  return new SseSplitter().push(text).map(({ data }) => data ?? "");
}

describe("the backend server", () => {
  afterEach(closeBackends);

  describe("streams", () => {
    it("sends exactly OpenAI's frames: role, content, finish, usage, [DONE]", async () => {
      const backend = await textBackend();
      const fields = { stream: true, stream_options: { include_usage: true }, max_tokens: 2 };
      const response = await post(backend, "/v1/chat/completions", chat(fields));
      expect(response.headers.get("content-type")).to.equal("text/event-stream; charset=utf-8");
      const frames = await framesOf(response);
      expect(frames.pop()).to.equal("[DONE]");
      const chunks = frames.map((frame) => JSON.parse(frame) as Record<string, unknown>);
      const choices = chunks.map((chunk) => chunk.choices);
      expect(choices[0]).to.deep.equal([
        { index: 0, delta: { role: "assistant", content: "", refusal: null }, logprobs: null, finish_reason: null },
      ]);
      expect(choices[1]).to.have.nested.property("[0].delta.content").that.is.a("string");
      expect(choices.slice(-2)).to.deep.equal([[{ index: 0, delta: {}, logprobs: null, finish_reason: "length" }], []]);
      expect(chunks.map((chunk) => chunk.usage)).to.deep.equal([
        null,
        null,
        null,
        null,
        { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, prompt_tokens_details: { cached_tokens: 0 } },
      ]);
      expect(
        new Set(chunks.map(({ id, object, created, model }) => JSON.stringify([id, object, created, model]))).size,
      ).to.equal(1);
      expect(chunks[0]).to.include({ object: "chat.completion.chunk", model: "tiny", system_fingerprint: "t4t-text" });
    });

    it("says nothing of usage to a client that did not ask", async () => {
      const backend = await textBackend();
      const frames = await framesOf(await post(backend, "/v1/chat/completions", chat({ stream: true, max_tokens: 3 })));
      expect(frames.filter((frame) => frame.includes("usage"))).to.deep.equal([]);
    });

    it("streams the text that the same request gets in one piece, and counts its tokens exactly", async () => {
      const backend = await textBackend();
      const whole = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat({ seed: 5 })));
      const frames = await framesOf(await post(backend, "/v1/chat/completions", chat({ seed: 5, stream: true })));
      const text = frames
        .slice(0, -1)
        .map(
          (frame) =>
            (JSON.parse(frame) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? "",
        )
        .join("");
      expect(text).to.equal(whole.choices[0]?.message.content);
      expect(whole.choices[0]?.finish_reason).to.equal("stop");
      expect(whole.usage.completion_tokens).to.equal(tokenizer.encode(text).length);
      expect(whole.usage.total_tokens).to.equal(whole.usage.prompt_tokens + whole.usage.completion_tokens);
    });

    it("sends a token when it is there, not when the answer is complete", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, tokenDelayMs: 50 });
      const response = await postUnread(
        backend,
        "/v1/chat/completions",
        chat({ stream: true, max_tokens: 3, min_tokens: 3 }),
      );
      let received = "";
      response.on("data", (part: Buffer) => {
        received += part.toString();
      });
      for (let token = 1; token <= 3; token += 1) {
        await until("the next token waits for the clock", () => clock.pending.length === 1);
        expect(received.match(/"content":"[^"]/g) ?? []).to.have.length(token - 1);
        clock.advance(50);
        await until("the token arrived", () => (received.match(/"content":"[^"]/g) ?? []).length === token);
      }
    });

    it("lets a reader that does not read stop the model, and go on when it reads again", async () => {
      const model = "m".repeat(20_000);
      const backend = await textBackend({ modelIds: [model] });
      const fields = { model, stream: true, max_tokens: 4000, ignore_eos: true };
      const response = await postUnread(backend, "/v1/chat/completions", chat(fields));
      let last = -1;
      let looks = 0;
      await until("the model stands still for 50 looks", () => {
        const now = backend.stats().completionTokens;
        looks = now === last && now > 0 ? looks + 1 : 0;
        last = now;
        return looks === 50;
      });
      expect(backend.stats().completionTokens).to.be.below(2000);
      response.resume();
      await once(response, "end");
      expect(backend.stats().completionTokens).to.equal(4000);
    });

    it("numbers the choices of n answers and counts their prompt once", async () => {
      const backend = await textBackend();
      const fields = { n: 3, max_tokens: 4, min_tokens: 4 };
      const whole = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat(fields)));
      expect(whole.choices.map(({ index }) => index)).to.deep.equal([0, 1, 2]);
      expect(new Set(whole.choices.map(({ message }) => message.content)).size).to.be.above(1);
      expect(whole.usage).to.include({ prompt_tokens: 10, completion_tokens: 12 });
      const long = chat(fields, "the gateway takes a request ".repeat(20));
      const { usage } = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", long));
      expect(usage.prompt_tokens_details.cached_tokens).to.equal(0);
      const frames = await framesOf(await post(backend, "/v1/chat/completions", chat({ ...fields, stream: true })));
      const finished = frames
        .slice(0, -1)
        .map(
          (frame) => (JSON.parse(frame) as { choices: { index: number; finish_reason: string | null }[] }).choices[0],
        )
        .filter((choice) => choice?.finish_reason === "length");
      expect(finished.map((choice) => choice?.index)).to.deep.equal([0, 1, 2]);
    });
  });

  describe("timings", () => {
    interface Timed {
      readonly usage: Usage;
      readonly timings?: Readonly<Record<string, number | null>>;
    }

    it("of an answer in one piece are llama.cpp's, so that a provider node measures traffic without streams", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, promptTokenDelayMs: 2, tokenDelayMs: 5 });
      const answer = post(backend, "/v1/chat/completions", chat({ max_tokens: 3, min_tokens: 3 }));
      for (const delayMs of [20, 5, 5, 5]) {
        await until("the answer waits for the clock", () => clock.pending.length === 1);
        clock.advance(delayMs);
      }
      const { timings } = await jsonOf<Timed>(await answer);
      expect(timings).to.deep.equal({
        cache_n: 0,
        prompt_n: 10,
        prompt_ms: 25,
        prompt_per_token_ms: 2.5,
        prompt_per_second: 400,
        predicted_n: 3,
        predicted_ms: 10,
        predicted_per_token_ms: 10 / 3,
        predicted_per_second: 300,
      });
      expect(readEngineTimings(timings)).to.deep.equal({ promptTokens: 10, generatingMs: 10 });
    });

    it("leave out of the prompt what was known before", async () => {
      const backend = await textBackend();
      const prompt = chat({ max_tokens: 2 }, "the gateway takes a request ".repeat(20));
      await post(backend, "/v1/chat/completions", prompt);
      const { usage, timings } = await jsonOf<Timed>(await post(backend, "/v1/chat/completions", prompt));
      expect(timings).to.include({ cache_n: usage.prompt_tokens_details.cached_tokens });
      expect((timings?.cache_n ?? 0) + (timings?.prompt_n ?? 0)).to.equal(usage.prompt_tokens);
    });

    it("tell of one answer, so they are absent where there are several, and where a stream shows its own times", async () => {
      const backend = await textBackend();
      const several = await post(backend, "/v1/chat/completions", chat({ n: 2, max_tokens: 2 }));
      expect(await jsonOf<Timed>(several)).to.not.have.property("timings");
      const stream = await post(backend, "/v1/chat/completions", chat({ stream: true, max_tokens: 2 }));
      expect(await stream.text()).to.not.include("timings");
    });
  });

  describe("limits and stops", () => {
    it("takes max_completion_tokens over max_tokens", async () => {
      const backend = await textBackend();
      const fields = { max_tokens: 50, max_completion_tokens: 3, min_tokens: 3 };
      const { usage, choices } = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat(fields)));
      expect(usage.completion_tokens).to.equal(3);
      expect(choices[0]?.finish_reason).to.equal("length");
    });

    it("ends before a stop text and says stop", async () => {
      const backend = await textBackend();
      const whole = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat({ seed: 2 })));
      const text = whole.choices[0]?.message.content ?? "";
      for (const stop of [".", [text.slice(6, 9), "zzz"]]) {
        const stopped = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat({ seed: 2, stop })));
        const first = typeof stop === "string" ? stop : (stop[0] ?? "");
        expect(stopped.choices[0]).to.include({ finish_reason: "stop" });
        expect(stopped.choices[0]?.message.content).to.equal(text.slice(0, text.indexOf(first)));
        expect(stopped.usage.completion_tokens).to.be.below(whole.usage.completion_tokens);
      }
    });

    it("fills what is left of the context when max_tokens asks for more, and refuses a prompt that leaves nothing", async () => {
      const backend = await textBackend({ engine: createTextEngine({ contextLength: 32 }) });
      const fields = { max_tokens: 16_384, ignore_eos: true };
      const { usage } = await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", chat(fields)));
      expect(usage.total_tokens).to.equal(32);
      const response = await post(backend, "/v1/chat/completions", chat({}, "the gateway ".repeat(32)));
      expect(response.status).to.equal(400);
      expect((await jsonOf<ErrorAnswer>(response)).error).to.include({
        code: "context_length_exceeded",
        param: "messages",
      });
    });

    it("reports the part of a prompt that it has read before as cached", async () => {
      const backend = await textBackend();
      const prompt = chat({ max_tokens: 1 }, "the gateway takes a request ".repeat(20));
      const [first, second] = [
        await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", prompt)),
        await jsonOf<ChatAnswer>(await post(backend, "/v1/chat/completions", prompt)),
      ];
      expect(first.usage.prompt_tokens_details.cached_tokens).to.equal(0);
      expect(second.usage.prompt_tokens_details.cached_tokens).to.be.above(second.usage.prompt_tokens - 17);
    });

    it("waits for every uncached token of the prompt before the first token", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, promptTokenDelayMs: 2 });
      const answer = post(backend, "/v1/chat/completions", chat({ max_tokens: 1 }));
      await until("the answer waits for the clock", () => clock.pending.length === 1);
      expect(clock.pending).to.deep.equal([20]);
      clock.advance(20);
      expect((await answer).status).to.equal(200);
    });
  });

  describe("clients that leave", () => {
    it("stops the model when a streaming client leaves, and frees the slot", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, tokenDelayMs: 10, slots: 1 });
      const response = await postUnread(backend, "/v1/chat/completions", chat({ stream: true }));
      response.destroy();
      await until("the slot is free", () => backend.stats().active === 0);
      clock.advance(10_000);
      expect(backend.stats()).to.include({ aborted: 1, completed: 0, completionTokens: 0 });
    });

    it("stops the model when a client that waits for one piece leaves", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, tokenDelayMs: 10 });
      const request = httpRequest(`${backend.url}/v1/chat/completions`, { method: "POST", agent: false });
      request.on("error", () => undefined);
      request.end(JSON.stringify(chat({ ignore_eos: true })));
      await until("the model waits for the clock", () => clock.pending.length === 1);
      clock.advance(10);
      await until("a token was written", () => backend.stats().completionTokens === 1);
      request.destroy();
      await until("the client's leaving was noticed", () => backend.stats().aborted === 1);
      clock.advance(10_000);
      expect(backend.stats()).to.include({ active: 0, completionTokens: 1 });
    });

    it("takes a client that leaves the line out of it", async () => {
      const clock = new ManualClock();
      const backend = await textBackend({ clock, tokenDelayMs: 10, slots: 1 });
      const first = await postUnread(backend, "/v1/chat/completions", chat({ stream: true }));
      const waiting = httpRequest(`${backend.url}/v1/chat/completions`, { method: "POST", agent: false });
      waiting.on("error", () => undefined);
      waiting.end(JSON.stringify(chat({ stream: true })));
      await until("the second waits", () => backend.stats().waiting === 1);
      waiting.destroy();
      await until("nobody waits", () => backend.stats().waiting === 0);
      first.destroy();
      await until("nobody is served", () => backend.stats().active === 0);
      expect(backend.stats()).to.include({ aborted: 2, requests: 2, peakActive: 1 });
    });

    it("is not troubled by a client that leaves in the middle of its own request", async () => {
      const backend = await textBackend();
      const socket = connect(Number(new URL(backend.url).port), "127.0.0.1");
      await once(socket, "connect");
      socket.end("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{");
      await until("it was noticed", () => backend.stats().aborted === 1);
      expect((await fetch(`${backend.url}/health`)).status).to.equal(200);
    });

    it("closes while answers are in work, and leaves nothing of them behind", async () => {
      const backend = await textBackend({ tokenDelayMs: 60_000 });
      const response = await postUnread(backend, "/v1/chat/completions", chat({ stream: true }));
      const broken = once(response, "error");
      await backend.close();
      expect(backend.stats()).to.include({ active: 0, aborted: 1 });
      await broken;
    });
  });

  describe("slots", () => {
    it("works on no more requests than it has slots, and on the others in turn", async () => {
      const release = Promise.withResolvers<undefined>();
      const backend = await textBackend({ slots: 2, beforeToken: () => release.promise });
      const answers = [1, 2, 3, 4].map((seed) => post(backend, "/v1/chat/completions", chat({ seed, max_tokens: 3 })));
      await until("two work and two wait", () => backend.stats().waiting === 2);
      expect(backend.stats().active).to.equal(2);
      release.resolve(undefined);
      expect((await Promise.all(answers)).map(({ status }) => status)).to.deep.equal([200, 200, 200, 200]);
      expect(backend.stats()).to.include({ peakActive: 2, active: 0, waiting: 0, completed: 4 });
    });

    it("refuses with 503 and Retry-After when the line is full", async () => {
      const release = Promise.withResolvers<undefined>();
      const backend = await textBackend({ slots: 1, maxWaiting: 0, beforeToken: () => release.promise });
      const first = post(backend, "/v1/chat/completions", chat({ max_tokens: 1 }));
      await until("the first is served", () => backend.stats().active === 1);
      const refused = await post(backend, "/v1/chat/completions", chat());
      expect(refused.status).to.equal(503);
      expect(refused.headers.get("retry-after")).to.equal("1");
      release.resolve(undefined);
      expect((await first).status).to.equal(200);
    });
  });

  describe("the hook", () => {
    it("breaks the connection in the middle of a stream", async () => {
      const backend = await textBackend({ beforeToken: ({ index }) => (index === 2 ? "cut" : undefined) });
      const response = await postUnread(backend, "/v1/chat/completions", chat({ stream: true, ignore_eos: true }));
      let received = "";
      response.on("data", (part: Buffer) => {
        received += part.toString();
      });
      const [error] = (await once(response, "error")) as [NodeJS.ErrnoException];
      expect(error.code).to.equal("ECONNRESET");
      expect(received.match(/"content":"[^"]/g)).to.have.length(2);
      expect(received).to.not.include("[DONE]");
      expect(backend.stats()).to.include({ cut: 1, completed: 0, active: 0 });
    });

    it("is told which request and which token is next", async () => {
      const steps: unknown[] = [];
      const backend = await textBackend({
        beforeToken: ({ request, model, requestId, choice, index }) => {
          steps.push({ request, model, requestId, choice, index });
          return undefined;
        },
      });
      await post(backend, "/v1/chat/completions", chat({ max_tokens: 1, n: 2 }), { "x-request-id": "mine" });
      const same = { request: 1, model: "tiny", requestId: "mine", index: 0 };
      expect(steps).to.deep.equal([
        { ...same, choice: 0 },
        { ...same, choice: 1 },
      ]);
    });
  });

  describe("an engine that fails", () => {
    const failing = {
      ...createTextEngine(),
      async *generate() {
        yield 300;
        await Promise.resolve();
        throw new Error("out of memory at 0xdeadbeef");
      },
    };

    it("gives an error that tells nothing of its inside", async () => {
      const backend = await textBackend({ engine: failing });
      const response = await post(backend, "/v1/chat/completions", chat());
      expect(response.status).to.equal(500);
      expect((await jsonOf<ErrorAnswer>(response)).error).to.deep.equal({
        message: "the model failed",
        type: "api_error",
        param: null,
        code: "internal_error",
      });
      expect(backend.stats()).to.include({ failed: 1, active: 0 });
    });

    it("ends a stream that has begun with an error frame and no [DONE]", async () => {
      const backend = await textBackend({ engine: failing });
      const frames = await framesOf(await post(backend, "/v1/chat/completions", chat({ stream: true })));
      expect(JSON.parse(frames.at(-1) ?? "")).to.have.nested.property("error.code", "internal_error");
    });
  });

  describe("text completions", () => {
    it("goes on from a text, for several prompts at once, in at most 16 tokens by default", async () => {
      const backend = await textBackend();
      const response = await post(backend, "/v1/completions", {
        model: "tiny",
        prompt: ["The gateway", "A provider"],
        ignore_eos: true,
      });
      const body = await jsonOf<{ object: string; choices: { index: number; text: string }[]; usage: Usage }>(response);
      expect(body.object).to.equal("text_completion");
      expect(body.choices.map(({ index }) => index)).to.deep.equal([0, 1]);
      expect(body.choices.map(({ text }) => tokenizer.encode(text).length)).to.deep.equal([16, 16]);
      expect(body.usage).to.include({ prompt_tokens: 6, completion_tokens: 32 });
    });

    it("gives the same answer for a prompt in tokens", async () => {
      const backend = await textBackend();
      const text = async (prompt: unknown) => {
        const response = await post(backend, "/v1/completions", { model: "tiny", prompt });
        return (await jsonOf<{ choices: { text: string }[] }>(response)).choices[0]?.text;
      };
      const tokens = completionPrompt("The gateway");
      expect(await text(tokens)).to.equal(await text("The gateway"));
      expect(await text([tokens])).to.equal(await text("The gateway"));
    });

    it("streams without a role frame", async () => {
      const backend = await textBackend();
      const frames = await framesOf(
        await post(backend, "/v1/completions", { model: "tiny", prompt: "The", max_tokens: 1, stream: true }),
      );
      expect(frames).to.have.length(3);
      const [first, finish] = frames
        .slice(0, 2)
        .map((frame) => JSON.parse(frame) as { object: string; choices: unknown[] });
      expect(first?.object).to.equal("text_completion");
      expect(first?.choices[0]).to.include({ index: 0, finish_reason: null });
      expect(finish?.choices[0]).to.deep.equal({ text: "", index: 0, logprobs: null, finish_reason: "length" });
    });
  });

  describe("errors", () => {
    const cases: readonly [string, object | string, number, string, string | null][] = [
      ["malformed JSON", "{", 400, "invalid_json", null],
      ["no body", "", 400, "invalid_json", null],
      ["JSON that is no object", "[]", 400, "invalid_value", null],
      ["no messages", { model: "tiny" }, 400, "missing_required_parameter", "messages"],
      ["an empty list of messages", { model: "tiny", messages: [] }, 400, "invalid_value", "messages"],
      [
        "a message without a role",
        { model: "tiny", messages: [{ content: "x" }] },
        400,
        "missing_required_parameter",
        "messages[0].role",
      ],
      ["no model", { messages: [{ role: "user", content: "x" }] }, 400, "missing_required_parameter", "model"],
      ["an unknown model", chat({ model: "other/ünï" }), 404, "model_not_found", "model"],
      ["max_tokens of -1", chat({ max_tokens: -1 }), 400, "invalid_value", "max_tokens"],
      ["max_tokens of 1.5", chat({ max_tokens: 1.5 }), 400, "invalid_value", "max_tokens"],
      ["max_tokens as a text", chat({ max_tokens: "5" }), 400, "invalid_value", "max_tokens"],
      ["a temperature of 3", chat({ temperature: 3 }), 400, "invalid_value", "temperature"],
      ["n of 17", chat({ n: 17 }), 400, "invalid_value", "n"],
      ["five stop texts", chat({ stop: ["a", "b", "c", "d", "e"] }), 400, "invalid_value", "stop"],
      ["log probabilities", chat({ logprobs: true }), 400, "invalid_value", "logprobs"],
      ["stream_options without stream", chat({ stream_options: {} }), 400, "invalid_value", "stream_options"],
      [
        "an image",
        chat({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }),
        400,
        "invalid_value",
        "messages[0].content[0].type",
      ],
    ];
    for (const [what, body, status, code, param] of cases) {
      it(`answers ${what} with ${status} ${code}`, async () => {
        const backend = await textBackend();
        const response = await post(backend, "/v1/chat/completions", body);
        expect(response.status).to.equal(status);
        const { error } = await jsonOf<ErrorAnswer>(response);
        expect(error).to.have.all.keys("message", "type", "param", "code");
        expect(error).to.include({ type: "invalid_request_error", code, param });
      });
    }

    it("answers bytes that are no UTF-8 text with 400 instead of changing them", async () => {
      const backend = await textBackend();
      const body = Buffer.from(JSON.stringify(chat({}, "caf\u00e9")), "latin1");
      const response = await fetch(`${backend.url}/v1/chat/completions`, { method: "POST", body });
      expect([response.status, (await jsonOf<ErrorAnswer>(response)).error.code]).to.deep.equal([400, "invalid_json"]);
    });

    it("takes null for an absent option, unknown fields and contents in parts", async () => {
      const backend = await textBackend();
      const body = chat({
        max_tokens: 1,
        stop: null,
        seed: null,
        n: null,
        stream: null,
        temperature: null,
        user: "me",
        tools: [],
        messages: [
          {
            role: "developer",
            content: [
              { type: "text", text: "a" },
              { type: "text", text: "b" },
            ],
          },
          { role: "assistant", content: null, tool_calls: [] },
          { role: "tool", content: "ok", tool_call_id: "1" },
        ],
      });
      expect((await post(backend, "/v1/chat/completions", body)).status).to.equal(200);
    });

    it("answers a body that is too long with 413 and closes the connection, announced or not", async () => {
      const backend = await textBackend({ maxBodyBytes: 1000 });
      const long = chat({}, "x".repeat(5000));
      const announced = await post(backend, "/v1/chat/completions", long);
      expect([announced.status, announced.headers.get("connection")]).to.deep.equal([413, "close"]);
      const { promise, resolve } = Promise.withResolvers<number | undefined>();
      const chunked = httpRequest(
        `${backend.url}/v1/chat/completions`,
        { method: "POST", agent: false },
        (response) => {
          resolve(response.statusCode);
          response.resume();
        },
      );
      chunked.on("error", () => undefined);
      chunked.write("x".repeat(5000));
      expect(await promise).to.equal(413);
      chunked.destroy();
    });

    it("answers an unknown URL with 404 and a wrong method with 405", async () => {
      const backend = await textBackend();
      const unknown = await fetch(`${backend.url}/v1/embeddings`);
      expect([unknown.status, (await jsonOf<ErrorAnswer>(unknown)).error.code]).to.deep.equal([404, "unknown_url"]);
      const method = await fetch(`${backend.url}/v1/chat/completions`);
      expect([method.status, (await jsonOf<ErrorAnswer>(method)).error.code]).to.deep.equal([
        405,
        "method_not_allowed",
      ]);
    });

    it("asks for its API key on every /v1 route", async () => {
      const backend = await textBackend({ apiKey: "secret" });
      expect((await post(backend, "/v1/chat/completions", chat())).status).to.equal(401);
      const wrong = await fetch(`${backend.url}/v1/models`, { headers: { authorization: "Bearer other" } });
      expect([wrong.status, (await jsonOf<ErrorAnswer>(wrong)).error.code]).to.deep.equal([401, "invalid_api_key"]);
      const right = await fetch(`${backend.url}/v1/models`, { headers: { authorization: "Bearer secret" } });
      expect(right.status).to.equal(200);
      expect((await fetch(`${backend.url}/health`)).status).to.equal(200);
    });
  });

  describe("the other routes", () => {
    it("lists its models with their context and finds one whose id has a slash, raw or escaped", async () => {
      const backend = await textBackend({ modelIds: ["tiny", "org/model:7b"] });
      const list = await jsonOf<{ data: { id: string; max_model_len: number }[] }>(
        await fetch(`${backend.url}/v1/models`),
      );
      expect(list.data.map(({ id, max_model_len }) => [id, max_model_len])).to.deep.equal([
        ["tiny", 32_768],
        ["org/model:7b", 32_768],
      ]);
      for (const path of ["org/model:7b", "org%2Fmodel%3A7b"]) {
        expect(await jsonOf(await fetch(`${backend.url}/v1/models/${path}`))).to.include({
          id: "org/model:7b",
          object: "model",
        });
      }
      expect((await fetch(`${backend.url}/v1/models/org`)).status).to.equal(404);
      expect((await fetch(`${backend.url}/v1/models/%E0%A4%A`)).status).to.equal(404);
    });

    it("tells its health as it is set", async () => {
      const backend = await textBackend();
      expect((await fetch(`${backend.url}/health`)).status).to.equal(200);
      backend.setHealthy(false);
      expect((await fetch(`${backend.url}/health`)).status).to.equal(503);
      backend.setHealthy(true);
      expect((await fetch(`${backend.url}/health`)).status).to.equal(200);
    });

    it("echoes a short printable request id and mints one for any other", async () => {
      const backend = await textBackend();
      const idOf = async (id: string) =>
        (await fetch(`${backend.url}/health`, { headers: { "x-request-id": id } })).headers.get("x-request-id");
      expect(await idOf("abc-1")).to.equal("abc-1");
      expect(await idOf("a b")).to.match(/^req_[0-9a-f]{32}$/);
      expect(await idOf("x".repeat(200))).to.match(/^req_/);
    });

    it("keeps connections open for longer than its callers' pools do", async () => {
      const backend = await textBackend();
      expect((await fetch(`${backend.url}/health`)).headers.get("keep-alive")).to.equal("timeout=120");
    });
  });
});
