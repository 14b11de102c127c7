import { expect } from "chai";
import { sseFrames } from "../../scripts/network/job-events.ts";
import { type LocalNetwork, type RunningProvider, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { chainReader, contractEvents, providerOnChain, testModel, testOffering } from "../support/network.ts";
import { until } from "../support/until.ts";

const messages = [{ role: "user" as const, content: "Say something long." }];

describe("a provider node that is stopped and started", function () {
  this.timeout(120_000);
  let network: LocalNetwork;
  let provider: RunningProvider;

  before(async () => {
    network = await startLocalNetwork({
      providers: [{ name: "provider-1", maxConcurrentJobs: 2, offerings: [testOffering()] }],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 20 },
    });
    provider = network.providers[0] as RunningProvider;
  });

  after(async () => {
    await network.stop();
  });

  async function transactionsSent(): Promise<number> {
    return await chainReader(network).getTransactionCount({ address: provider.address });
  }

  async function capChanges(): Promise<number> {
    const { registry } = await contractEvents(network);
    return registry.filter((event) => event.eventName === "MaxConcurrentJobsUpdated").length;
  }

  it("publishes its cap once when it comes up", async () => {
    expect((await providerOnChain(network, provider.address)).maxConcurrentJobs).to.equal(2);
    expect(await capChanges()).to.equal(1);
  });

  it("sends no transaction when cap and offerings are as on chain", async () => {
    const before = await transactionsSent();
    await provider.child.stop(10_000);
    provider = await provider.restart();
    expect(await transactionsSent()).to.equal(before);
  });

  it("changes the chain once when it comes back with another cap", async () => {
    const before = await transactionsSent();
    await provider.child.stop(10_000);
    provider = await provider.restart({ T4T_MAX_CONCURRENT_JOBS: "5" });
    expect((await providerOnChain(network, provider.address)).maxConcurrentJobs).to.equal(5);
    expect(await transactionsSent()).to.equal(before + 1);
    expect(await capChanges()).to.equal(2);
  });

  it("finishes and settles its stream on SIGTERM, refuses new work, stays active on chain, and exits 0", async () => {
    const url = network.gateways[0]?.url ?? "";
    const body = { model: testModel, messages, max_tokens: 80, stream: true };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const frames = sseFrames(response);
    await frames.next();
    provider.child.kill("SIGTERM");
    let last: string | undefined;
    for await (const frame of frames) last = frame.data ?? last;
    expect(last, "a drained provider finishes what it began").to.equal("[DONE]");
    expect(await provider.child.exited).to.equal("exit code 0");
    const jobId = response.headers.get("x-t4t-job-id");
    const { escrow } = await contractEvents(network);
    const settled = escrow.find((event) => event.eventName === "JobCompleted" && event.args.jobId === jobId);
    expect(settled, "settled before the process went").to.not.equal(undefined);
    const onChain = await providerOnChain(network, provider.address);
    expect(onChain.openJobs).to.equal(0);
    expect(onChain.active).to.equal(true);
  });
});

describe("a provider with one slot that is stopped while a client waits for it", function () {
  this.timeout(120_000);
  let network: LocalNetwork;

  before(async () => {
    network = await startLocalNetwork({
      providers: [{ name: "provider-1", maxConcurrentJobs: 1, offerings: [testOffering()] }],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 20 },
      gateways: [{ name: "gateway-1", port: 0, env: { T4T_PROVIDER_WAIT_POLL_SECONDS: "1" } }],
    });
  });

  after(async () => {
    await network.stop();
  });

  it("is given no job while it shuts down, and the client keeps its place in line until it is back", async () => {
    const url = network.gateways[0]?.url ?? "";
    const provider = network.providers[0] as RunningProvider;
    const ask = async (maxTokens: number): Promise<Response> =>
      await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: testModel, messages, max_tokens: maxTokens, stream: maxTokens > 2 }),
      });
    const posted = async (): Promise<number> =>
      (await contractEvents(network)).escrow.filter(({ eventName }) => eventName === "JobPosted").length;
    const running = sseFrames(await ask(100));
    await running.next();
    const waiting = ask(2);
    await until("the second client waits", async () =>
      /^t4t_gateway_queue_size\S* 1$/m.test(await (await fetch(`${url}/metrics`)).text()),
    );
    provider.child.kill("SIGTERM");
    let last: string | undefined;
    for await (const frame of running) last = frame.data ?? last;
    expect(last).to.equal("[DONE]");
    expect(await provider.child.exited).to.equal("exit code 0");
    expect(
      (await providerOnChain(network, provider.address)).openJobs,
      "the slot is locked by a job for a node that has gone",
    ).to.equal(0);
    expect(await posted()).to.equal(1);
    await provider.restart();
    const response = await waiting;
    expect(response.status, await response.text()).to.equal(200);
    expect(await posted()).to.equal(2);
  });
});

describe("a provider that is killed before its first byte", function () {
  this.timeout(180_000);
  let network: LocalNetwork;

  before(async () => {
    network = await startLocalNetwork({
      providers: [
        { name: "doomed", maxConcurrentJobs: 1, offerings: [testOffering(1n)] },
        { name: "steady", maxConcurrentJobs: 1, offerings: [testOffering(3n)] },
      ],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 5 },
    });
  });

  after(async () => {
    await network.stop();
  });

  it("is replaced by another, and its job is ended by the gateway and its slot freed", async () => {
    const [doomed, steady] = network.providers as [RunningProvider, RunningProvider];
    doomed.child.kill("SIGKILL");
    await doomed.child.exited;
    const response = await fetch(`${network.gateways[0]?.url ?? ""}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: testModel, messages, max_tokens: 20 }),
    });
    expect(response.status, await response.clone().text()).to.equal(200);
    expect(response.headers.get("x-t4t-provider")).to.equal(steady.address);
    expect(
      (await providerOnChain(network, doomed.address)).openJobs,
      "the first job was posted before the provider was found dead",
    ).to.equal(1);
    // The acknowledgement and response windows are chain time: move it instead of waiting for it.
    await advanceChain(network, 31);
    await until(
      "the gateway asks for its money back",
      async () => {
        const { escrow } = await contractEvents(network);
        return escrow.some((event) => event.eventName === "JobCancelRequested");
      },
      60_000,
    );
    await advanceChain(network, 61);
    await until(
      "the slot of the dead provider is freed",
      async () => (await providerOnChain(network, doomed.address)).openJobs === 0,
      60_000,
    );
    const { escrow } = await contractEvents(network);
    expect(
      escrow.filter((event) => event.eventName === "JobCancelled" || event.eventName === "JobExpired"),
    ).to.have.length(1);
  });
});

async function advanceChain(network: LocalNetwork, seconds: number): Promise<void> {
  for (const [method, params] of [
    ["evm_increaseTime", [seconds]],
    ["evm_mine", []],
  ] as const) {
    const response = await fetch(network.rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const answer = (await response.json()) as { error?: { message: string } };
    if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
  }
}
