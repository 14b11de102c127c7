import { expect } from "chai";
import { pino } from "pino";
import { bodyHash } from "../../../protocol/body-hash.ts";
import {
  answer,
  earlyFaults,
  errorAnswer,
  frame,
  chunkData,
  goodJson,
  jsonAnswer,
  oddStreams,
  scriptedText,
} from "../../support/upstream-scripts.ts";
import { chunk, end, hang, head, hold } from "../../support/scripted-upstream.ts";
import { until } from "../../support/until.ts";
import { wireHeaders } from "../../../protocol/wire.ts";
import { acknowledged, deadScript, type ProviderScript, scriptedModel, stated } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const messages = [{ role: "user", content: "Hello" }];
const streamed = { model: scriptedModel, messages, max_tokens: 20, stream: true };
const plain = { model: scriptedModel, messages, max_tokens: 20 };
const good = acknowledged(oddStreams.plain);
const goodAnswer = acknowledged(goodJson);

interface ErrorAnswer {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

async function errorOf(response: Response): Promise<ErrorAnswer["error"]> {
  const body = (await response.json()) as ErrorAnswer;
  expect(body.error).to.have.all.keys("message", "type", "param", "code");
  return body.error;
}

describe("a request", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  const chat = async (body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    await postJson(`${place.url}/v1/chat/completions`, body, { headers });

  describe("that is answered", () => {
    it("names the job and the provider in the answer's head, streamed or not", async () => {
      place = await startTestGateway({
        providers: [async (job) => (job.body.stream === true ? good(job) : goodAnswer(job))],
      });
      for (const body of [streamed, plain]) {
        const response = await chat(body);
        expect(response.status).to.equal(200);
        const jobId = response.headers.get("x-t4t-job-id");
        expect(place.chain.jobs.has(jobId as `0x${string}`)).to.equal(true);
        expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[0]?.address);
        await response.text();
      }
    });

    it("passes the answer's bytes through unchanged when the client asked for usage itself", async () => {
      const body =
        frame(chunkData({ content: "1.0" }, null, { logprobs: null, seed: 1e21 })) +
        frame(chunkData({}, "stop")) +
        frame("[DONE]");
      place = await startTestGateway({ providers: [stated(body, { inputTokens: 1, outputTokens: 1 })] });
      const response = await chat({ ...streamed, stream_options: { include_usage: true } });
      expect(await response.text()).to.equal(body);
    });

    it("passes a JSON answer through byte for byte", async () => {
      const body =
        '{ "choices" : [ {"index":0,"message":{"content":"x"},"finish_reason":"stop"} ] , "big": 12345678901234567890 }';
      place = await startTestGateway({
        providers: [acknowledged(answer(200, { "content-type": "application/json" }, body))],
      });
      expect(await (await chat(plain)).text()).to.equal(body);
    });

    it("reaches the provider as the client wrote it, but for the bound and the metering", async () => {
      place = await startTestGateway({ providers: [good] });
      const text = `{"model":"${scriptedModel}","messages":[{"role":"user","content":"\\u00e9"}],"stream":true,"seed":12345678901234567890,"vendor":{"a":1.0}}`;
      await (await chat(text)).text();
      const sent = place.providers[0]?.completions[0]?.body ?? "";
      expect(sent).to.include('"seed":12345678901234567890,"vendor":{"a":1.0}');
      expect(sent).to.include("\\u00e9");
      const parsed = JSON.parse(sent) as Record<string, unknown>;
      expect(parsed.max_tokens).to.equal(1000);
      expect(parsed.stream_options).to.deep.equal({ include_usage: true });
    });

    it("forwards no header of the client to a stranger", async () => {
      place = await startTestGateway({ providers: [good], settings: { apiKeys: ["a-key-of-the-gateway"] } });
      const response = await chat(streamed, {
        authorization: "Bearer a-key-of-the-gateway",
        cookie: "session=1",
        "openai-organization": "org-1",
        "x-forwarded-for": "10.0.0.1",
        "x-request-id": "user-17",
      });
      await response.text();
      const headers = place.providers[0]?.completions[0]?.headers ?? {};
      expect(JSON.stringify(headers)).to.not.match(/a-key-of|session=1|org-1|10\.0\.0\.1|user-17/);
      expect(headers[wireHeaders.jobId]).to.equal(response.headers.get("x-t4t-job-id"));
      expect(headers[wireHeaders.requestId], "one id to find a job's traces by on both sides").to.equal(
        headers[wireHeaders.jobId],
      );
      expect(response.headers.get("x-request-id")).to.equal("user-17");
    });

    it("is settled to the token by a receipt for the provider's own statement", async () => {
      const body =
        [chunkData({ content: "Hi" }), chunkData({}, "stop", { usage: { prompt_tokens: 9, completion_tokens: 1 } })]
          .map((data) => frame(data))
          .join("") + frame("[DONE]");
      place = await startTestGateway({ providers: [stated(body, { inputTokens: 9, outputTokens: 1 })] });
      const response = await chat(streamed);
      await response.text();
      const receipt = await until("the receipt arrives", () => place.providers[0]?.receipts[0]);
      expect(receipt).to.deep.include({ usage: { inputTokens: 9, outputTokens: 1 }, responseHash: bodyHash(body) });
      const job = await until("the job is paid", () =>
        [...place.chain.jobs.values()].find(({ status }) => status === "Completed"),
      );
      expect(job.usage).to.deep.equal({ inputTokens: 9, outputTokens: 1 });
    });

    for (const [what, lie] of [
      ["more tokens than the answer's own usage says", { usage: { inputTokens: 9, outputTokens: 500 } }],
      [
        "another hash than that of the bytes that came",
        { usage: { inputTokens: 9, outputTokens: 1 }, hash: bodyHash("other") },
      ],
    ] as const) {
      it(`is receipted for what was seen when the provider states ${what}`, async () => {
        const body =
          frame(chunkData({ content: "Hi" }, "stop", { usage: { prompt_tokens: 9, completion_tokens: 1 } })) +
          frame("[DONE]");
        place = await startTestGateway({
          providers: [stated(body, lie.usage, "hash" in lie ? lie.hash : bodyHash(body))],
        });
        await (await chat(streamed)).text();
        const receipt = await until("a receipt arrives", () => place.providers[0]?.receipts[0]);
        expect(receipt).to.deep.include({ usage: { inputTokens: 9, outputTokens: 1 }, responseHash: bodyHash(body) });
      });
    }

    it("is never receipted for more than max_tokens allows, whatever the answer itself says", async () => {
      const body =
        frame(chunkData({ content: "Hi" }, "stop", { usage: { prompt_tokens: 9, completion_tokens: 5000 } })) +
        frame("[DONE]");
      place = await startTestGateway({ providers: [stated(body, { inputTokens: 9, outputTokens: 5000 })] });
      await (await chat(streamed)).text();
      const receipt = await until("a receipt arrives", () => place.providers[0]?.receipts[0]);
      expect(receipt.usage.outputTokens).to.equal(20);
    });

    it("may ask for any model, and gets one that somebody serves", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      for (const model of [undefined, "auto"]) {
        const response = await chat({ ...plain, model });
        expect(response.status).to.equal(200);
      }
      const bodies = place.providers[0]?.completions.map(({ body }) => (JSON.parse(body) as { model: string }).model);
      expect(bodies).to.deep.equal([scriptedModel, scriptedModel]);
    });

    it("is told the model that served, and on request why this provider", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      const quiet = await chat({ ...plain, model: "auto" });
      expect(quiet.headers.get("x-t4t-model")).to.equal(scriptedModel);
      expect(quiet.headers.get("x-t4t-decision")).to.equal(null);
      const response = await chat(plain, { "x-t4t-debug": "true" });
      const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as Record<string, unknown>;
      expect(decision).to.include({ policy: "cheapest", busyCount: 0 });
      const ranked = (decision.ranked as { provider: string }[]).map(({ provider }) => provider);
      expect(ranked).to.deep.equal(place.providers.map(({ address }) => address));
      const job = (await (
        await fetch(`${place.url}/v1/jobs/${response.headers.get("x-t4t-job-id") ?? ""}`)
      ).json()) as { attempts: { decision: unknown }[] };
      expect(job.attempts[0]?.decision).to.deep.equal(decision);
    });

    it("goes by /v1/completions the same way", async () => {
      const body =
        frame('{"object":"text_completion","choices":[{"index":0,"text":"x","finish_reason":"stop"}]}') +
        frame("[DONE]");
      place = await startTestGateway({ providers: [stated(body, { inputTokens: 1, outputTokens: 1 })] });
      const response = await postJson(`${place.url}/v1/completions`, {
        model: scriptedModel,
        prompt: "Hi",
        stream: true,
      });
      expect(await response.text()).to.equal(body);
      expect(place.providers[0]?.completions[0]?.path).to.equal("/v1/completions");
    });
  });

  describe("whose provider fails", () => {
    it("is answered by the next, and costs the first provider its reputation", async () => {
      place = await startTestGateway({ providers: [acknowledged(earlyFaults["status 500"]), goodAnswer] });
      const response = await chat(plain);
      expect(response.status).to.equal(200);
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[1]?.address);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.match(
        new RegExp(
          `t4t_provider_recent_failures\\{provider="${place.providers[0]?.address ?? ""}".*\\} [01]\\.?[0-9]*`,
        ),
      );
      expect(metrics).to.not.include(
        `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
      );
    });

    it("leaves a provider that is only full its reputation", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(503, "provider_busy"), goodAnswer] });
      expect((await chat(plain)).status).to.equal(200);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.include(
        `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
      );
    });

    it("goes to another provider when one shuts down, whom no later request is given", async () => {
      let asked = 0;
      const leaving: ProviderScript = () => {
        asked += 1;
        return errorAnswer(503, "provider_draining");
      };
      place = await startTestGateway({ providers: [leaving, goodAnswer] });
      expect((await chat(plain)).status).to.equal(200);
      expect((await chat(plain)).status).to.equal(200);
      expect(asked, "each job for it costs two transactions").to.equal(1);
    });

    it("waits in line for the only provider while that starts anew, instead of failing with it", async () => {
      let asked = 0;
      const restarting: ProviderScript = (job) => {
        asked += 1;
        return asked === 1 ? errorAnswer(503, "provider_draining") : goodAnswer(job);
      };
      place = await startTestGateway({ providers: [restarting], settings: { waitLimitMs: 30_000 } });
      const { chain } = place;
      const response = chat(plain);
      const address = place.providers[0]?.address ?? "0x";
      const waiting = async (): Promise<boolean> =>
        /^t4t_gateway_queue_size\S* 1$/m.test(await (await fetch(`${place.url}/metrics`)).text());
      await until("the request waits", waiting);
      expect(asked).to.equal(1);
      const record = chain.provider(address);
      chain.setProvider({ ...record, generation: record.generation + 1 });
      chain.publish();
      expect((await response).status).to.equal(200);
    });

    it("that waited in vain for a provider that shuts down is told so, with the decision where it was asked for", async () => {
      place = await startTestGateway({
        providers: [() => errorAnswer(503, "provider_draining")],
        settings: { waitLimitMs: 150 },
      });
      const response = await chat(plain, { "x-t4t-debug": "true" });
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).message).to.match(/^Every provider of .* was shutting down for 0 s\.$/);
      const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as {
        verdict: string;
        excludedCounts: object;
      };
      expect(decision).to.deep.include({ verdict: "busy", excludedCounts: { draining: 1 } });
      const job = await fetch(`${place.url}/v1/jobs/${response.headers.get("x-t4t-job-id") ?? ""}`);
      expect(((await job.json()) as { decision: unknown }).decision).to.deep.equal(decision);
    });

    it("is told of the refusal of the request itself, cleaned, once a second provider says the same", async () => {
      const refusal = jsonAnswer(400, {
        error: {
          code: "backend_rejected",
          message: "bad <b>temperature</b> at http://10.1.2.3:9/x with sk-1234567890",
        },
      });
      place = await startTestGateway({ providers: [() => refusal, () => refusal, goodAnswer] });
      const response = await chat(plain);
      expect(response.status).to.equal(400);
      const error = await errorOf(response);
      expect(error.code).to.equal("upstream_rejected");
      expect(error.message).to.equal("bad <b>temperature</b> at [address] with [key]");
      expect(place.providers[2]?.completions, "two are enough to believe").to.have.length(0);
    });

    it("is told the backend's own parameter and code, in a stream as well, but no code that speaks of something else", async () => {
      const refused = (param: unknown, code: unknown) =>
        JSON.stringify({ error: { code: "backend_rejected", message: "no", param, backend_code: code } });
      for (const [said, shown] of [
        [refused("tools[0].function", "invalid_schema"), { param: "tools[0].function", code: "invalid_schema" }],
        [refused("a b", "two words"), { param: null, code: "upstream_rejected" }],
        [refused({ a: 1 }, "x".repeat(65)), { param: null, code: "upstream_rejected" }],
        [refused("n", "invalid_api_key"), { param: "n", code: "upstream_rejected" }],
        [refused("n", "insufficient_quota"), { param: "n", code: "upstream_rejected" }],
      ] as const) {
        place = await startTestGateway({
          providers: [
            acknowledged([head(200, { "content-type": "text/event-stream" }), chunk(`data: ${said}\n\n`), end]),
          ],
        });
        expect(await errorOf(await chat(streamed)), said).to.include(shown);
        await place.close();
        place = await startTestGateway({
          providers: [() => answer(400, { "content-type": "application/json" }, said)],
        });
        expect(await errorOf(await chat(plain)), said).to.include(shown);
        await place.close();
      }
    });

    describe("because its backend finds the prompt too long", () => {
      const tooLong = () =>
        jsonAnswer(400, {
          error: {
            code: "backend_rejected",
            message: "9000 tokens",
            param: null,
            backend_code: "context_length_exceeded",
          },
        });
      const long = { ...plain, messages: [{ role: "user", content: "x".repeat(20_000) }] };

      it("gets the code of a prompt that is too long at sight, for one job: equal contexts are not asked again", async () => {
        place = await startTestGateway({ providers: [tooLong, tooLong] });
        const response = await chat(long);
        expect(response.status).to.equal(400);
        expect(await errorOf(response)).to.include({ code: "context_length_exceeded", param: "messages" });
        expect(place.chain.posts).to.have.length(1);
      });

      it("is answered by a provider with more context, and the first is not to blame", async () => {
        place = await startTestGateway({
          providers: [tooLong, tooLong, { script: goodAnswer, contextLength: 30_000 }],
        });
        const response = await chat(long);
        expect(response.status).to.equal(200);
        expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[2]?.address);
        const metrics = await (await fetch(`${place.url}/metrics`)).text();
        expect(metrics).to.include(
          `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
        );
      });

      it("is answered by another like it when the prompt is far too short for that", async () => {
        place = await startTestGateway({ providers: [tooLong, goodAnswer] });
        expect((await chat(plain)).status).to.equal(200);
      });
    });

    it("is served by a second provider when the word of the first alone calls it wrong, and that one is to blame", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(400, "backend_rejected"), goodAnswer] });
      const response = await chat(plain);
      expect(response.status).to.equal(200);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.not.include(
        `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
      );
    });

    it("is told of the refusal at once when there is no second provider to ask", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(400, "backend_rejected")] });
      expect((await chat(plain)).status).to.equal(400);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.include(
        `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
      );
    });

    for (const [second, script] of [
      ["is busy", () => errorAnswer(503, "provider_busy")],
      ["is broken", () => errorAnswer(502, "backend_unavailable")],
      ["is dead", deadScript],
    ] as const) {
      it(`is not told to try again when the first called it wrong and the second ${second}`, async () => {
        place = await startTestGateway({ providers: [() => errorAnswer(400, "backend_rejected"), script] });
        const response = await chat(plain);
        expect(response.status).to.equal(400);
        expect(response.headers.get("retry-after")).to.equal(null);
      });
    }

    it("is hardly ever posted to a provider that disagrees with every job, while another does not", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(401, "invalid_authorization"), goodAnswer] });
      for (let request = 0; request < 20; request += 1) expect((await chat(plain)).status).to.equal(200);
      expect(place.providers[0]?.completions.length).to.be.at.most(6);
    });

    it("is answered, paid for and counted as over although the journal fails as its receipt is written", async () => {
      place = await startTestGateway({
        providers: [
          async (job) => {
            place.journal.failure = new Error("disk full");
            return await goodAnswer(job);
          },
        ],
        janitorMs: 20,
      });
      const response = await chat(plain);
      expect(response.status).to.equal(200);
      const jobId = response.headers.get("x-t4t-job-id") ?? "";
      expect(await response.json()).to.have.property("choices");
      await until("the write has failed", () => place.journal.refused > 0);
      place.journal.failure = undefined;
      const job = async () =>
        (await (await fetch(`${place.url}/v1/jobs/${jobId}`)).json()) as { status: string; error: unknown };
      await until("the request is over", async () => (await job()).status !== "running");
      expect((await job()).error).to.equal(null);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.not.match(/^t4t_provider_in_flight\{.*\} [1-9]/m);
    });

    it("hears a refusal that comes inside a stream as a plain 400", async () => {
      const script: ProviderScript = acknowledged([
        head(200, { "content-type": "text/event-stream" }),
        chunk(frame(JSON.stringify({ error: { code: "backend_rejected", message: "no such tool" } }))),
        end,
      ]);
      place = await startTestGateway({ providers: [script, script] });
      const response = await chat(streamed);
      expect(response.status).to.equal(400);
      expect((await errorOf(response)).message).to.equal("no such tool");
    });

    it("is not answered by a provider that has not bound itself by its signature", async () => {
      place = await startTestGateway({
        providers: [
          () => oddStreams.plain,
          async (job) => [
            head(200, { "content-type": "text/event-stream", [wireHeaders.acknowledgement]: `0x${"11".repeat(65)}` }),
            ...(await acknowledged(oddStreams.plain)(job)).slice(1),
          ],
          good,
        ],
      });
      const response = await chat(streamed);
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[2]?.address);
      await response.text();
    });

    it("gets 502 when all fail and 504 when none answers in time, without a word on where they are", async () => {
      place = await startTestGateway({ providers: [acknowledged(earlyFaults["status 502 with HTML"])] });
      const broken = await chat(plain);
      expect(broken.status).to.equal(502);
      const error = await errorOf(broken);
      expect(error).to.include({ type: "api_error", code: "upstream_error" });
      expect(error.message).to.not.match(/127\.0\.0\.1|html|Gateway<|http:/i);
      await place.close();
      place = await startTestGateway({ providers: [() => [hang]], settings: { ackTimeoutMs: 100 } });
      const late = await chat(streamed);
      expect(late.status).to.equal(504);
      expect(await errorOf(late)).to.include({ type: "timeout_error", code: "upstream_timeout" });
    });

    it("waits for a long JSON answer as long as the provider says that it works on it", async () => {
      const slow = Promise.withResolvers<undefined>();
      place = await startTestGateway({
        providers: [async (job) => [hold(slow.promise), ...(await goodAnswer(job))]],
        settings: { ackTimeoutMs: 40 },
      });
      const [provider] = place.providers;
      if (provider === undefined) throw new Error("no provider");
      let asked = 0;
      provider.statementOf = async (jobId) => {
        asked += 1;
        if (asked === 4) slow.resolve(undefined);
        return await provider.state(jobId, { inputTokens: 1, outputTokens: 1 }, bodyHash(""));
      };
      expect((await chat(plain)).status).to.equal(200);
      expect(asked).to.be.greaterThan(3);
    });

    it("does not wait for a JSON answer of a provider that says it works but has not signed for the job", async () => {
      place = await startTestGateway({ providers: [() => [hang], goodAnswer], settings: { ackTimeoutMs: 40 } });
      const [first] = place.providers;
      if (first === undefined) throw new Error("no provider");
      first.statementOf = async (jobId) => await first.state(jobId, { inputTokens: 1, outputTokens: 1 }, bodyHash(""));
      first.showsConsent = false;
      const response = await chat(plain, { "x-stainless-timeout": "5" });
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[1]?.address);
    });

    it("does not wait for a JSON answer of a provider that no longer knows of the job", async () => {
      place = await startTestGateway({ providers: [() => [hang], goodAnswer], settings: { ackTimeoutMs: 40 } });
      const response = await chat(plain);
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[1]?.address);
    });

    it("posts no more jobs than a bounded number, however many providers there are to fail", async () => {
      place = await startTestGateway({
        providers: Array.from({ length: 12 }, () => acknowledged(earlyFaults["status 500"])),
      });
      expect((await chat(plain)).status).to.equal(502);
      expect(place.chain.jobs.size).to.equal(8);
    });

    it("obeys the SDK's own time limit while it looks for an answer", async () => {
      place = await startTestGateway({ providers: [() => [hang]], settings: { ackTimeoutMs: 60_000 } });
      const started = performance.now();
      const response = await chat(streamed, { "x-stainless-timeout": "0.2" });
      expect(response.status).to.equal(504);
      expect(performance.now() - started).to.be.lessThan(1500);
    });
  });

  describe("and its money", () => {
    it("locks what the dearest candidate can cost, and allows no higher price", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      await (await chat(plain)).text();
      const plan = place.chain.posts[0]?.plan;
      expect(plan?.maxInputPrice).to.equal(2_000_000n);
      expect(plan?.candidates).to.have.length(2);
      // 20 output tokens and the prompt's bytes, at 2 wei a token, with a fifth on top.
      expect(plan?.maxPayment).to.be.greaterThan(2n * 20n);
      expect(plan?.unsignedLimit).to.equal(((plan?.maxPayment ?? 0n) * 100n) / 1000n);
    });

    it("reckons with every choice that it asks for", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      await (await chat({ ...plain, max_tokens: 1000 })).text();
      await (await chat({ ...plain, max_tokens: 1000, n: 4 })).text();
      const [one, four] = place.chain.posts.map(({ plan }) => plan.maxPayment);
      expect(Number(four) / Number(one)).to.be.greaterThan(2.5);
    });

    it("is refused with 413 when it could cost more than the operator allows", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { maxEscrowPerJob: 100n } });
      const response = await chat({ ...plain, max_tokens: 5000 });
      expect(response.status).to.equal(413);
      expect(await errorOf(response)).to.include({ code: "escrow_limit_exceeded", param: "max_tokens" });
      expect(place.chain.posts).to.have.length(0);
    });

    it("is told once in the log why a provider at a private address is left out, and how to have it called", async () => {
      const lines: string[] = [];
      const logger = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
      place = await startTestGateway({ providers: [goodAnswer], settings: { allowPrivateEndpoints: false }, logger });
      for (let request = 0; request < 2; request += 1) expect((await chat(plain)).status).to.equal(404);
      const told = lines.filter((line) => line.includes("endpoint is never called"));
      expect(told).to.have.length(1);
      expect(JSON.parse(told[0] ?? "")).to.include({
        provider: place.providers[0]?.address,
        reason: "private_address",
      });
      expect(told[0]).to.include("T4T_ALLOW_PRIVATE_ENDPOINTS=true");
    });

    it("is refused with 402 when the escrow account is empty", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "insufficient_balance", free: 1n, required: 50n });
      const response = await chat(plain);
      expect(response.status).to.equal(402);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect((await errorOf(response)).code).to.equal("insufficient_escrow_balance");
    });

    it("is refused for the missing gas, not for the tokens, where the wallet has no gas to bring its tokens into the escrow", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "insufficient_balance", free: 0n, required: 50n });
      place.chain.hasGas = false;
      const response = await chat(plain);
      expect(response.status).to.equal(402);
      expect((await errorOf(response)).message).to.include("gas");
    });

    it("is posted after the account was filled up, when the operator wants that", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      let isFull = false;
      place.chain.postFault = () => (isFull ? undefined : { kind: "insufficient_balance", free: 1n, required: 50n });
      place.chain.topUp = (required) => {
        isFull = required === 50n;
        return isFull;
      };
      expect((await chat(plain)).status).to.equal(200);
    });

    it("is refused with 402 when the wallet cannot pay for the transaction, with 503 when the chain is gone", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "abandoned", message: "sender has not enough funds", undecided: false });
      place.chain.hasGas = false;
      expect((await chat(plain)).status).to.equal(402);
      place.chain.hasGas = true;
      const response = await chat(plain);
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).code).to.equal("chain_unavailable");
      expect(response.headers.get("retry-after")).to.equal("5");
    });

    it("is answered as soon as a block holds it, however many confirmations the operator asks for", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      const confirmed = Promise.withResolvers<undefined>();
      place.chain.confirmed = confirmed.promise;
      expect((await chat(plain)).status).to.equal(200);
      confirmed.resolve(undefined);
    });

    it("sets a deadline by chain time and corrects it once when the chain disagrees", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.advance(100_000);
      let refused = false;
      place.chain.postFault = ({ deadline }) => {
        if (refused) return undefined;
        refused = true;
        return { kind: "bad_deadline", earliest: deadline + 1000, latest: deadline + 2000 };
      };
      expect((await chat(plain)).status).to.equal(200);
      const [first, second] = place.chain.posts.map(({ deadline }) => deadline);
      expect(first).to.be.greaterThan(Date.now() / 1000 + 100_000);
      expect(second).to.equal((first ?? 0) + 1030);
    });

    it("costs nothing but another look when the chain finds the provider full", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      const [first, second] = place.providers;
      let refusals = 0;
      place.chain.postFault = ({ plan }) => {
        if (refusals > 0) return undefined;
        refusals += 1;
        return {
          kind: "refused",
          refusals: new Map(
            plan.candidates.map(({ provider }) => [provider, provider === first?.address ? "full" : "unable"]),
          ),
        };
      };
      place.chain.setProvider({ ...place.chain.provider(second?.address ?? "0x"), active: false });
      const asked = chat(plain);
      await until("the first post was refused", () => refusals === 1);
      // The index moves on: the provider is looked at afresh.
      place.chain.publish();
      expect((await asked).status).to.equal(200);
      expect(
        place.chain.posts.map(({ nonce }) => nonce),
        "the id of a job that was never posted is used again",
      ).to.deep.equal([place.chain.posts[0]?.nonce, place.chain.posts[0]?.nonce]);
    });
  });

  describe("for which nobody can be found", () => {
    it("gets 404 at once for a model that nobody offers", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      const response = await chat({ ...streamed, model: "nobody/has-this" }, { "x-t4t-progress": "event" });
      expect(response.status).to.equal(404);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect(await errorOf(response)).to.include({ code: "model_not_found", param: "model" });
    });

    it("gets 503 while nobody who offers the model is online, and an answer as soon as one is", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.silence(700);
      const response = await chat({ ...streamed }, { "x-t4t-progress": "event" });
      expect(response.status).to.equal(503);
      expect(response.headers.get("retry-after")).to.equal("30");
      const error = await errorOf(response);
      expect(error).to.include({ type: "service_unavailable_error", code: "no_provider_online" });
      expect(error.message).to.include(scriptedModel);
      const model = await fetch(`${place.url}/v1/models/${scriptedModel}`);
      expect([model.status, (await errorOf(model)).code]).to.deep.equal([503, "no_provider_online"]);
      expect(place.chain.posts).to.have.length(0);
      place.chain.advance(1);
      expect((await chat(plain)).status).to.equal(200);
    });

    it("gets 404 for a model whose providers have all left", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.setProvider({ ...place.chain.provider(place.providers[0]?.address ?? "0x"), active: false });
      expect((await chat(plain)).status).to.equal(404);
      expect((await fetch(`${place.url}/v1/models/${scriptedModel}`)).status).to.equal(404);
    });

    it("gets 400 for a prompt and an answer that no context holds", async () => {
      place = await startTestGateway({ providers: [{ script: goodAnswer, contextLength: 100 }] });
      const response = await chat({ ...plain, max_tokens: 5000 });
      expect(response.status).to.equal(400);
      expect((await errorOf(response)).code).to.equal("context_length_exceeded");
    });

    it("gets an injected bound that leaves room for the prompt when it set none", async () => {
      place = await startTestGateway({ providers: [{ script: goodAnswer, contextLength: 600 }] });
      await (await chat({ model: scriptedModel, messages })).text();
      const sent = JSON.parse(place.providers[0]?.completions[0]?.body ?? "{}") as { max_tokens: number };
      expect(sent.max_tokens).to.be.within(100, 599);
    });

    it("gets 404 when every offer is dearer than the operator allows", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { maxPrice: 10n } });
      const response = await chat(plain);
      expect(response.status).to.equal(404);
      expect((await errorOf(response)).message).to.match(/price/);
    });

    it("gets 503 while the chain was never reached, and an answer as soon as it was", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.isUp = false;
      const response = await chat(plain);
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).code).to.equal("chain_unavailable");
      expect((await fetch(`${place.url}/readyz`)).status).to.equal(503);
      place.chain.isUp = true;
      expect((await chat(plain)).status).to.equal(200);
    });

    it("gets 400 for a strategy that the operator does not allow", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { allowedStrategies: ["least_inflight"] } });
      expect((await chat(plain, { "x-t4t-routing": "least_inflight" })).status).to.equal(200);
      const response = await chat(plain, { "x-t4t-routing": "pulsar" });
      expect(response.status).to.equal(400);
      expect((await errorOf(response)).param).to.equal("x-t4t-routing");
    });
  });

  describe("that must wait", () => {
    const one = { script: good, maxConcurrentJobs: 1 };

    it("fails fast when waiting is off, and says so in no words that SDKs take for a bill", async () => {
      place = await startTestGateway({ providers: [{ ...one, script: () => [hang] }], settings: { waitLimitMs: 0 } });
      const first = new AbortController();
      const holding = postJson(`${place.url}/v1/chat/completions`, streamed, { signal: first.signal }).catch(
        () => undefined,
      );
      await until("the slot is taken", () => place.chain.jobs.size === 1);
      const response = await chat(streamed);
      expect(response.status).to.equal(503);
      expect(Number(response.headers.get("retry-after"))).to.be.within(1, 60);
      const error = await errorOf(response);
      expect(error.type).to.equal("service_unavailable_error");
      expect(error.message).to.not.match(/billing|quota|credit/i);
      first.abort();
      await holding;
    });

    it("is told 503 capacity_timeout after its time, and not to try again by itself", async () => {
      place = await startTestGateway({ providers: [{ ...one, script: () => [hang] }], settings: { waitLimitMs: 150 } });
      const first = new AbortController();
      const holding = postJson(`${place.url}/v1/chat/completions`, streamed, { signal: first.signal }).catch(
        () => undefined,
      );
      await until("the slot is taken", () => place.chain.jobs.size === 1);
      const response = await chat(streamed, { "x-request-id": "the-same" });
      expect(response.status).to.equal(503);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect((await errorOf(response)).code).to.equal("capacity_timeout");
      const started = performance.now();
      expect((await chat(streamed, { "x-request-id": "the-same" })).status).to.equal(503);
      expect(performance.now() - started, "the time to wait belongs to the request id").to.be.lessThan(100);
      first.abort();
      await holding;
    });

    it("is turned away when the line is full", async () => {
      place = await startTestGateway({
        providers: [{ ...one, script: () => [hang] }],
        settings: { maxWaiting: 1, waitLimitMs: 60_000 },
      });
      const leave = new AbortController();
      const others = [0, 1].map(
        async () =>
          await postJson(`${place.url}/v1/chat/completions`, streamed, { signal: leave.signal }).catch(() => undefined),
      );
      await until("one runs and one waits", async () =>
        (await (await fetch(`${place.url}/metrics`)).text()).includes(
          `t4t_gateway_queue_size{gen_ai_request_model="${scriptedModel}"} 1`,
        ),
      );
      const response = await chat(streamed);
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).code).to.equal("server_is_overloaded");
      leave.abort();
      await Promise.all(others);
    });

    it("is served by the slot that the one before it frees, in order of arrival", async () => {
      const answers: string[] = [];
      place = await startTestGateway({
        providers: [
          {
            maxConcurrentJobs: 1,
            script: async (job) => {
              answers.push(String(job.body.user));
              return await goodAnswer(job);
            },
          },
        ],
      });
      const asked = ["a", "b", "c", "d"].map(async (user, index) => {
        await until(
          "those before have arrived",
          async () =>
            Number(/t4t_gateway_running_requests (\d+)/.exec(await (await fetch(`${place.url}/metrics`)).text())?.[1]) +
              answers.length >=
            index,
        );
        return await chat({ ...plain, user });
      });
      for (const response of await Promise.all(asked)) expect(response.status).to.equal(200);
      expect(answers).to.have.members(["a", "b", "c", "d"]);
      expect(answers[0]).to.equal("a");
    });

    it("sends no provider more than its slots even before the index knows of the posts", async () => {
      place = await startTestGateway({ providers: [{ ...one, maxConcurrentJobs: 2, script: goodAnswer }] });
      place.chain.publishesAtOnce = false;
      const [provider] = place.providers;
      if (provider === undefined) throw new Error("no provider");
      provider.settles = false;
      const leave = new AbortController();
      const asked = Array.from(
        { length: 5 },
        async () =>
          await postJson(`${place.url}/v1/chat/completions`, plain, { signal: leave.signal }).catch(() => undefined),
      );
      await until("two were answered", () => provider.completions.length === 2);
      expect(place.chain.posts, "nobody else even tried").to.have.length(2);
      leave.abort();
      await Promise.all(asked);
    });
  });

  it("keeps the text of the answer, whatever the packets", async () => {
    place = await startTestGateway({ providers: [acknowledged(oddStreams["a packet for every byte"])] });
    const text = await (await chat({ ...streamed, stream_options: { include_usage: true } })).text();
    expect(
      text
        .match(/"content":"[^"]*"/g)
        ?.map((one) => (JSON.parse(`{${one}}`) as { content: string }).content)
        .join(""),
    ).to.equal(scriptedText);
  });
});
