import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { type SseFrame, SseSplitter } from "../../../protocol/sse.ts";
import { chunk, end, hang, head, hold } from "../../support/scripted-upstream.ts";
import { chunkData, frame, goodJson, oddStreams, scriptedText } from "../../support/upstream-scripts.ts";
import { until } from "../../support/until.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const request = { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 20 };
const good = acknowledged(goodJson);

interface Job {
  readonly id: string;
  readonly status: string;
  readonly response: { readonly choices: readonly { readonly message: { readonly content: string } }[] } | null;
  readonly attempts: readonly unknown[];
}

async function framesOf(response: Response): Promise<readonly SseFrame[]> {
  return new SseSplitter().push(Buffer.from(await response.arrayBuffer()));
}

describe("the job API", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  const post = async (body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    await postJson(`${place.url}/v1/jobs`, body, { headers });
  const get = async (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    await fetch(`${place.url}/v1/jobs${path}`, { headers });

  it("takes a job with 202, runs it whether or not anybody listens, and keeps its answer", async () => {
    place = await startTestGateway({ providers: [good] });
    const response = await post({ request });
    expect(response.status).to.equal(202);
    const { id } = (await response.json()) as Job;
    expect(response.headers.get("location")).to.equal(`/v1/jobs/${id}`);
    const job = await until("it is settled", async () => {
      const now = (await (await get(`/${id}`)).json()) as Job;
      return now.status === "settled" ? now : undefined;
    });
    expect(job.response?.choices[0]?.message.content).to.equal(scriptedText);
  });

  it("keeps nothing of a job that it could not take, as on a full disk, which would count as open for good", async () => {
    place = await startTestGateway({ providers: [good] });
    place.journal.failure = new Error("disk full");
    expect((await post({ request })).status).to.equal(500);
    place.journal.failure = undefined;
    const metrics = await (await fetch(`${place.url}/metrics`)).text();
    expect(metrics).to.include("t4t_gateway_open_jobs 0");
    expect(place.chain.posts).to.have.length(0);
  });

  it("streams its events, each named and dated, from selection to settlement, then ends", async () => {
    place = await startTestGateway({ providers: [acknowledged(oddStreams.plain)] });
    const frames = await framesOf(
      await post({ request: { ...request, stream: true } }, { accept: "text/event-stream" }),
    );
    const names = frames.map(({ event }) => event);
    expect(names.filter((name, index) => name !== names[index - 1])).to.deep.equal([
      "selecting_provider",
      "provider_selected",
      "posting_job",
      "job_posted",
      "provider_acked",
      "chunk",
      "delivered",
      "settled",
    ]);
    for (const { event, data } of frames) {
      if (event === "chunk") continue;
      const facts = JSON.parse(data ?? "") as { type: string; at: number };
      expect(facts.type).to.equal(event);
      expect(facts.at).to.be.closeTo(Date.now(), 60_000);
    }
    expect(frames.map(({ raw }) => /^id: (\d+)/.exec(raw.toString())?.[1])).to.deep.equal(
      frames.map((_, index) => String(index + 1)),
    );
  });

  it("replays events from the start or after the last one that a reader has, then follows", async () => {
    const gate = Promise.withResolvers<undefined>();
    place = await startTestGateway({ providers: [async (job) => [hold(gate.promise), ...(await good(job))]] });
    const { id } = (await (await post({ request })).json()) as Job;
    await until("it runs", () => place.providers[0]?.completions.length === 1);
    const whole = get(`/${id}/events`);
    const rest = get(`/${id}/events`, { "last-event-id": "3" });
    await Promise.all([whole, rest]);
    gate.resolve(undefined);
    const all = await framesOf(await whole);
    const later = await framesOf(await rest);
    expect(all.at(-1)?.event).to.equal("settled");
    expect(later.map(({ raw }) => raw.toString())).to.deep.equal(all.slice(3).map(({ raw }) => raw.toString()));
    const again = await framesOf(await get(`/${id}/events`));
    expect(
      again.map(({ raw }) => raw.toString()),
      "a job that is over is replayed whole",
    ).to.deep.equal(all.map(({ raw }) => raw.toString()));
  });

  describe("with an answer longer than what is kept of one", () => {
    const piece = frame(chunkData({ content: "x".repeat(10_000) }));
    const pieces = 3000;
    const last = chunkData({}, "stop", { usage: { prompt_tokens: 9, completion_tokens: 20 } });
    const flood = acknowledged([
      head(200, { "content-type": "text/event-stream" }),
      ...Array.from({ length: pieces / 100 }, () => chunk(piece.repeat(100))),
      chunk(frame(last) + frame("[DONE]")),
      end,
    ]);
    const long = { request: { ...request, stream: true }, stream: true };

    it("comes at the pace of a reader that is slow, which loses none of it", async () => {
      place = await startTestGateway({
        providers: [flood],
        settings: { idleTimeoutMs: 20_000, clientStallMs: 20_000 },
      });
      const response = await post(long);
      const reader = response.body?.getReader();
      const parts = [(await reader?.read())?.value ?? new Uint8Array()];
      const sent = await place.providers[0]?.upstream.request(0);
      let isPlayed = false;
      void sent?.played.then(() => {
        isPlayed = true;
      });
      // Turns enough to send all of it, were it not for the reader.
      for (let turn = 0; turn < 1000; turn += 1) await setImmediate();
      expect(isPlayed, "the provider waits for the reader").to.equal(false);
      for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) parts.push(read.value);
      const frames = new SseSplitter().push(Buffer.concat(parts));
      expect(frames.filter(({ event }) => event === "chunk")).to.have.length(pieces + 1);
      expect(frames.filter(({ event }) => event === "chunks_dropped")).to.have.length(0);
      expect(frames.at(-1)?.event).to.equal("settled");
    });

    it("tells a reader that comes late how much of it is gone, in its place", async () => {
      place = await startTestGateway({ providers: [flood] });
      const { id } = (await (await post({ request: { ...request, stream: true } })).json()) as Job;
      await until("it is settled", async () => ((await (await get(`/${id}`)).json()) as Job).status === "settled");
      const frames = await framesOf(await get(`/${id}/events`));
      const names = frames.map(({ event }) => event);
      expect(names.filter((name, index) => name !== names[index - 1])).to.deep.equal([
        "selecting_provider",
        "provider_selected",
        "posting_job",
        "job_posted",
        "provider_acked",
        "chunks_dropped",
        "chunk",
        "delivered",
        "settled",
      ]);
      const notice = frames.find(({ event }) => event === "chunks_dropped");
      const { count, upTo } = JSON.parse(notice?.data ?? "{}") as { count: number; upTo: number };
      const kept = frames.filter(({ event }) => event === "chunk");
      expect(count + kept.length).to.equal(pieces + 1);
      expect(kept[0]?.raw.toString()).to.match(new RegExp(`^id: ${upTo + 1}\n`));
      expect(notice?.hasControlFields, "it is no event of the job").to.equal(false);
    });

    it("goes on without a reader that has stopped reading", async () => {
      place = await startTestGateway({
        providers: [flood],
        settings: { clientStallMs: 200, keepAliveMs: 50, idleTimeoutMs: 20_000 },
      });
      const response = await post(long);
      const id = response.headers.get("x-t4t-job-id") ?? "";
      await until("it is settled", async () => ((await (await get(`/${id}`)).json()) as Job).status === "settled");
      await response.body?.cancel().catch(() => undefined);
    });
  });

  it("finds a request of the OpenAI routes by the id in its answer, without the answer itself", async () => {
    place = await startTestGateway({ providers: [good] });
    const answer = await postJson(`${place.url}/v1/chat/completions`, request);
    await answer.text();
    const id = answer.headers.get("x-t4t-job-id") ?? "";
    await until("it is settled", async () => ((await (await get(`/${id}`)).json()) as Job).status === "settled");
    expect(((await (await get(`/${id}`)).json()) as Job).response).to.equal(null);
    expect((await framesOf(await get(`/${id}/events`))).at(-1)?.event).to.equal("settled");
  });

  it("finds a request by the id of every job that it led to", async () => {
    place = await startTestGateway({ providers: [() => [], good], settings: { ackTimeoutMs: 50 } });
    const { id } = (await (await post({ request })).json()) as Job;
    await until("the second answers", () => place.chain.jobs.size === 2);
    for (const jobId of place.chain.jobs.keys())
      expect(((await (await get(`/${jobId}`)).json()) as Job).id).to.equal(id);
  });

  it("tells a failure as its last event", async () => {
    place = await startTestGateway({ providers: [good] });
    const frames = await framesOf(await post({ request: { ...request, model: "nobody/has-this" }, stream: true }));
    expect(frames.map(({ event }) => event)).to.deep.equal(["selecting_provider", "failed"]);
    expect(JSON.parse(frames.at(-1)?.data ?? "")).to.include({ code: "model_not_found" });
  });

  it("ends a job on request", async () => {
    place = await startTestGateway({
      providers: [() => [hang]],
      settings: { ackTimeoutMs: 60_000 },
    });
    const { id } = (await (await post({ request })).json()) as Job;
    const sent = await place.providers[0]?.upstream.request(0);
    expect((await postJson(`${place.url}/v1/jobs/${id}/cancel`, {})).status).to.equal(202);
    await sent?.gone;
    await until("it is over", async () => ((await (await get(`/${id}`)).json()) as Job).status === "cancelled");
  });

  it("pages, newest first", async () => {
    place = await startTestGateway({ providers: [good] });
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      const { id } = (await (await post({ request })).json()) as Job;
      await until("its end is journaled", () => place.journal.jobs.get(id)?.status === "settled");
      ids.unshift(id);
    }
    const first = (await (await get("?limit=3")).json()) as { data: Job[]; hasMore: boolean; nextBefore: number };
    expect(first.data.map(({ id }) => id)).to.deep.equal(ids.slice(0, 3));
    expect(first.hasMore).to.equal(true);
    const second = (await (await get(`?limit=3&before=${first.nextBefore}`)).json()) as { data: Job[] };
    expect(second.data.map(({ id }) => id)).to.deep.equal(ids.slice(3));
    expect((await get("?limit=0")).status).to.equal(400);
    expect((await get("?before=x")).status).to.equal(400);
  });

  for (const [what, body, param] of [
    ["no request", {}, "request"],
    ["a type that is not known", { type: "embeddings", request }, "type"],
    ["stream of another type", { request, stream: "yes" }, "stream"],
    ["a bad field inside", { request: { ...request, max_tokens: -1 } }, "max_tokens"],
  ] as const) {
    it(`refuses a job with ${what}`, async () => {
      place = await startTestGateway({ providers: [good] });
      const response = await post(body);
      expect(response.status).to.equal(400);
      expect(((await response.json()) as { error: { param: string } }).error.param).to.equal(param);
      expect(place.chain.posts).to.have.length(0);
    });
  }

  it("says job_not_found for ids that never were", async () => {
    place = await startTestGateway({ providers: [good] });
    for (const path of ["/x", `/0x${"00".repeat(32)}`, `/0x${"00".repeat(32)}/events`]) {
      const response = await get(path);
      expect(response.status, path).to.equal(404);
      expect(((await response.json()) as { error: { code: string } }).error.code).to.equal("job_not_found");
    }
  });
});
