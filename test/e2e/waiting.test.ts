import { expect } from "chai";
import OpenAI from "openai";
import { sseFrames } from "../../scripts/network/job-events.ts";
import { type LocalNetwork, startLocalNetwork } from "../../scripts/network/local-network.ts";
import type { SseFrame } from "../../protocol/sse.ts";
import { contractEvents, providerOnChain, testModel, testOffering } from "../support/network.ts";
import { until } from "../support/until.ts";

const messages = [{ role: "user" as const, content: "Say something long." }];

/** Greatest number of open jobs that the provider ever had, by the chain's own events. */
async function mostOpenJobs(network: LocalNetwork, provider: string): Promise<number> {
  const { registry } = await contractEvents(network);
  let most = 0;
  for (const event of registry) {
    if (event.eventName === "SlotsChanged" && event.args.provider === provider)
      most = Math.max(most, event.args.openJobs ?? 0);
  }
  return most;
}

async function post(url: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

async function allFrames(response: Response): Promise<SseFrame[]> {
  const frames: SseFrame[] = [];
  for await (const frame of sseFrames(response)) frames.push(frame);
  return frames;
}

function text(frames: readonly SseFrame[]): string {
  let all = "";
  for (const { data } of frames) {
    if (data === undefined || data === "[DONE]") continue;
    all += (JSON.parse(data) as { choices: { delta?: { content?: string } }[] }).choices[0]?.delta?.content ?? "";
  }
  return all;
}

describe("two clients and a provider with one slot", function () {
  this.timeout(120_000);
  let network: LocalNetwork;
  let gatewayUrl: string;
  let impatientUrl: string;

  before(async () => {
    network = await startLocalNetwork({
      providers: [{ name: "provider-1", maxConcurrentJobs: 1, offerings: [testOffering()] }],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 20 },
      gateways: [
        { name: "gateway-1", port: 0, env: { T4T_PROVIDER_WAIT_POLL_SECONDS: "1", T4T_COMMIT_GRACE_MS: "200" } },
        { name: "gateway-2", port: 0, env: { T4T_PROVIDER_WAIT_SECONDS: "0" } },
      ],
    });
    gatewayUrl = network.gateways[0]?.url ?? "";
    impatientUrl = network.gateways[1]?.url ?? "";
  });

  after(async () => {
    await network.stop();
  });

  /** Holds the only slot with a stream, from its first token until its end. */
  async function holdSlot(maxTokens = 80): Promise<{ readonly finished: Promise<void> }> {
    const client = new OpenAI({ baseURL: `${gatewayUrl}/v1`, apiKey: "any", maxRetries: 0 });
    const stream = await client.chat.completions.create({
      model: testModel,
      messages,
      max_completion_tokens: maxTokens,
      stream: true,
    });
    const iterator = stream[Symbol.asyncIterator]();
    await iterator.next();
    const finished = (async () => {
      while ((await iterator.next()).done !== true);
    })();
    return { finished };
  }

  async function slotFree(): Promise<void> {
    const provider = network.providers[0];
    if (provider === undefined) throw new Error("no provider");
    await until("the slot is freed", async () => (await providerOnChain(network, provider.address)).openJobs === 0);
  }

  afterEach(slotFree);

  it("shows the second one waiting_for_capacity as a comment on the OpenAI route and serves it after the first", async () => {
    const first = await holdSlot();
    const response = await post(`${gatewayUrl}/v1/chat/completions`, {
      model: testModel,
      messages,
      max_tokens: 20,
      stream: true,
    });
    const frames = await allFrames(response);
    const waiting = frames
      .flatMap(({ comments }) => comments)
      .filter((comment) => comment.startsWith("waiting_for_capacity "));
    expect(waiting).to.have.length.greaterThan(0);
    const facts = JSON.parse(waiting[0]?.slice("waiting_for_capacity ".length) ?? "") as Record<string, unknown>;
    expect(facts).to.include({ model: testModel, position: 1, busyProviders: 1 });
    expect(frames.at(-1)?.data).to.equal("[DONE]");
    expect(text(frames)).to.not.equal("");
    await first.finished;
  });

  it("shows it as a named event that carries an inert chunk when the client asks for events", async () => {
    const first = await holdSlot();
    const response = await post(
      `${gatewayUrl}/v1/chat/completions`,
      { model: testModel, messages, max_tokens: 20, stream: true },
      { "x-t4t-progress": "event" },
    );
    const frames = await allFrames(response);
    const waiting = frames.filter(({ event }) => event === "waiting_for_capacity");
    expect(waiting).to.have.length.greaterThan(0);
    const chunk = JSON.parse(waiting[0]?.data ?? "") as { object: string; choices: unknown; t4t: { position: number } };
    expect(chunk.object).to.equal("chat.completion.chunk");
    expect(chunk.choices).to.deep.equal([{ index: 0, delta: {}, finish_reason: null }]);
    expect(chunk.t4t.position).to.equal(1);
    expect(frames.at(-1)?.data).to.equal("[DONE]");
    await first.finished;
  });

  it("shows it as a named event on the job route, from selection to settlement", async () => {
    const first = await holdSlot();
    const response = await post(
      `${gatewayUrl}/v1/jobs`,
      { request: { model: testModel, messages, max_tokens: 20, stream: true } },
      { accept: "text/event-stream" },
    );
    const seen: string[] = [];
    for (const { event } of await allFrames(response))
      if (event !== undefined && seen.at(-1) !== event) seen.push(event);
    const steps = seen.filter((event) => event !== "chunk");
    expect(steps).to.include.members(["waiting_for_capacity", "job_posted", "provider_acked", "delivered", "settled"]);
    expect(steps.indexOf("waiting_for_capacity")).to.be.lessThan(steps.indexOf("job_posted"));
    expect(steps.at(-1)).to.equal("settled");
    await first.finished;
  });

  it("serves an unmodified client that waits, as if nothing had happened", async () => {
    const first = await holdSlot();
    const client = new OpenAI({ baseURL: `${gatewayUrl}/v1`, apiKey: "any", maxRetries: 0 });
    const answer = await client.chat.completions.create({ model: testModel, messages, max_completion_tokens: 20 });
    expect(answer.choices[0]?.message.content).to.be.a("string").and.not.equal("");
    await first.finished;
  });

  it("refuses at once with 503 when waiting is off", async () => {
    const first = await holdSlot();
    const started = performance.now();
    const response = await post(`${impatientUrl}/v1/chat/completions`, {
      model: testModel,
      messages,
      max_tokens: 20,
      stream: true,
    });
    const elapsedMs = performance.now() - started;
    expect(response.status).to.equal(503);
    expect(Number(response.headers.get("retry-after"))).to.be.within(1, 60);
    const body = (await response.json()) as { error: Record<string, unknown> };
    expect(body.error).to.have.all.keys("message", "type", "param", "code");
    expect(body.error.message).to.not.match(/billing|quota|credit/i);
    expect(elapsedMs, "fail fast means no poll interval in between").to.be.lessThan(4000);
    await first.finished;
  });

  it("answers an unknown model with 404 without waiting", async () => {
    const response = await post(`${gatewayUrl}/v1/chat/completions`, {
      model: "nobody/serves-this",
      messages,
      stream: true,
    });
    expect(response.status).to.equal(404);
    expect(response.headers.get("x-should-retry")).to.equal("false");
    expect(((await response.json()) as { error: { code: string } }).error.code).to.equal("model_not_found");
  });

  it("frees the place in the line when a waiting client goes away", async () => {
    const first = await holdSlot(120);
    const abort = new AbortController();
    const gone = fetch(`${gatewayUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-t4t-progress": "event" },
      body: JSON.stringify({ model: testModel, messages, max_tokens: 20, stream: true }),
      signal: abort.signal,
    });
    await gone;
    abort.abort();
    const response = await post(
      `${gatewayUrl}/v1/chat/completions`,
      { model: testModel, messages, max_tokens: 20, stream: true },
      { "x-t4t-progress": "event" },
    );
    const frames = await allFrames(response);
    const positions = frames
      .filter(({ event }) => event === "waiting_for_capacity")
      .map(({ data }) => (JSON.parse(data ?? "") as { t4t: { position: number } }).t4t.position);
    expect(positions.at(-1) ?? 1).to.equal(1);
    expect(frames.at(-1)?.data).to.equal("[DONE]");
    await first.finished;
  });

  it("never had more than one job open", async () => {
    expect(await mostOpenJobs(network, network.providers[0]?.address ?? "")).to.equal(1);
  });
});

describe("a full provider beside one that is not", function () {
  this.timeout(120_000);
  let network: LocalNetwork;

  before(async () => {
    network = await startLocalNetwork({
      providers: [
        { name: "cheap", maxConcurrentJobs: 1, offerings: [testOffering(1n)] },
        { name: "dear", maxConcurrentJobs: 1, offerings: [testOffering(3n)] },
        { name: "uncapped", maxConcurrentJobs: 0, offerings: [testOffering(2n, "t4t/uncapped")] },
      ],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 15 },
    });
  });

  after(async () => {
    await network.stop();
  });

  it("sends the second job to the next cheapest instead of waiting", async () => {
    const url = network.gateways[0]?.url ?? "";
    const body = { model: testModel, messages, max_tokens: 60, stream: true };
    const first = await post(`${url}/v1/chat/completions`, body);
    const second = await post(`${url}/v1/chat/completions`, body);
    expect(first.headers.get("x-t4t-provider")).to.equal(network.providers[0]?.address);
    expect(second.headers.get("x-t4t-provider")).to.equal(network.providers[1]?.address);
    for (const response of [first, second]) {
      const comments: string[] = [];
      for await (const frame of sseFrames(response)) comments.push(...frame.comments);
      expect(comments.some((comment) => comment.startsWith("waiting_for_capacity"))).to.equal(false);
    }
  });

  it("gives a provider without a cap every job at once", async () => {
    const url = network.gateways[0]?.url ?? "";
    const body = { model: "t4t/uncapped", messages, max_tokens: 40, stream: true };
    const responses = await Promise.all(
      Array.from({ length: 8 }, async () => await post(`${url}/v1/chat/completions`, body)),
    );
    for (const response of responses) expect(response.status).to.equal(200);
    await Promise.all(responses.map(async (response) => await response.text()));
    expect(await mostOpenJobs(network, network.providers[2]?.address ?? "")).to.be.greaterThan(2);
  });
});
