import { expect } from "chai";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { wireHeaders } from "../../../protocol/wire.ts";
import { until } from "../../support/until.ts";
import { answer, chunkData, frame, oddStreams, scriptedText } from "../../support/upstream-scripts.ts";
import { chat, good, goodAnswer, plain, streamed } from "../support/requests.ts";
import { acknowledged, scriptedModel, stated } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

describe("a request", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  describe("that is answered", () => {
    it("names the job and the provider in the answer's head, streamed or not", async () => {
      place = await startTestGateway({
        providers: [async (job) => (job.body.stream === true ? good(job) : goodAnswer(job))],
      });
      for (const body of [streamed, plain]) {
        const response = await chat(place, body);
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
      const response = await chat(place, { ...streamed, stream_options: { include_usage: true } });
      expect(await response.text()).to.equal(body);
    });

    it("passes a JSON answer through byte for byte", async () => {
      const body =
        '{ "choices" : [ {"index":0,"message":{"content":"x"},"finish_reason":"stop"} ] , "big": 12345678901234567890 }';
      place = await startTestGateway({
        providers: [acknowledged(answer(200, { "content-type": "application/json" }, body))],
      });
      expect(await (await chat(place, plain)).text()).to.equal(body);
    });

    it("reaches the provider as the client wrote it, but for the bound and the metering", async () => {
      place = await startTestGateway({ providers: [good] });
      const text = `{"model":"${scriptedModel}","messages":[{"role":"user","content":"\\u00e9"}],"stream":true,"seed":12345678901234567890,"vendor":{"a":1.0}}`;
      await (await chat(place, text)).text();
      const sent = place.providers[0]?.completions[0]?.body ?? "";
      expect(sent).to.include('"seed":12345678901234567890,"vendor":{"a":1.0}');
      expect(sent).to.include("\\u00e9");
      const parsed = JSON.parse(sent) as Record<string, unknown>;
      expect(parsed.max_tokens).to.equal(1000);
      expect(parsed.stream_options).to.deep.equal({ include_usage: true });
    });

    it("forwards no header of the client to a stranger", async () => {
      place = await startTestGateway({ providers: [good], settings: { apiKeys: ["a-key-of-the-gateway"] } });
      const response = await chat(place, streamed, {
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
      const response = await chat(place, streamed);
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
        await (await chat(place, streamed)).text();
        const receipt = await until("a receipt arrives", () => place.providers[0]?.receipts[0]);
        expect(receipt).to.deep.include({ usage: { inputTokens: 9, outputTokens: 1 }, responseHash: bodyHash(body) });
      });
    }

    it("is never receipted for more than max_tokens allows, whatever the answer itself says", async () => {
      const body =
        frame(chunkData({ content: "Hi" }, "stop", { usage: { prompt_tokens: 9, completion_tokens: 5000 } })) +
        frame("[DONE]");
      place = await startTestGateway({ providers: [stated(body, { inputTokens: 9, outputTokens: 5000 })] });
      await (await chat(place, streamed)).text();
      const receipt = await until("a receipt arrives", () => place.providers[0]?.receipts[0]);
      expect(receipt.usage.outputTokens).to.equal(20);
    });

    it("may ask for any model, and gets one that somebody serves", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      for (const model of [undefined, "auto"]) {
        const response = await chat(place, { ...plain, model });
        expect(response.status).to.equal(200);
      }
      const bodies = place.providers[0]?.completions.map(({ body }) => (JSON.parse(body) as { model: string }).model);
      expect(bodies).to.deep.equal([scriptedModel, scriptedModel]);
    });

    it("that named no model is told in the answer itself which one it can ask for again, whatever the backend calls it", async () => {
      place = await startTestGateway({
        providers: [async (job) => (job.body.stream === true ? good(job) : goodAnswer(job))],
      });
      const named = ((await (await chat(place, { ...plain, model: "auto" })).json()) as { model: string }).model;
      expect(named).to.equal(scriptedModel);
      const text = await (await chat(place, { ...streamed, model: undefined })).text();
      const models = [...text.matchAll(/"model":"([^"]*)"/g)].map(([, model]) => model);
      expect([...new Set(models)]).to.deep.equal([scriptedModel]);
      const receipts = await until("both answers are receipted", () =>
        place.providers[0]?.receipts.length === 2 ? place.providers[0].receipts : undefined,
      );
      expect(receipts).to.have.length(2);
    });

    it("is told the model that served, and on request why this provider", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      const quiet = await chat(place, { ...plain, model: "auto" });
      expect(quiet.headers.get("x-t4t-model")).to.equal(scriptedModel);
      expect(quiet.headers.get("x-t4t-decision")).to.equal(null);
      const response = await chat(place, plain, { "x-t4t-debug": "true" });
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

    it("keeps the text of the answer, whatever the packets", async () => {
      place = await startTestGateway({ providers: [acknowledged(oddStreams["a packet for every byte"])] });
      const text = await (await chat(place, { ...streamed, stream_options: { include_usage: true } })).text();
      expect(
        text
          .match(/"content":"[^"]*"/g)
          ?.map((one) => (JSON.parse(`{${one}}`) as { content: string }).content)
          .join(""),
      ).to.equal(scriptedText);
    });
  });
});
