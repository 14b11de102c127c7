import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { recoverTypedDataAddress } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { providerStatusTypedData } from "../../../protocol/messages.ts";
import { SseSplitter } from "../../../protocol/sse.ts";
import type { ModelStatus, ProviderStatus, SignedProviderStatus } from "../../../protocol/status.ts";
import { ProviderSigner } from "../../../provider/signer.ts";
import { StatusService } from "../../../provider/statistics/status-service.ts";
import { chunk, end, hang, hold } from "../../support/scripted-upstream.ts";
import { until } from "../../support/until.ts";
import { chatBody, readStream, runJob } from "../support/answers.ts";
import { type Market, startMarket, testModel } from "../support/market.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { startNode, type TestNode } from "../support/node.ts";
import {
  delta,
  doneChunk,
  goodAnswer,
  goodStream,
  type ScriptedBackend,
  startScriptedBackend,
  stopChunk,
  streamHead,
  usageChunk,
} from "../support/scripted-backend.ts";

const key = generatePrivateKey();
const domain = { chainId: 1, escrow: "0x00000000000000000000000000000000000000E5" } as const;

describe("StatusService", () => {
  function setup() {
    const clock = new ManualClock();
    const state = { running: 0 };
    const service = new StatusService({
      signer: new ProviderSigner(privateKeyToAccount(key), domain, privateKeyToAccount(key).address),
      clock,
      content: () => ({ draining: false, maxConcurrentJobs: 2, running: state.running, models: [] }),
    });
    const seen: SignedProviderStatus[] = [];
    let heartbeats = 0;
    const subscribe = (): (() => void) =>
      service.subscribe({
        status: (signed) => seen.push(signed),
        heartbeat: () => {
          heartbeats += 1;
        },
        replaced: () => undefined,
      });
    return { clock, state, service, seen, subscribe, heartbeats: () => heartbeats };
  }

  const bodyOf = (signed: SignedProviderStatus | undefined): ProviderStatus =>
    JSON.parse(signed?.body ?? "") as ProviderStatus;

  it("signs exactly the text that it gives, with its own time", async () => {
    const { service } = setup();
    const signed = await service.current();
    const { issuedAt, provider } = bodyOf(signed);
    const message = { provider: provider as `0x${string}`, issuedAt, bodyHash: bodyHash(signed.body) };
    const signer = await recoverTypedDataAddress({
      ...providerStatusTypedData(domain, message),
      signature: signed.signature,
    });
    expect(signer).to.equal(privateKeyToAccount(key).address);
  });

  it("has times that grow strictly, so that a reader can tell the newer of two", async () => {
    const { service, state } = setup();
    const times: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      state.running = turn;
      times.push(bodyOf(await service.current()).issuedAt);
    }
    expect(times).to.deep.equal(times.toSorted((a, b) => a - b));
    expect(new Set(times).size).to.equal(5);
  });

  it("goes by the clock again after it was set back from where no gateway believed it", async () => {
    const { clock, service } = setup();
    const toldAt = async (time: number): Promise<number> => {
      await clock.advance(1_000);
      clock.set(time);
      return bodyOf(await service.current()).issuedAt;
    };
    const right = bodyOf(await service.current()).issuedAt;
    expect(await toldAt(right + 3_600_000)).to.equal(right + 3_600_000);
    expect(await toldAt(right + 10), "an hour ahead would be an hour that nobody believes").to.equal(right + 10);
    expect(await toldAt(right - 100_000), "believed before, so that it must grow").to.equal(right + 11);
  });

  it("does not sign the same again within a second, however many ask", async () => {
    const { service, clock } = setup();
    const all = await Promise.all(Array.from({ length: 50 }, async () => await service.current()));
    expect(new Set(all.map((signed) => signed.signature)).size).to.equal(1);
    await clock.advance(1_000);
    expect((await service.current()).signature).to.not.equal(all[0]?.signature);
  });

  it("greets a subscriber with the status of now, and tells changes at most once in 250 ms, the last one always", async () => {
    const { service, clock, state, seen, subscribe } = setup();
    subscribe();
    await until("it was greeted", () => seen.length === 1);
    for (let turn = 1; turn <= 100; turn += 1) {
      state.running = turn;
      service.changed();
      await clock.advance(10);
    }
    await clock.advance(300);
    await until("the last change was told", () => bodyOf(seen.at(-1)).running === 100);
    expect(seen.length).to.be.within(4, 7);
  });

  it("tells nothing when nothing changed, but a heartbeat and a fresh status each 15 s", async () => {
    const { service, clock, seen, subscribe, heartbeats } = setup();
    subscribe();
    await until("it was greeted", () => seen.length === 1);
    service.changed();
    await clock.advance(300);
    await settle();
    const before = seen.length;
    service.changed();
    await clock.advance(14_000);
    expect(heartbeats()).to.equal(0);
    await clock.advance(1_500);
    expect(heartbeats()).to.equal(1);
    await until("a fresh status came", () => seen.length === before + 1);
  });

  it("leaves no timer behind when the last subscriber has gone", async () => {
    const { clock, seen, subscribe } = setup();
    const [a, b] = [subscribe(), subscribe()];
    await until("both were greeted", () => seen.length === 2);
    a();
    expect(clock.pending).to.equal(1);
    b();
    expect(clock.pending).to.equal(0);
  });
});

