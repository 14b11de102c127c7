import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { testTokenAbi } from "../../chain/abi/test-token.ts";
import { type RunningGateway, startGateway } from "../../gateway/start.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";
import { type Actor, TestMarket } from "../support/market.ts";
import { until } from "../support/until.ts";
import { postJson } from "./support/test-gateway.ts";
import { testSettings } from "./support/test-settings.ts";

const model = "m/a";
/** One of the smallest unit a token. */
const price = 1_000_000n;

describe("a gateway in a market with providers without stake", function () {
  this.timeout(60_000);
  let folder: string;
  let chain: TestChain;
  let market: TestMarket;
  let gateway: RunningGateway;
  let bare: Actor;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-gateway-"));
    chain = await startAnvil();
    market = await TestMarket.open(chain);
    bare = await market.actor();
    await market.registry(bare.address, "register", [bare.address, bare.address, `http://${bare.address}.test`, 0n]);
    await market.registry(bare.address, "setOffering", [model, price, price, 8192]);
    const { chain: settings, ...rest } = testSettings();
    gateway = await startGateway({
      ...rest,
      chain: { ...settings, rpcUrl: chain.rpcUrl, dataDir: folder, target: market.deployment },
    });
    await until("it is ready", () => gateway.notReady() === undefined, 20_000);
  });

  after(async () => {
    await gateway.close(0);
    await chain.stop();
    await rm(folder, { recursive: true });
  });

  const providersShown = async (): Promise<number | undefined> => {
    const list = (await (await fetch(`${gateway.url}/v1/models`)).json()) as {
      data: { t4t: { providers: number } }[];
    };
    return list.data[0]?.t4t.providers;
  };

  /** Status and error code of a request, and how many it left out for want of stake. */
  async function ask(maxTokens: number) {
    const body = { model, messages: [{ role: "user", content: "Hello" }], max_tokens: maxTokens };
    const response = await postJson(`${gateway.url}/v1/chat/completions`, body, {
      headers: { "x-t4t-debug": "true" },
    });
    const decision = JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as {
      excludedCounts: Readonly<Record<string, number>>;
    } | null;
    const { error } = (await response.json()) as { error: { code: string } };
    return [response.status, error.code, decision?.excludedCounts.insufficient_stake];
  }

  async function stake(amount: bigint): Promise<void> {
    const { token, registry } = market.deployment;
    await market.send(bare.address, token, testTokenAbi, "mint", [bare.address, amount]);
    await market.send(bare.address, token, testTokenAbi, "approve", [registry, amount]);
    await market.registry(bare.address, "addStake", [amount]);
  }

  it("shows none of their models and asks none of them, so that no request waits for what the chain would refuse", async () => {
    expect(await providersShown()).to.equal(undefined);
    expect(await ask(100)).to.deep.equal([503, "server_is_overloaded", 1]);
  });

  it("takes one for jobs that its stake covers, as the registry does", async () => {
    await stake(1_000n);
    await until("it is shown", async () => (await providersShown()) === 1);
    expect(await ask(5_000)).to.deep.equal([503, "server_is_overloaded", 1]);
    // It is chosen, and only the empty account of the gateway stands in the way.
    expect((await ask(100))[1]).to.equal("insufficient_escrow_balance");
  });
});
