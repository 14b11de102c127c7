import { once } from "node:events";
import { join } from "node:path";
import { expect } from "chai";
import type { Hex } from "viem";
import { localFunderKey, participant } from "../../scripts/network/accounts.ts";
import { sseFrames } from "../../scripts/network/job-events.ts";
import { type LocalNetwork, type RunningGateway, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { rpcCall, startHardhatChain, type TestChain } from "../support/chain.ts";
import { fundedWallet, type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { openRaw } from "../support/http-request.ts";
import { type BackendCall, type BackendMode, type LiveBackend, startLiveBackend } from "../support/live-backend.ts";
import { contractEvents, escrowAccount, providerOnChain, testModel, testOffering } from "../support/network.ts";
import { countingRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";
import { until } from "../support/until.ts";

const messages = [{ role: "user", content: "Say something long." }];
const liveModel = "t4t/live";
const megabytes = 64;
const deposit = 100_000_000n;

interface ErrorAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly error: { readonly message: string; readonly type: string; readonly code: string };
}

describe("operating a gateway", function () {
  this.timeout(120_000);
  let chain: TestChain;
  let proxy: RpcProxy;
  let backend: LiveBackend;
  let network: LocalNetwork;
  let gateway: RunningGateway;
  const started: GatewayProcess[] = [];
  const proxies: RpcProxy[] = [];

  before(async () => {
    [chain, backend] = await Promise.all([startHardhatChain(), startLiveBackend("live", megabytes)]);
    proxy = await countingRpcProxy(chain.rpcUrl);
    network = await startLocalNetwork({
      rpcUrl: chain.rpcUrl,
      funderKey: localFunderKey,
      providers: [
        { name: "steady", maxConcurrentJobs: 1, offerings: [testOffering()] },
        {
          name: "live",
          maxConcurrentJobs: 0,
          offerings: [testOffering(2n, liveModel)],
          backendUrl: backend.url,
          env: { T4T_UNFETCHED_DECLINE_SECONDS: "3", T4T_RECEIPT_GRACE_SECONDS: "3" },
        },
      ],
      gateways: [
        {
          name: "gateway",
          port: 0,
          env: { T4T_RPC_URL: proxy.url, T4T_CLIENT_STALL_SECONDS: "3", T4T_COMMIT_GRACE_MS: "300" },
        },
      ],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 20 },
    });
    gateway = network.gateways[0] as RunningGateway;
  });

  after(async () => {
    await Promise.all(started.map(async ({ child }) => await child.stop(5000)));
    await network.stop();
    await Promise.all([proxy, ...proxies].map(async (one) => await one.stop()));
    await backend.close();
    await chain.stop();
  });

  async function start(name: string, funds: bigint, env: Record<string, string>): Promise<GatewayProcess> {
    const process = await startGatewayProcess(network, await fundedWallet(network, name, funds), env);
    started.push(process);
    return process;
  }

  async function spoiltRpc(fault: Parameters<RpcProxy["setFault"]>[0]): Promise<RpcProxy> {
    const spoilt = await countingRpcProxy(chain.rpcUrl);
    proxies.push(spoilt);
    spoilt.setFault(fault);
    return spoilt;
  }

  async function post(url: string, body: object, more: RequestInit = {}): Promise<Response> {
    return await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      ...more,
      headers: { "content-type": "application/json", ...(more.headers as Record<string, string> | undefined) },
      body: JSON.stringify({ messages, max_tokens: 10, ...body }),
    });
  }

  async function expectError(response: Response, status: number, code: string): Promise<ErrorAnswer> {
    const text = await response.text();
    expect(response.status, text).to.equal(status);
    const { error } = JSON.parse(text) as { error: ErrorAnswer["error"] };
    expect(error, text).to.have.all.keys("message", "type", "param", "code");
    expect(error.code, text).to.equal(code);
    expect(response.headers.get("x-request-id")).to.be.a("string");
    return { status, headers: response.headers, error };
  }

  async function listening({ url, child }: GatewayProcess): Promise<void> {
    await until(
      `the gateway listens: ${child.tail()}`,
      async () =>
        await fetch(`${url}/healthz`).then(
          ({ ok }) => ok,
          () => false,
        ),
      30_000,
      50,
    );
  }

  async function ready(url: string): Promise<void> {
    await until("the gateway is ready", async () => (await fetch(`${url}/readyz`)).ok, 30_000, 50);
  }

  async function postedBy(client: Hex): Promise<number> {
    const { escrow } = await contractEvents(network);
    return escrow.filter((event) => event.eventName === "JobPosted" && event.args.client === client).length;
  }

  async function metric(name: string): Promise<number> {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1] ?? Number.NaN);
  }

  /** Every job of the gateway has ended, no slot is taken and no money locked. */
  async function allOver(): Promise<void> {
    const client = gateway.participant.account.address;
    await until(
      "every slot is freed and no money is locked",
      async () => {
        const providers = await Promise.all(
          network.providers.map(async ({ address }) => await providerOnChain(network, address)),
        );
        return (
          providers.every(({ openJobs }) => openJobs === 0) && (await escrowAccount(network, client)).locked === 0n
        );
      },
      30_000,
      50,
    );
    await until("the gateway knows it", async () => (await metric("t4t_gateway_open_jobs")) === 0, 30_000, 50);
    expect(await metric("t4t_gateway_running_requests")).to.equal(0);
    const { escrow } = await contractEvents(network);
    const posted = escrow.filter(({ eventName }) => eventName === "JobPosted").map(({ args }) => jobIdOf(args));
    const ended = escrow
      .filter(({ eventName }) => ["JobCompleted", "JobDeclined", "JobCancelled", "JobExpired"].includes(eventName))
      .map(({ args }) => jobIdOf(args));
    expect(new Set(posted).size, "a job was posted twice").to.equal(posted.length);
    expect(ended.toSorted(), "each job ends once").to.deep.equal(posted.toSorted());
  }

  describe("at its start", () => {
    const faults = {
      "refuses connections": { kind: "drop" },
      "never answers": { kind: "hang" },
      "says 429": { kind: "http", status: 429 },
    } as const;
    const degraded = new Map<string, { readonly process: GatewayProcess; readonly rpc: RpcProxy }>();

    before(async () => {
      for (const [name, fault] of Object.entries(faults)) {
        const rpc = await spoiltRpc(() => fault);
        const env = { T4T_RPC_URL: rpc.url, T4T_RPC_TIMEOUT_MS: "500" };
        degraded.set(name, { rpc, process: await start(`degraded ${name}`, deposit, env) });
      }
    });

    for (const name of Object.keys(faults)) {
      it(`is degraded, not dead, while the RPC ${name}, and heals by itself`, async () => {
        const { process, rpc } = degraded.get(name) ?? {};
        if (process === undefined || rpc === undefined) throw new Error("not started");
        await listening(process);
        expect((await fetch(`${process.url}/readyz`)).status).to.equal(503);
        for (const stream of [true, false]) {
          const { headers } = await expectError(
            await post(process.url, { model: testModel, stream }),
            503,
            "chain_unavailable",
          );
          expect(Number(headers.get("retry-after"))).to.be.within(1, 60);
        }
        await expectError(await fetch(`${process.url}/v1/models`), 503, "chain_unavailable");
        const job = await fetch(`${process.url}/v1/jobs`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ request: { model: testModel, messages } }),
        });
        await expectError(job, 503, "chain_unavailable");
        rpc.setFault(undefined);
        await ready(process.url);
        const answer = await post(process.url, { model: testModel });
        expect(answer.status, await answer.text()).to.equal(200);
        expect(process.child.running).to.equal(true);
        await process.child.stop(10_000);
      });
    }

    const wrong = "0x00000000000000000000000000000000000000c0";
    const settings = (): Record<string, string> => ({
      T4T_DEPLOYMENT_FILE: "",
      T4T_CHAIN_ID: String(network.chainId),
      T4T_REGISTRY_ADDRESS: network.deployment.registry,
      T4T_ESCROW_ADDRESS: network.deployment.escrow,
    });
    const refusals: readonly (readonly [string, () => Record<string, string>, string])[] = [
      ["a registry without code", () => ({ ...settings(), T4T_REGISTRY_ADDRESS: wrong }), "T4T_REGISTRY_ADDRESS"],
      ["an escrow without code", () => ({ ...settings(), T4T_ESCROW_ADDRESS: wrong }), "T4T_ESCROW_ADDRESS"],
      [
        "a token in place of the escrow",
        () => ({ ...settings(), T4T_ESCROW_ADDRESS: network.deployment.token }),
        "T4T_ESCROW_ADDRESS",
      ],
      ["another chain's id", () => ({ ...settings(), T4T_CHAIN_ID: "1" }), "T4T_CHAIN_ID"],
      ["a port that is taken", () => ({ T4T_GATEWAY_PORT: new URL(gateway.url).port }), "T4T_GATEWAY_PORT"],
      [
        "the data of a gateway that runs",
        () => ({ T4T_DATA_DIR: join(network.dataDir, gateway.name) }),
        "T4T_DATA_DIR",
      ],
    ];
    it("refuses to run with what no waiting cures, and names the variable, without a key or a stack in it", async () => {
      await Promise.all(
        refusals.map(async ([name, env, variable], index) => {
          const wallet = participant(network.funder.key, `refused ${index}`);
          const process = await startGatewayProcess(network, wallet, env());
          started.push(process);
          expect(await process.child.exited, `${name}: ${process.child.tail()}`).to.equal("exit code 1");
          const words = process.child.tail();
          expect(words, name).to.include(variable);
          expect(words, name).to.not.include(process.participant.key.slice(2));
          expect(words, name).to.not.match(/^\s+at .*:\d+:\d+\)?$/m);
        }),
      );
    });

    it("ends itself when the RPC comes up late and is that of another chain", async () => {
      const spoilt = await spoiltRpc(() => ({ kind: "drop" }));
      const process = await start("late and wrong", 0n, { ...settings(), T4T_CHAIN_ID: "5", T4T_RPC_URL: spoilt.url });
      await listening(process);
      spoilt.setFault(undefined);
      expect(await process.child.exited).to.equal("exit code 1");
      expect(process.child.tail()).to.include("T4T_CHAIN_ID");
    });
  });

  describe("with a wallet that cannot pay", () => {
    let poor: GatewayProcess;
    let gasless: GatewayProcess;

    before(async () => {
      poor = await start("poor", 0n, {});
      gasless = await start("gasless", deposit, {});
      await rpcCall(chain.rpcUrl, "hardhat_setBalance", [gasless.participant.account.address, "0x0"]);
      await Promise.all([poor, gasless].map(async (process) => await listening(process)));
      await Promise.all([poor, gasless].map(async ({ url }) => await ready(url)));
    });

    it("says 402 without escrow money, posts nothing, and serves as soon as there is some", async () => {
      const process = poor;
      const client = process.participant.account.address;
      for (const stream of [true, false]) {
        const response = await post(process.url, { model: testModel, stream });
        const { headers, error } = await expectError(response, 402, "insufficient_escrow_balance");
        expect(headers.get("x-should-retry")).to.equal("false");
        expect(error.message).to.not.match(/0x[0-9a-f]{40}/i);
      }
      expect(await postedBy(client)).to.equal(0);
      expect((await providerOnChain(network, network.providers[0]?.address ?? "0x")).openJobs).to.equal(0);
      await fundedWallet(network, "poor", deposit);
      const answer = await post(process.url, { model: testModel });
      expect(answer.status, await answer.text()).to.equal(200);
      await process.child.stop(10_000);
    });

    it("says 402 without ETH for gas, and serves as soon as there is some", async () => {
      const process = gasless;
      const client = process.participant.account.address;
      for (const stream of [true, false]) {
        const response = await post(process.url, { model: testModel, stream });
        await expectError(response, 402, "insufficient_escrow_balance");
      }
      expect(await postedBy(client)).to.equal(0);
      await rpcCall(chain.rpcUrl, "hardhat_setBalance", [client, "0xde0b6b3a7640000"]);
      const answer = await post(process.url, { model: testModel });
      expect(answer.status, await answer.text()).to.equal(200);
      await process.child.stop(10_000);
    });
  });

  describe("when its RPC goes away in mid-operation", () => {
    afterEach(async () => {
      proxy.setFault(undefined);
      await allOver();
    });

    it("finishes the answers under way, refuses new ones in their time, and goes on when it is back", async () => {
      const response = await post(gateway.url, { model: testModel, stream: true, max_tokens: 60 });
      const frames = sseFrames(response);
      await frames.next();
      proxy.setFault(() => ({ kind: "drop" }));
      // The SDKs say how long they will wait; nobody is kept longer than that.
      const refused = await post(gateway.url, { model: liveModel }, { headers: { "x-stainless-timeout": "2" } });
      await expectError(refused, 503, "chain_unavailable");
      let last: string | undefined;
      for await (const frame of frames) last = frame.data ?? last;
      expect(last).to.equal("[DONE]");
      proxy.setFault(undefined);
      const answer = await post(gateway.url, { model: testModel });
      expect(answer.status, await answer.text()).to.equal(200);
    });

    it("posts a job once when the answers of the node are lost", async () => {
      const client = gateway.participant.account.address;
      const before = await postedBy(client);
      let lost = 0;
      proxy.setFault(({ method }) => {
        if (method !== "eth_sendRawTransaction" || lost >= 3) return undefined;
        lost += 1;
        return { kind: "drop-answer" };
      });
      const answer = await post(gateway.url, { model: testModel });
      expect(answer.status, await answer.text()).to.equal(200);
      expect(lost).to.be.greaterThan(0);
      expect((await postedBy(client)) - before).to.equal(1);
    });

    it("serves all the same when half of the calls fail", async () => {
      let calls = 0;
      proxy.setFault(() => {
        calls += 1;
        return calls % 2 === 0 ? { kind: "http", status: 503 } : undefined;
      });
      const answers = await Promise.all(
        Array.from({ length: 5 }, async () => await post(gateway.url, { model: testModel })),
      );
      for (const answer of answers) expect(answer.status, await answer.text()).to.equal(200);
    });
  });

  describe("when its client goes away", () => {
    afterEach(allOver);

    function call(mode: BackendMode, from: number): Promise<BackendCall> {
      return until(`the backend is asked (${mode})`, () => backend.calls.slice(from).find((one) => one.mode === mode));
    }

    /** Starts a request that will be left. */
    function leaving(body: object): {
      readonly leave: () => void;
      readonly response: Promise<Response | undefined>;
    } {
      const abort = new AbortController();
      const response = post(gateway.url, body, { signal: abort.signal }).catch(() => undefined);
      return { leave: () => abort.abort(), response };
    }

    async function lastEnd(): Promise<Awaited<ReturnType<typeof contractEvents>>["escrow"][number] | undefined> {
      const { escrow } = await contractEvents(network);
      return escrow.findLast(({ eventName }) => ["JobCompleted", "JobDeclined", "JobCancelled"].includes(eventName));
    }

    it("in the line: leaves the line and pays nothing", async () => {
      const holder = await post(gateway.url, { model: testModel, stream: true, max_tokens: 100 });
      const client = gateway.participant.account.address;
      const before = await postedBy(client);
      const waiting = Array.from({ length: 3 }, (_, index) => leaving({ model: testModel, stream: index !== 0 }));
      const size = async (): Promise<number> =>
        await metric(`t4t_gateway_queue_size\\{gen_ai_request_model="${testModel}"\\}`);
      await until("three wait", async () => (await size()) === 3);
      for (const { leave } of waiting) leave();
      await until("nobody waits", async () => !((await size()) > 0));
      expect((await holder.text()).trimEnd().endsWith("[DONE]")).to.equal(true);
      await allOver();
      expect(await postedBy(client)).to.equal(before);
    });

    it("while its job is posted: the job is given back by the provider that nobody asked", async () => {
      const sent = proxy.count("eth_sendRawTransaction");
      proxy.setFault(({ method }) => (method === "eth_sendRawTransaction" ? { kind: "delay", ms: 500 } : undefined));
      const asked = backend.calls.length;
      const { leave } = leaving({ model: liveModel, user: "silent", stream: true });
      await until("the post is sent", () => proxy.count("eth_sendRawTransaction") > sent);
      leave();
      await until("the job has ended", async () => (await lastEnd())?.eventName === "JobDeclined", 20_000, 50);
      proxy.setFault(undefined);
      expect(backend.calls.length, "the backend works for nobody").to.equal(asked);
    });

    for (const [mode, stream] of [
      ["silent", true],
      ["headers", true],
      ["silent", false],
    ] as const) {
      it(`before the first token (backend ${mode}, ${stream ? "streamed" : "in one piece"}): the backend is cut, nothing is paid`, async () => {
        const from = backend.calls.length;
        const { leave } = leaving({ model: liveModel, user: mode, stream });
        const { over } = await call(mode, from);
        const left = performance.now();
        leave();
        expect(await over).to.equal("gone");
        expect(performance.now() - left, "the abort goes through at once").to.be.lessThan(2000);
        await allOver();
        const end = await lastEnd();
        expect(end?.eventName).to.equal("JobDeclined");
      });
    }

    it("in mid-stream: the backend is cut, and the part that was delivered is paid, by receipt", async () => {
      const from = backend.calls.length;
      const { leave, response } = leaving({ model: liveModel, user: "drip", stream: true, max_tokens: 1000 });
      let words = 0;
      for await (const { data } of sseFrames((await response) ?? Response.error())) {
        if (data?.includes('" word"') === true) words += 1;
        if (words >= 10) break;
      }
      const { over } = await call("drip", from);
      const left = performance.now();
      leave();
      expect(await over).to.equal("gone");
      expect(performance.now() - left, "the abort goes through at once").to.be.lessThan(2000);
      await allOver();
      const end = await lastEnd();
      if (end?.eventName !== "JobCompleted") throw new Error(`ended as ${end?.eventName}`);
      expect(end.args.signed).to.equal(true);
      expect(Number(end.args.outputTokens)).to.be.within(9, 400);
    });
  });

  describe("when its client reads slowly", () => {
    afterEach(allOver);

    async function slowReader(): Promise<{
      readonly backendCall: BackendCall;
      readonly raw: Awaited<ReturnType<typeof openRaw>>;
    }> {
      const from = backend.calls.length;
      const raw = await openRaw(gateway.url);
      const body = JSON.stringify({ model: liveModel, messages, max_tokens: 20_000, stream: true, user: "flood" });
      raw.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await once(raw.socket, "data");
      raw.socket.pause();
      const backendCall = await until("the backend is asked", () => backend.calls[from]);
      return { backendCall, raw };
    }

    /** Bytes that left the backend when nothing moves any more. */
    async function plateau(backendCall: BackendCall): Promise<number> {
      let last = -1;
      await until(
        "nothing moves any more",
        () => {
          const now = backendCall.written;
          const same = now === last;
          last = now;
          return same;
        },
        20_000,
        400,
      );
      return last;
    }

    it("holds the backend back instead of filling its memory, and gives every byte once they are read", async () => {
      const { backendCall, raw } = await slowReader();
      // What is in flight is in the buffers of three connections; more than that would be in the memory of one of the processes.
      expect(await plateau(backendCall)).to.be.lessThan(40_000_000);
      let bytes = 0;
      raw.socket.on("data", (part: Buffer) => {
        bytes += part.length;
      });
      raw.socket.resume();
      const text = await raw.received;
      expect(text.trimEnd().endsWith("0"), "the last chunk of the body").to.equal(true);
      expect(text.slice(-200)).to.include("data: [DONE]");
      expect(bytes).to.be.greaterThan(megabytes * 1024 * 1024 * 0.9);
      expect(await backendCall.over).to.equal("ended");
    });

    it("cuts a client that reads nothing for too long, and the backend with it", async () => {
      const { backendCall, raw } = await slowReader();
      expect(await backendCall.over).to.equal("gone");
      raw.socket.destroy();
    });
  });

  describe("at its end", () => {
    it("finishes its streams on SIGTERM, refuses new requests and those that wait, and exits 0", async () => {
      const response = await post(gateway.url, { model: testModel, stream: true, max_tokens: 100 });
      const frames = sseFrames(response);
      await frames.next();
      const waiting = post(gateway.url, { model: testModel });
      const size = `t4t_gateway_queue_size\\{gen_ai_request_model="${testModel}"\\}`;
      await until("one waits", async () => (await metric(size)) === 1);
      gateway.child.kill("SIGTERM");
      await until("it drains", async () => (await fetch(`${gateway.url}/readyz`)).status === 503);
      for (const stream of [true, false]) {
        const refused = await expectError(
          await post(gateway.url, { model: liveModel, stream }),
          503,
          "server_draining",
        );
        expect(Number(refused.headers.get("retry-after"))).to.be.within(1, 60);
        expect(refused.headers.get("connection")).to.equal("close");
      }
      await expectError(await waiting, 503, "server_draining");
      let last: string | undefined;
      for await (const frame of frames) last = frame.data ?? last;
      expect(last).to.equal("[DONE]");
      expect(await gateway.child.exited).to.equal("exit code 0");
    });

    it("leaves nothing behind that its next start does not take up", async () => {
      gateway = await gateway.restart();
      await allOver();
      const answer = await post(gateway.url, { model: testModel });
      expect(answer.status, await answer.text()).to.equal(200);
      await allOver();
    });
  });
});

function jobIdOf(args: object): string {
  return "jobId" in args ? String(args.jobId) : "";
}
