import { expect } from "chai";
import { localFunderKey } from "../../scripts/network/accounts.ts";
import { type LocalNetwork, startLocalNetwork } from "../../scripts/network/local-network.ts";
import { startHardhatChain, type TestChain } from "../support/chain.ts";
import { testModel, testOffering } from "../support/network.ts";
import { countingRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";
import { until } from "../support/until.ts";

const windowMs = 3000;

describe("calls of a gateway to its RPC", function () {
  this.timeout(180_000);
  let chain: TestChain;
  let proxy: RpcProxy;
  let network: LocalNetwork;
  let url: string;
  let holder: AbortController;

  before(async () => {
    chain = await startHardhatChain();
    proxy = await countingRpcProxy(chain.rpcUrl);
    network = await startLocalNetwork({
      rpcUrl: chain.rpcUrl,
      funderKey: localFunderKey,
      providers: [{ name: "provider-1", maxConcurrentJobs: 1, offerings: [testOffering()] }],
      gateways: [{ name: "gateway-1", port: 0, env: { T4T_RPC_URL: proxy.url, T4T_PROVIDER_WAIT_POLL_SECONDS: "1" } }],
      backend: { engine: "text", models: ["tiny"], tokenDelayMs: 200 },
    });
    url = network.gateways[0]?.url ?? "";
    holder = new AbortController();
    const response = await ask(holder, 2000);
    await response.body?.getReader().read();
  });

  after(async () => {
    holder.abort();
    await network.stop();
    await proxy.stop();
    await chain.stop();
  });

  async function ask(abort: AbortController, maxTokens = 5): Promise<Response> {
    return await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-t4t-progress": "event" },
      body: JSON.stringify({
        model: testModel,
        messages: [{ role: "user", content: "Hello" }],
        max_tokens: maxTokens,
        stream: true,
      }),
      signal: abort.signal,
    });
  }

  /** Calls that the gateway makes while `waiters` requests stand in its line, over a window of fixed length. */
  async function callsWhileWaiting(waiters: number): Promise<number> {
    const abort = new AbortController();
    const responses = await Promise.all(Array.from({ length: waiters }, async () => await ask(abort)));
    for (const response of responses) expect(response.status).to.equal(200);
    proxy.reset();
    const end = performance.now() + windowMs;
    await until("the window is over", () => performance.now() > end, windowMs + 5000);
    const calls = proxy.total;
    abort.abort();
    return calls;
  }

  it("are no more with fifty waiting requests than with one", async () => {
    const one = await callsWhileWaiting(1);
    const fifty = await callsWhileWaiting(50);
    expect(one).to.be.greaterThan(0);
    // The poll of the head runs by the clock, so that two windows of equal length differ by a few polls on a busy machine.
    expect(fifty).to.be.at.most(Math.ceil(one * 1.25) + 5);
  });
});
