import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { T4tError } from "../../../protocol/errors.ts";
import type { ProgressEvent, ProgressMode } from "../../../protocol/progress.ts";
import { type SseFrame, SseSplitter } from "../../../protocol/sse.ts";
import { StreamSink } from "../../../gateway/progress/answer-sinks.ts";
import { ManualClock } from "../support/manual-clock.ts";

const waiting: ProgressEvent = {
  type: "waiting_for_capacity",
  model: "m",
  busyProviders: 1,
  position: 3,
  waitedMs: 0,
  limitMs: 1000,
};
const selecting: ProgressEvent = { type: "selecting_provider", model: "m" };
const head = {
  jobId: `0x${"22".repeat(32)}`,
  provider: `0x${"33".repeat(20)}`,
  modelId: "m",
  decision: undefined,
} as const;

/** One answer: the sink at the gateway's end, what the client has got so far at the other. */
class Scene {
  readonly clock = new ManualClock();
  readonly sink: StreamSink;
  readonly #server: Server;
  readonly #response: Promise<Response>;
  readonly #splitter = new SseSplitter();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  private constructor(server: Server, response: Promise<Response>, target: ServerResponse, mode: ProgressMode) {
    this.#server = server;
    this.#response = response;
    this.sink = new StreamSink({
      response: target,
      clock: this.clock,
      mode,
      chunk: { kind: "chat", id: "chatcmpl-inert", created: 1, model: "m" },
      jobId: "0xjob",
      graceMs: 1500,
      keepAliveMs: 8000,
      stallMs: 60_000,
      debug: false,
    });
  }

  static async open(mode: ProgressMode): Promise<Scene> {
    const arrived = Promise.withResolvers<ServerResponse>();
    const server = createServer((_request, response) => arrived.resolve(response));
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const response = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    return new Scene(server, response, await arrived.promise, mode);
  }

  async response(): Promise<Response> {
    return await this.#response;
  }

  /** The next frames, at least one; none at the end. */
  async frames(): Promise<readonly SseFrame[]> {
    this.#reader ??= (await this.#response).body?.getReader();
    for (;;) {
      const read = await this.#reader?.read();
      if (read === undefined || read.done) return [];
      const frames = this.#splitter.push(read.value);
      if (frames.length > 0) return frames;
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }
}