describe("a node's status over HTTP", () => {
  let market: Market;
  let backend: ScriptedBackend;
  let node: TestNode;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(["Hi"]));
    node = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_MAX_CONCURRENT_JOBS: "40" },
      dependencies: { probeRhythm: { healthyMs: 50, suspectMs: 50, suspectMaxMs: 50 } },
    });
  });

  after(async () => {
    await node.close();
    await backend.close();
    await market.stop();
  });

  const status = async (): Promise<ProviderStatus> => {
    const signed = (await (await fetch(`${node.url}/v1/status`)).json()) as SignedProviderStatus;
    return JSON.parse(signed.body) as ProviderStatus;
  };

  it("tells a stream that starts and ends as events, while it happens", async () => {
    const leave = new AbortController();
    const response = await fetch(`${node.url}/v1/status/events`, { signal: leave.signal });
    expect(response.headers.get("content-type")).to.include("text/event-stream");
    const seen: ProviderStatus[] = [];
    const reading = (async () => {
      const splitter = new SseSplitter();
      for await (const piece of response.body ?? []) {
        for (const frame of splitter.push(piece as Uint8Array)) {
          if (frame.event !== "status") continue;
          seen.push(JSON.parse((JSON.parse(frame.data ?? "") as SignedProviderStatus).body) as ProviderStatus);
        }
      }
    })().catch(() => undefined);
    await until("the first status came", () => seen.length === 1);
    const release = Promise.withResolvers<void>();
    backend.use([hold(release.promise), ...goodStream(["Hi"])]);
    const job = await market.client.post(node.address);
    const answer = await market.client.request(node.url, job, chatBody({ stream: true }));
    await until("the stream is told", () => seen.at(-1)?.running === 1);
    expect(seen.at(-1)?.models[0]).to.include({ model: testModel, running: 1, queuedInputTokens: 4 });
    release.resolve();
    await readStream(answer);
    await until("its end is told", () => seen.at(-1)?.running === 0 && seen.at(-1)?.models[0]?.queuedInputTokens === 0);
    leave.abort();
    await reading;
  });

  it("has measured throughput after five streams, in status and metrics, and loses it when the backend restarts", async () => {
    const gauge = async (): Promise<boolean> =>
      (await (await fetch(`${node.url}/metrics`)).text()).includes("t4t_provider_max_input_tps{");
    expect((await status()).models[0]?.maxInputTps).to.equal(undefined);
    expect(await gauge()).to.equal(false);
    for (let turn = 0; turn < 5; turn += 1) {
      backend.use(() => [
        streamHead,
        hold(delay(20)),
        chunk(delta("a") + stopChunk + usageChunk(1_000, 1) + doneChunk),
        end,
      ]);
      await runJob(market.client, node);
    }
    const measured = (await status()).models[0];
    // 1,000 tokens in 20 ms or a little more.
    expect(measured?.lastMeanInputTps).to.be.within(5_000, 50_000);
    expect(measured?.maxInputTps).to.be.at.least(measured?.lastMeanInputTps ?? 0);
    expect(await gauge()).to.equal(true);
    backend.use([hang]);
    backend.setHealthy(false);
    await until("it is down", async () => (await fetch(`${node.url}/readyz`)).status === 503, 15_000);
    backend.setHealthy(true);
    await until("it is back", async () => (await fetch(`${node.url}/readyz`)).status === 200, 15_000);
    const fresh = (await status()).models[0];
    expect(fresh?.generation).to.not.equal(measured?.generation);
    expect(fresh?.maxInputTps).to.equal(undefined);
    expect(await gauge()).to.equal(false);
  });

  describe("after answers that were not streamed", () => {
    /** Throughput after five answers that each take `tookMs` of the backend's time. */
    async function throughputOf(tookMs: number, ...answer: Parameters<typeof goodAnswer>): Promise<ModelStatus> {
      await restart();
      for (let turn = 0; turn < 5; turn += 1) {
        backend.use(() => [hold(delay(tookMs)), ...goodAnswer(...answer)]);
        const job = await market.client.post(node.address);
        const response = await market.client.request(node.url, job, chatBody());
        expect(response.status, await response.text()).to.equal(200);
      }
      return (await status()).models[0] ?? expect.fail("no model");
    }

    /** A new generation of the backend: what was measured before is gone. */
    async function restart(): Promise<void> {
      backend.setHealthy(false);
      await until("it is down", async () => (await fetch(`${node.url}/readyz`)).status === 503, 15_000);
      backend.setHealthy(true);
      await until("it is back", async () => (await fetch(`${node.url}/readyz`)).status === 200, 15_000);
    }

    it("knows the throughput where the engine says how long it generated, so that a market without streams has weights", async () => {
      const timings = { cache_n: 200, prompt_n: 800, prompt_ms: 40, predicted_n: 30, predicted_ms: 100 };
      // 800 tokens in the 50 ms before the first token, or a little more.
      const measured = await throughputOf(150, "Hello", 1_000, 30, { timings });
      expect(measured.lastMeanInputTps).to.be.within(4_000, 16_500);
      expect(measured.maxInputTps).to.be.at.least(measured.lastMeanInputTps ?? 0);
    });

    it("knows it of answers of one token, whose end is their first token", async () => {
      const measured = await throughputOf(50, "Yes", 1_000, 1);
      expect(measured.lastMeanInputTps).to.be.within(5_000, 20_500);
    });

    it("does not take the time of generating for the prompt's where the engine says nothing", async () => {
      expect(await throughputOf(50, "Hello", 1_000, 30)).to.not.have.any.keys("lastMeanInputTps", "maxInputTps");
    });

    it("believes no engine that generated for longer than its answer took", async () => {
      const timings = { prompt_n: 800, prompt_ms: 1, predicted_n: 30, predicted_ms: 10_000 };
      const measured = await throughputOf(20, "Hello", 1_000, 30, { timings });
      expect(measured).to.not.have.any.keys("lastMeanInputTps", "maxInputTps");
    });
  });

  it("has a place for whoever comes, that of the one that came first: strangers could else keep every gateway away", async () => {
    const leave = new AbortController();
    const follow = async (): Promise<Response> => await fetch(`${node.url}/v1/status/events`, { signal: leave.signal });
    const first = await follow();
    const crowd = await Promise.all(Array.from({ length: 255 }, follow));
    expect(crowd.every((response) => response.status === 200)).to.equal(true);
    const late = await follow();
    expect(late.status).to.equal(200);
    const greeting = await late.body?.getReader().read();
    expect(Buffer.from(greeting?.value ?? []).toString()).to.include("event: status");
    const cut: unknown = await first.text().catch((error: unknown) => error);
    expect(cut, "one more than can be served").to.be.instanceOf(Error);
    leave.abort();
  });
});
