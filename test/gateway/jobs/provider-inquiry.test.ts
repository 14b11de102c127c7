import { expect } from "chai";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { wireHeaders } from "../../../protocol/wire.ts";
import { chunk, end, hang, head, hold } from "../../support/scripted-upstream.ts";
import { until } from "../../support/until.ts";
import { answer, earlyFaults, errorAnswer, frame, jsonAnswer, oddStreams } from "../../support/upstream-scripts.ts";
import { chat, errorOf, good, goodAnswer, plain, streamed } from "../support/requests.ts";
import { acknowledged, deadScript, scriptedModel, type ProviderScript } from "../support/scripted-provider.ts";
import { startTestGateway, type TestGateway } from "../support/test-gateway.ts";

describe("a request", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  describe("whose provider fails", () => {
    it("is answered by the next, and costs the first provider its reputation", async () => {
      place = await startTestGateway({ providers: [acknowledged(earlyFaults["status 500"]), goodAnswer] });
      const response = await chat(place, plain);
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
      expect((await chat(place, plain)).status).to.equal(200);
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
      expect((await chat(place, plain)).status).to.equal(200);
      expect((await chat(place, plain)).status).to.equal(200);
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
      const response = chat(place, plain);
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
      const response = await chat(place, plain, { "x-t4t-debug": "true" });
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
      const response = await chat(place, plain);
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
        expect(await errorOf(await chat(place, streamed)), said).to.include(shown);
        await place.close();
        place = await startTestGateway({
          providers: [() => answer(400, { "content-type": "application/json" }, said)],
        });
        expect(await errorOf(await chat(place, plain)), said).to.include(shown);
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
        const response = await chat(place, long);
        expect(response.status).to.equal(400);
        expect(await errorOf(response)).to.include({ code: "context_length_exceeded", param: "messages" });
        expect(place.chain.posts).to.have.length(1);
      });

      it("is answered by a provider with more context, and the first is not to blame", async () => {
        place = await startTestGateway({
          providers: [tooLong, tooLong, { script: goodAnswer, contextLength: 30_000 }],
        });
        const response = await chat(place, long);
        expect(response.status).to.equal(200);
        expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[2]?.address);
        const metrics = await (await fetch(`${place.url}/metrics`)).text();
        expect(metrics).to.include(
          `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
        );
      });

      it("is answered by another like it when the prompt is far too short for that", async () => {
        place = await startTestGateway({ providers: [tooLong, goodAnswer] });
        expect((await chat(place, plain)).status).to.equal(200);
      });
    });

    it("is served by a second provider when the word of the first alone calls it wrong, and that one is to blame", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(400, "backend_rejected"), goodAnswer] });
      const response = await chat(place, plain);
      expect(response.status).to.equal(200);
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      expect(metrics).to.not.include(
        `t4t_provider_recent_failures{provider="${place.providers[0]?.address ?? ""}",model="${scriptedModel}"} 0\n`,
      );
    });

    it("is told of the refusal at once when there is no second provider to ask", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(400, "backend_rejected")] });
      expect((await chat(place, plain)).status).to.equal(400);
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
        const response = await chat(place, plain);
        expect(response.status).to.equal(400);
        expect(response.headers.get("retry-after")).to.equal(null);
      });
    }

    it("is hardly ever posted to a provider that disagrees with every job, while another does not", async () => {
      place = await startTestGateway({ providers: [() => errorAnswer(401, "invalid_authorization"), goodAnswer] });
      for (let request = 0; request < 20; request += 1) expect((await chat(place, plain)).status).to.equal(200);
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
      const response = await chat(place, plain);
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
      const response = await chat(place, streamed);
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
      const response = await chat(place, streamed);
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[2]?.address);
      await response.text();
    });

    it("gets 502 when all fail and 504 when none answers in time, without a word on where they are", async () => {
      place = await startTestGateway({ providers: [acknowledged(earlyFaults["status 502 with HTML"])] });
      const broken = await chat(place, plain);
      expect(broken.status).to.equal(502);
      const error = await errorOf(broken);
      expect(error).to.include({ type: "api_error", code: "upstream_error" });
      expect(error.message).to.not.match(/127\.0\.0\.1|html|Gateway<|http:/i);
      await place.close();
      place = await startTestGateway({ providers: [() => [hang]], settings: { ackTimeoutMs: 100 } });
      const late = await chat(place, streamed);
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
      expect((await chat(place, plain)).status).to.equal(200);
      expect(asked).to.be.greaterThan(3);
    });

    it("does not wait for a JSON answer of a provider that says it works but has not signed for the job", async () => {
      place = await startTestGateway({ providers: [() => [hang], goodAnswer], settings: { ackTimeoutMs: 40 } });
      const [first] = place.providers;
      if (first === undefined) throw new Error("no provider");
      first.statementOf = async (jobId) => await first.state(jobId, { inputTokens: 1, outputTokens: 1 }, bodyHash(""));
      first.showsConsent = false;
      const response = await chat(place, plain, { "x-stainless-timeout": "5" });
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[1]?.address);
    });

    it("does not wait for a JSON answer of a provider that no longer knows of the job", async () => {
      place = await startTestGateway({ providers: [() => [hang], goodAnswer], settings: { ackTimeoutMs: 40 } });
      const response = await chat(place, plain);
      expect(response.headers.get("x-t4t-provider")).to.equal(place.providers[1]?.address);
    });

    it("posts no more jobs than a bounded number, however many providers there are to fail", async () => {
      place = await startTestGateway({
        providers: Array.from({ length: 12 }, () => acknowledged(earlyFaults["status 500"])),
      });
      expect((await chat(place, plain)).status).to.equal(502);
      expect(place.chain.jobs.size).to.equal(8);
    });

    it("obeys the SDK's own time limit while it looks for an answer", async () => {
      place = await startTestGateway({ providers: [() => [hang]], settings: { ackTimeoutMs: 60_000 } });
      const started = performance.now();
      const response = await chat(place, streamed, { "x-stainless-timeout": "0.2" });
      expect(response.status).to.equal(504);
      expect(performance.now() - started).to.be.lessThan(1500);
    });
  });
});