describe("progress inside an OpenAI stream", () => {
  let scene: Scene;

  afterEach(async () => {
    await scene.close();
  });

  it("leaves an error its own status as long as the grace time runs", async () => {
    scene = await Scene.open("comment");
    scene.sink.progress(waiting);
    scene.clock.advance(1499);
    scene.sink.fail(new T4tError("server_is_overloaded", "full", { retryAfterSeconds: 7 }));
    const response = await scene.response();
    expect(response.status).to.equal(503);
    expect(response.headers.get("retry-after")).to.equal("7");
    expect(response.headers.get("content-type")).to.equal("application/json");
  });

  it("then commits to a stream with one frame at once", async () => {
    scene = await Scene.open("comment");
    scene.sink.progress(selecting);
    scene.sink.progress(waiting);
    scene.clock.advance(1500);
    const response = await scene.response();
    expect(response.status).to.equal(200);
    expect(response.headers.get("content-type")).to.equal("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).to.equal("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).to.equal("no");
    expect(response.headers.get("x-t4t-job-id")).to.equal("0xjob");
    const [frame, ...more] = await scene.frames();
    expect(more).to.have.length(0);
    expect(frame?.comments[0]).to.match(/^waiting_for_capacity \{"model":"m","busyProviders":1,"position":3/);
    expect(frame?.data).to.equal(undefined);
  });

  it("keeps a silent stream alive every few seconds and no oftener", async () => {
    scene = await Scene.open("off");
    scene.sink.progress(waiting);
    scene.clock.advance(1500);
    expect((await scene.frames())[0]?.comments).to.deep.equal(["keep-alive"]);
    scene.clock.advance(5000);
    scene.sink.start(head);
    scene.sink.write(Buffer.from("data: 1\n\n"));
    expect((await scene.frames()).map(({ data }) => data)).to.deep.equal(["1"]);
    scene.clock.advance(7999);
    scene.sink.write(Buffer.from("data: 2\n\n"));
    expect(
      (await scene.frames()).map(({ data }) => data),
      "no keep-alive in between",
    ).to.deep.equal(["2"]);
    scene.clock.advance(8000);
    expect((await scene.frames())[0]?.comments).to.deep.equal(["keep-alive"]);
  });

  it("tells an error after the commit in one unnamed frame and ends without [DONE]", async () => {
    scene = await Scene.open("comment");
    scene.clock.advance(1500);
    await scene.frames();
    scene.sink.fail(new T4tError("capacity_timeout", "waited", { retryAfterSeconds: 30 }));
    const [frame] = await scene.frames();
    expect(frame?.event).to.equal(undefined);
    expect(JSON.parse(frame?.data ?? "")).to.deep.equal({
      error: {
        message: "waited",
        type: "service_unavailable_error",
        param: null,
        code: "capacity_timeout",
        retry_after_ms: 30_000,
      },
    });
    expect(await scene.frames()).to.have.length(0);
    expect(scene.clock.pending, "no timer is left").to.equal(0);
  });

  it("ends the response at once when the answer is complete", async () => {
    scene = await Scene.open("comment");
    scene.sink.start(head);
    scene.sink.write(Buffer.from("data: [DONE]\n\n"));
    scene.sink.end();
    expect((await scene.response()).headers.get("x-t4t-provider")).to.equal(head.provider);
    expect((await scene.frames())[0]?.data).to.equal("[DONE]");
    expect(await scene.frames()).to.have.length(0);
    expect(scene.clock.pending).to.equal(0);
  });

  it("shows nothing of the waiting to a client that is answered within the grace time", async () => {
    scene = await Scene.open("comment");
    scene.sink.progress(waiting);
    scene.sink.start(head);
    scene.sink.write(Buffer.from("data: 1\n\n"));
    const [frame] = await scene.frames();
    expect(frame?.raw.toString()).to.equal("data: 1\n\n");
    expect(scene.sink.chunkId).to.equal(undefined);
  });

  for (const mode of ["event", "chunk"] as const) {
    it(`sends legal inert chunks in mode ${mode} as soon as there is something to say, and keeps their id`, async () => {
      scene = await Scene.open(mode);
      scene.sink.progress(selecting);
      expect(scene.sink.committed, "a model that nobody offers still gets its 404").to.equal(false);
      scene.sink.progress(waiting);
      const frames = [...(await scene.frames())];
      while (frames.length < 2) frames.push(...(await scene.frames()));
      const [first, second] = frames;
      expect(first?.event).to.equal(mode === "event" ? "selecting_provider" : undefined);
      expect(second?.event).to.equal(mode === "event" ? "waiting_for_capacity" : undefined);
      expect(JSON.parse(second?.data ?? "")).to.deep.equal({
        id: "chatcmpl-inert",
        object: "chat.completion.chunk",
        created: 1,
        model: "m",
        choices: [{ index: 0, delta: {}, finish_reason: null }],
        t4t: waiting,
      });
      expect(scene.sink.chunkId).to.equal("chatcmpl-inert");
    });
  }

  it("keeps alive with data in mode chunk, for clients that parse every line", async () => {
    scene = await Scene.open("chunk");
    scene.sink.progress(waiting);
    await scene.frames();
    scene.clock.advance(8000);
    const [frame] = await scene.frames();
    expect(JSON.parse(frame?.data ?? ""))
      .to.have.property("choices")
      .with.length(1);
    expect(frame?.comments).to.have.length(0);
  });

  it("writes no more progress once the answer has begun", async () => {
    scene = await Scene.open("event");
    scene.sink.start(head);
    scene.sink.progress(waiting);
    scene.sink.write(Buffer.from("data: 1\n\n"));
    expect((await scene.frames()).map(({ data }) => data)).to.deep.equal(["1"]);
  });
});
