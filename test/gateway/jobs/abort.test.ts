import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import type { PartialObservation } from "../../../gateway/jobs/job-document.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { chunk, close as closeConnection, hang, head, hold } from "../../support/scripted-upstream.ts";
import { chunkData, frame, goodJson, stream } from "../../support/upstream-scripts.ts";
import { until } from "../../support/until.ts";
import { acknowledged, type ProviderScript, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const body = { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 50, stream: true };
const eventStream = { "content-type": "text/event-stream" };
const firstTokens = frame(chunkData({ content: "One" })) + frame(chunkData({ content: " two" }));
const abortLimitMs = 100;

describe("a client that goes away", () => {
  let place: TestGateway;
  let client: AbortController;

  beforeEach(() => {
    client = new AbortController();
  });

  afterEach(async () => {
    await place.close();
  });

  async function ask(change: object = {}, headers: Record<string, string> = {}): Promise<Response | undefined> {
    return await postJson(
      `${place.url}/v1/chat/completions`,
      { ...body, ...change },
      { headers, signal: client.signal },
    ).catch(() => undefined);
  }

  /** Cuts the client off and returns ms until the provider's connection is gone. */
  async function leave(): Promise<number> {
    const request = await place.providers[0]?.upstream.request(0);
    const started = performance.now();
    client.abort();
    await request?.gone;
    return performance.now() - started;
  }

  async function stateOf(index = 0) {
    const rows = [...place.journal.jobs.values()];
    const document = JSON.parse(rows.at(-1)?.document ?? "{}") as {
      attempts: { state: string; usage?: unknown }[];
      outcome: { status: string } | null;
    };
    return { outcome: document.outcome?.status, attempt: document.attempts[index] };
  }

  it("while it waits in line leaves the line and nothing else", async () => {
    place = await startTestGateway({ providers: [{ script: () => [hang], maxConcurrentJobs: 1 }] });
    const holder = new AbortController();
    const holding = postJson(`${place.url}/v1/chat/completions`, body, { signal: holder.signal }).catch(
      () => undefined,
    );
    await until("the slot is taken", () => place.chain.jobs.size === 1);
    const asked = ask({}, { "x-t4t-progress": "event" });
    const metrics = async () => await (await fetch(`${place.url}/metrics`)).text();
    await until("it waits", async () =>
      (await metrics()).includes(`t4t_gateway_queue_size{gen_ai_request_model="${scriptedModel}"} 1`),
    );
    client.abort();
    await asked;
    await until("the line is empty", async () => !(await metrics()).includes("t4t_gateway_queue_size{"));
    expect(place.chain.posts).to.have.length(1);
    holder.abort();
    await holding;
  });

  it("while its job is posted never has it sent, and has the provider give the job back at once", async () => {
    place = await startTestGateway({ providers: [acknowledged([head(200, eventStream), hang])] });
    const mined = Promise.withResolvers<undefined>();
    place.chain.postFault = async () => await mined.promise;
    const secret = { messages: [{ role: "user", content: "a secret" }] };
    const asked = ask(secret);
    await until("the post is under way", () => place.chain.posts.length === 1);
    client.abort();
    await asked;
    // Both sides of the socket need a turn to notice.
    await until("the gateway has noticed", async () =>
      (await (await fetch(`${place.url}/metrics`)).text()).includes("t4t_gateway_running_requests 1"),
    );
    mined.resolve(undefined);
    await until("the request is over", () => place.journal.jobs.size === 1);
    await until("it is given up", async () => (await stateOf()).attempt?.state === "abandoned");
    expect((await stateOf()).outcome).to.equal("cancelled");
    const [instead] = await until("the provider is asked for more than the job pays", () =>
      place.providers[0]?.completions.length === 1 ? place.providers[0].completions : undefined,
    );
    expect(instead?.body).to.not.include("secret");
    expect(JSON.parse(instead?.body ?? "{}")).to.include({ model: scriptedModel, n: 128, stream: true });
    // This one takes the job, unpaid as it is: left before its first token it declines.
    await instead?.gone;
    await until("nobody counts as served", async () =>
      (await (await fetch(`${place.url}/metrics`)).text()).includes("t4t_gateway_running_requests 0"),
    );
  });

  it("while its job is posted has it given back also where the provider has closed the connection as idle", async () => {
    const answered = acknowledged(goodJson);
    const closed: ProviderScript = () => [closeConnection];
    const hanging = acknowledged([head(200, eventStream), hang]);
    let next = 0;
    const scripts = [answered, closed, hanging];
    place = await startTestGateway({
      providers: [(job) => (scripts[next++] ?? expect.fail("one request too many"))(job)],
    });
    await (await ask({ stream: false }))?.text();
    const mined = Promise.withResolvers<undefined>();
    place.chain.postFault = async () => await mined.promise;
    const asked = ask();
    await until("the post is under way", () => place.chain.posts.length === 2);
    client.abort();
    await asked;
    await until("the gateway has noticed", async () =>
      (await (await fetch(`${place.url}/metrics`)).text()).includes("t4t_gateway_running_requests 1"),
    );
    mined.resolve(undefined);
    await until("the provider is asked once more", () => place.providers[0]?.completions.length === 3);
  });

  it("before the provider has heard of its job does not sign for an answer that nobody can have given", async () => {
    // A host that is reached and never says hello: no request goes out on such a connection.
    const silent = createServer();
    await new Promise<void>((resolve) => {
      silent.listen(0, "127.0.0.1", resolve);
    });
    const { port } = silent.address() as AddressInfo;
    const connected = once(silent, "connection");
    place = await startTestGateway({ providers: [() => [hang]], settings: { connectTimeoutMs: 500 } });
    const record = place.chain.provider(place.providers[0]?.address ?? "0x");
    place.chain.setProvider({ ...record, endpoint: `https://127.0.0.1:${port}` });
    const asked = ask({ max_tokens: 500 });
    await until("its job is posted", () => place.chain.jobs.size === 1);
    await connected;
    client.abort();
    await asked;
    const partial = await until("it is given up", async () => {
      const attempt = (await stateOf()).attempt as { partial?: PartialObservation } | undefined;
      return attempt?.partial;
    });
    expect(partial.atMost.outputTokens).to.be.lessThan(100);
    silent.close();
  });

  for (const [phase, script] of [
    ["before the provider's head", [hang]],
    ["before the first token", [head(200, eventStream), hang]],
    ["in the middle of the stream", [head(200, eventStream), chunk(firstTokens), hang]],
  ] as const) {
    it(`${phase} cuts the provider off within ${abortLimitMs} ms`, async () => {
      place = await startTestGateway({ providers: [acknowledged(script)], settings: { commitGraceMs: 0 } });
      const asked = ask();
      await place.providers[0]?.upstream.request(0);
      if (phase === "in the middle of the stream") {
        const reader = (await asked)?.body?.getReader();
        let text = "";
        while (!text.includes("two")) text += Buffer.from((await reader?.read())?.value ?? []).toString();
      }
      expect(await leave()).to.be.lessThan(abortLimitMs);
      await asked;
    });
  }

  it("during a JSON answer cuts the provider off too", async () => {
    place = await startTestGateway({ providers: [() => [hang]], settings: { ackTimeoutMs: 10_000 } });
    const asked = ask({ stream: false });
    await place.providers[0]?.upstream.request(0);
    expect(await leave()).to.be.lessThan(abortLimitMs);
    await asked;
  });

  it("during a JSON answer says nothing of the time to its first token, nor does the answer when it comes", async () => {
    const slowMs = 100;
    const scripts = [
      acknowledged(stream(firstTokens + frame(chunkData({}, "stop")) + frame("[DONE]"))),
      async (job) => [hold(delay(slowMs)), ...(await acknowledged(goodJson)(job))],
      () => [hang],
    ] satisfies readonly ProviderScript[];
    let next = 0;
    place = await startTestGateway({
      providers: [(job) => (scripts[next++] ?? expect.fail("one request too many"))(job)],
      settings: { ackTimeoutMs: 10_000 },
    });
    const measured = async () => {
      const metrics = await (await fetch(`${place.url}/metrics`)).text();
      return /^t4t_provider_ttft_seconds\{.*\} (.*)$/m.exec(metrics)?.[1];
    };
    await (await ask())?.text();
    const ofStream = await until("the stream is measured", measured);
    expect(await (await ask({ stream: false }))?.text()).to.include("chat.completion");
    const asked = ask({ stream: false });
    await until("the provider works on it", () => place.providers[0]?.completions[2]);
    await delay(slowMs);
    client.abort();
    await asked;
    await until("both have ended", async () =>
      (await (await fetch(`${place.url}/metrics`)).text()).includes("t4t_gateway_running_requests 0"),
    );
    expect(await measured()).to.equal(ofStream);
  });

  it("in the middle of a stream has paid for the part that it got, and for no more than that", async () => {
    place = await startTestGateway({ providers: [acknowledged([head(200, eventStream), chunk(firstTokens), hang])] });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    const hash = bodyHash(firstTokens);
    provider.statementOf = async (jobId) => await provider.state(jobId, { inputTokens: 5, outputTokens: 2 }, hash);
    const response = await ask();
    const reader = response?.body?.getReader();
    let text = "";
    while (!text.includes("two")) text += Buffer.from((await reader?.read())?.value ?? []).toString();
    client.abort();
    const receipt = await until("the part is receipted", () => provider.receipts[0]);
    expect(receipt).to.deep.include({ usage: { inputTokens: 5, outputTokens: 2 }, responseHash: hash });
    await until("the job is settled", async () => (await stateOf()).attempt?.state === "settled");
    expect((await stateOf()).outcome).to.equal("cancelled");
  });

  it("pays no provider that claims tokens which cannot have come", async () => {
    place = await startTestGateway({ providers: [acknowledged([head(200, eventStream), chunk(firstTokens), hang])] });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    provider.statementOf = async (jobId) =>
      await provider.state(jobId, { inputTokens: 5, outputTokens: 50 }, bodyHash("x"));
    const response = await ask({ max_tokens: 100_000, model: scriptedModel });
    expect(response?.status, "the context is smaller").to.equal(400);
    const second = new AbortController();
    const streaming = await postJson(
      `${place.url}/v1/chat/completions`,
      { ...body, max_tokens: 5000 },
      { signal: second.signal },
    );
    const reader = streaming.body?.getReader();
    let text = "";
    while (!text.includes("two")) text += Buffer.from((await reader?.read())?.value ?? []).toString();
    provider.statementOf = async (jobId) =>
      await provider.state(jobId, { inputTokens: 5, outputTokens: 4900 }, bodyHash("x"));
    second.abort();
    const receipt = await until("a receipt comes", () => provider.receipts[0]);
    expect(receipt.usage.outputTokens).to.be.within(2, 100);
  });

  it("pays no provider for an answer of which nothing has come yet but what can be on its way", async () => {
    place = await startTestGateway({ providers: [acknowledged([head(200, eventStream), hang])] });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    provider.statementOf = async (jobId) =>
      await provider.state(jobId, { inputTokens: 5, outputTokens: 4900 }, bodyHash("x"));
    const asked = ask({ max_tokens: 5000 });
    await provider.upstream.request(0);
    client.abort();
    await asked;
    const receipt = await until("a receipt comes", () => provider.receipts[0]);
    expect(receipt.usage.outputTokens).to.be.at.most(100);
  });

  it("after the last byte of its answer has changed nothing", async () => {
    place = await startTestGateway({ providers: [acknowledged(goodJson)] });
    const response = await ask({ stream: false });
    await response?.text();
    client.abort();
    await until("the job is settled", async () => (await stateOf()).attempt?.state === "settled");
    expect((await stateOf()).outcome).to.equal("completed");
  });

  it("or reads nothing is cut off after a time, and holds back the provider meanwhile", async () => {
    const piece = frame(chunkData({ content: "x".repeat(10_000) }));
    const flood = Array.from({ length: 3000 }, () => chunk(piece));
    place = await startTestGateway({
      providers: [acknowledged([head(200, eventStream), ...flood, hang])],
      settings: { clientStallMs: 300, idleTimeoutMs: 10_000 },
    });
    // A bare socket: it takes what its buffers hold and not a byte more.
    const socket = connect(Number(new URL(place.url).port), "127.0.0.1").pause();
    socket.on("error", () => undefined);
    const text = JSON.stringify(body);
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    const request = await place.providers[0]?.upstream.request(0);
    let isPlayed = false;
    void request?.played.then(() => {
      isPlayed = true;
    });
    await request?.gone;
    // 30 MB were never taken from the provider: the pace is the client's.
    expect(isPlayed).to.equal(false);
    socket.destroy();
  });
});
