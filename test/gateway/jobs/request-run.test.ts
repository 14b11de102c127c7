import { expect } from "chai";
import { hang } from "../../support/scripted-upstream.ts";
import { until } from "../../support/until.ts";
import { chat, errorOf, good, goodAnswer, messages, plain, streamed } from "../support/requests.ts";
import { scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

describe("a request", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  describe("for which nobody can be found", () => {
    it("gets 404 at once for a model that nobody offers", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      const response = await chat(place, { ...streamed, model: "nobody/has-this" }, { "x-t4t-progress": "event" });
      expect(response.status).to.equal(404);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect(await errorOf(response)).to.include({ code: "model_not_found", param: "model" });
    });

    it("gets 503 while nobody who offers the model is online, and an answer as soon as one is", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.silence(700);
      const response = await chat(place, { ...streamed }, { "x-t4t-progress": "event" });
      expect(response.status).to.equal(503);
      expect(response.headers.get("retry-after")).to.equal("30");
      const error = await errorOf(response);
      expect(error).to.include({ type: "service_unavailable_error", code: "no_provider_online" });
      expect(error.message).to.include(scriptedModel);
      const model = await fetch(`${place.url}/v1/models/${scriptedModel}`);
      expect([model.status, (await errorOf(model)).code]).to.deep.equal([503, "no_provider_online"]);
      expect(place.chain.posts).to.have.length(0);
      place.chain.advance(1);
      expect((await chat(place, plain)).status).to.equal(200);
    });

    it("gets 404 for a model whose providers have all left", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.setProvider({ ...place.chain.provider(place.providers[0]?.address ?? "0x"), active: false });
      expect((await chat(place, plain)).status).to.equal(404);
      expect((await fetch(`${place.url}/v1/models/${scriptedModel}`)).status).to.equal(404);
    });

    it("gets 400 for a prompt and an answer that no context holds", async () => {
      place = await startTestGateway({ providers: [{ script: goodAnswer, contextLength: 100 }] });
      const response = await chat(place, { ...plain, max_tokens: 5000 });
      expect(response.status).to.equal(400);
      expect((await errorOf(response)).code).to.equal("context_length_exceeded");
    });

    it("gets 503 while the only provider that holds its prompt and answer is not online, as a client does not try a 400 again", async () => {
      place = await startTestGateway({
        providers: [{ script: goodAnswer, contextLength: 100 }, goodAnswer],
      });
      place.chain.silence(700);
      place.chain.setProvider(place.chain.provider(place.providers[0]?.address ?? "0x"));
      const response = await chat(place, { ...plain, max_tokens: 5000 });
      expect([response.status, (await errorOf(response)).code]).to.deep.equal([503, "no_provider_online"]);
      const tooLong = await chat(place, { ...plain, max_tokens: 50_000 });
      expect([tooLong.status, (await errorOf(tooLong)).code]).to.deep.equal([400, "context_length_exceeded"]);
    });

    it("gets an injected bound that leaves room for the prompt when it set none", async () => {
      place = await startTestGateway({ providers: [{ script: goodAnswer, contextLength: 600 }] });
      await (await chat(place, { model: scriptedModel, messages })).text();
      const sent = JSON.parse(place.providers[0]?.completions[0]?.body ?? "{}") as { max_tokens: number };
      expect(sent.max_tokens).to.be.within(100, 599);
    });

    it("gets 404 when every offer is dearer than the operator allows", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { maxPrice: 10n } });
      const response = await chat(place, plain);
      expect(response.status).to.equal(404);
      expect((await errorOf(response)).message).to.match(/price/);
    });

    it("gets 503 while the chain was never reached, and an answer as soon as it was", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.isUp = false;
      const response = await chat(place, plain);
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).code).to.equal("chain_unavailable");
      expect((await fetch(`${place.url}/readyz`)).status).to.equal(503);
      place.chain.isUp = true;
      expect((await chat(place, plain)).status).to.equal(200);
    });

    it("gets 400 for a strategy that the operator does not allow", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { allowedStrategies: ["least_inflight"] } });
      expect((await chat(place, plain, { "x-t4t-routing": "least_inflight" })).status).to.equal(200);
      const response = await chat(place, plain, { "x-t4t-routing": "pulsar" });
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
      const response = await chat(place, streamed);
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
      const response = await chat(place, streamed, { "x-request-id": "the-same" });
      expect(response.status).to.equal(503);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect((await errorOf(response)).code).to.equal("capacity_timeout");
      const started = performance.now();
      expect((await chat(place, streamed, { "x-request-id": "the-same" })).status).to.equal(503);
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
      const response = await chat(place, streamed);
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
        return await chat(place, { ...plain, user });
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
});
