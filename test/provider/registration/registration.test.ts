import { expect } from "chai";
import { pino } from "pino";
import { encodeFunctionData, type Hex } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { providerRegistryAbi } from "../../../chain/abi/provider-registry.ts";
import { ForeignJournalError } from "../../../chain/journal-binding.ts";
import { WrongChainError } from "../../../chain/verify.ts";
import { startProvider } from "../../../provider/start.ts";
import { fundAccount, sendUnlocked } from "../../support/deployment.ts";
import { countingRpcProxy } from "../../support/rpc-proxy.ts";
import { until } from "../../support/until.ts";
import { runJob } from "../support/answers.ts";
import { eventsOf, type Market, providerOnChain, startMarket, testModel } from "../support/market.ts";
import { newDataDir, nodeSettings, startNode, type TestNode, writeEndpoints } from "../support/node.ts";
import { goodStream, type ScriptedBackend, startScriptedBackend } from "../support/scripted-backend.ts";

describe("a provider node's place on chain", () => {
  let market: Market;
  let backend: ScriptedBackend;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(["Hi"]));
  });

  after(async () => {
    await backend.close();
    await market.stop();
  });

  async function transactionsOf(key: Hex): Promise<number> {
    return await market.reader.getTransactionCount({ address: privateKeyToAccount(key).address });
  }

  async function start(key: Hex, environment: Record<string, string> = {}, dataDir?: string): Promise<TestNode> {
    return await startNode({
      market,
      backendUrl: backend.url,
      key,
      environment,
      ...(dataDir === undefined ? {} : { dataDir }),
    });
  }

  async function namesOf(address: string): Promise<string[]> {
    const { registry } = await eventsOf(market);
    return registry
      .filter((event) => "provider" in event.args && event.args.provider === address)
      .map((event) => event.eventName);
  }

  it("is taken in the right order: registered, capped, and only then offering", async () => {
    const key = await market.providerKey();
    const node = await start(key);
    try {
      expect(await namesOf(node.address)).to.deep.equal([
        "ProviderRegistered",
        "Staked",
        "MaxConcurrentJobsUpdated",
        "OfferingSet",
      ]);
      const found = await providerOnChain(market, node.address);
      expect(found).to.include({
        maxConcurrentJobs: 2,
        endpoint: node.url,
        active: true,
        stake: 100_000_000n,
        operator: node.address,
      });
      expect((await fetch(`${node.url}/readyz`)).status).to.equal(200);
    } finally {
      await node.close();
    }
    expect((await providerOnChain(market, node.address)).active, "a stop is no deactivation").to.equal(true);
  });

  it("changes the cap once when it differs and sends no transaction when equal", async () => {
    const key = await market.providerKey();
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const port = { T4T_PROVIDER_PORT: "0", T4T_ENDPOINT: "http://provider.example" };
    await (await start(key, port, dataDir)).close();
    const first = await transactionsOf(key);

    await (await start(key, port, dataDir)).close();
    expect(await transactionsOf(key), "equal: nothing is sent").to.equal(first);

    const other = { ...port, T4T_MAX_CONCURRENT_JOBS: "5" };
    const node = await start(key, other, dataDir);
    await node.close();
    expect(await transactionsOf(key), "different: one transaction").to.equal(first + 1);
    expect((await providerOnChain(market, node.address)).maxConcurrentJobs).to.equal(5);

    await (
      await start(
        key,
        other,
        await newDataDir().then(async (dir) => {
          await writeEndpoints(`${dir}/endpoints.json`, backend.url);
          return dir;
        }),
      )
    ).close();
    expect(await transactionsOf(key), "equal, though the journal was lost").to.equal(first + 1);
  });

  it("is not ready without stake, says why, and stakes what comes into its wallet later", async () => {
    const key = generatePrivateKey();
    const { address } = privateKeyToAccount(key);
    await fundAccount(market.chain, address);
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    await (await start(key, { T4T_STAKE: "0" }, dataDir)).close();
    const lines: string[] = [];
    const node = await startNode({
      market,
      backendUrl: backend.url,
      key,
      dataDir,
      environment: { T4T_STAKE: "500", T4T_HEARTBEAT_INTERVAL_SECONDS: "1" },
      dependencies: { logger: pino({ level: "info" }, { write: (line: string) => void lines.push(line) }) },
    });
    try {
      expect(node.provider.notReady()).to.include("the provider has no stake");
      expect((await fetch(`${node.url}/readyz`)).status).to.equal(503);
      expect(lines.join("")).to.include("not ready to serve").and.not.include('"msg":"ready to serve"');
      const began = performance.now();
      await until("a heartbeat has been due twice", () => performance.now() > began + 2_500);
      expect(await namesOf(address), "no heartbeat vouches for who can be given no job").to.not.include("Heartbeat");

      await market.mint(address, 500n);
      await node.provider.reload();
      expect(node.provider.notReady()).to.equal(undefined);
      expect((await providerOnChain(market, address)).stake).to.equal(500n);
      expect(lines.join("")).to.include('"msg":"ready to serve"');
    } finally {
      await node.close();
    }
  });

  it("has no cap transaction at all for a new provider whose cap is 0", async () => {
    const node = await start(await market.providerKey(), { T4T_MAX_CONCURRENT_JOBS: "0" });
    try {
      expect(await namesOf(node.address)).to.not.include("MaxConcurrentJobsUpdated");
    } finally {
      await node.close();
    }
  });

  it("follows the endpoints file while it runs: cap, prices, models that come and go; a bad file changes nothing", async () => {
    const key = await market.providerKey();
    const node = await start(key);
    try {
      await writeEndpoints(node.endpointsFile, backend.url, {
        maxConcurrentJobs: 7,
        offering: { inputPrice: "3000000" },
      });
      await until(
        "the cap is on chain",
        async () => (await providerOnChain(market, node.address)).maxConcurrentJobs === 7,
      );
      await until(
        "the price is on chain",
        async () => (await namesOf(node.address)).filter((name) => name === "OfferingSet").length === 2,
      );
      const before = await transactionsOf(key);
      await writeEndpoints(node.endpointsFile, backend.url, { maxConcurrentJobs: 9, offering: { inputPrice: "-1" } });
      await node.provider.reload();
      expect(await transactionsOf(key)).to.equal(before);
      expect((await fetch(`${node.url}/readyz`)).status).to.equal(200);
      await writeEndpoints(node.endpointsFile, backend.url, { offering: { model: "acme/other" } });
      await node.provider.reload();
      await until("the old model is gone", async () => (await namesOf(node.address)).includes("OfferingRemoved"));
      const status = (await (await fetch(`${node.url}/v1/status`)).json()) as { body: string };
      expect(JSON.parse(status.body)).to.have.nested.property("models[0].model", "acme/other");
      expect(await (await fetch(`${node.url}/metrics`)).text()).to.not.include(`"${testModel}"`);
    } finally {
      await node.close();
    }
  });

  it("is kept by heartbeats only while nothing else does it and a backend works", async () => {
    const sick = await startScriptedBackend(goodStream(["Hi"]));
    const key = await market.providerKey();
    const node = await startNode({
      market,
      backendUrl: sick.url,
      key,
      environment: { T4T_HEARTBEAT_INTERVAL_SECONDS: "2" },
      dependencies: { probeRhythm: { healthyMs: 50, suspectMs: 50, suspectMaxMs: 50 } },
    });
    const beats = async (): Promise<number> =>
      (await namesOf(node.address)).filter((name) => name === "Heartbeat").length;
    try {
      await until("it beats when idle", async () => (await beats()) >= 1);
      sick.setHealthy(false);
      await until("it knows", async () => (await fetch(`${node.url}/readyz`)).status === 503);
      const then = await beats();
      const { lastSeen } = await providerOnChain(market, node.address);
      await until("time has passed", () => Date.now() / 1000 > lastSeen + 4);
      expect(await beats(), "no heartbeat vouches for a dead backend").to.equal(then);
    } finally {
      await node.close();
      await sick.close();
    }
  });

  it("is not called ready in the log while no backend works, and is once one does", async () => {
    const sick = await startScriptedBackend(goodStream(["Hi"]));
    sick.setHealthy(false);
    const lines: string[] = [];
    const node = await startNode({
      market,
      backendUrl: sick.url,
      key: await market.providerKey(),
      dependencies: {
        probeRhythm: { healthyMs: 50, suspectMs: 50, suspectMaxMs: 50 },
        logger: pino({ level: "info" }, { write: (line: string) => void lines.push(line) }),
      },
    });
    const isCalledReady = (): boolean => lines.some((line) => line.includes('"msg":"ready to serve"'));
    try {
      expect(node.provider.notReady()).to.equal("no backend works");
      expect(isCalledReady()).to.equal(false);
      expect(lines.join("")).to.include('"reason":"no backend works"');
      sick.setHealthy(true);
      await until("it says that it is ready", isCalledReady);
    } finally {
      await node.close();
      await sick.close();
    }
  });

  it("is refused loudly at the start where the chain or its contracts are not the configured ones", async () => {
    const key = await market.providerKey();
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const settings = await nodeSettings({ market, backendUrl: backend.url, key, dataDir }, dataDir);
    const nobody = "0x00000000000000000000000000000000000000A1" as const;
    const targets = [
      { ...settings.chain.target, chainId: 5 },
      { ...settings.chain.target, registry: nobody },
      { ...settings.chain.target, escrow: nobody },
      { ...settings.chain.target, escrow: settings.chain.target.registry },
      { ...settings.chain.target, registry: settings.chain.target.escrow },
    ];
    for (const target of targets) {
      let thrown: unknown;
      try {
        const provider = await startProvider({ ...settings, chain: { ...settings.chain, target } });
        await provider.close();
      } catch (error) {
        thrown = error;
      }
      expect(thrown, JSON.stringify(target)).to.be.instanceOf(WrongChainError);
    }
  });

  it("is taken as soon as the chain can be reached, when it was down at the start", async () => {
    const proxy = await countingRpcProxy(market.chain.rpcUrl);
    proxy.setFault(() => ({ kind: "drop" }));
    const key = await market.providerKey();
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const environment = { T4T_RPC_URL: proxy.url };
    const settings = await nodeSettings({ market, backendUrl: backend.url, key, dataDir, environment }, dataDir);
    const provider = await startProvider(settings);
    try {
      expect(provider.address).to.equal(undefined);
      const answer = await fetch(`${provider.url}/readyz`);
      expect(answer.status).to.equal(503);
      expect((await fetch(`${provider.url}/v1/status`)).status).to.equal(503);
      expect((await fetch(`${provider.url}/healthz`)).status).to.equal(200);
      proxy.setFault(undefined);
      await until("it is ready", () => provider.notReady() === undefined, 20_000);
      expect(provider.address).to.equal(privateKeyToAccount(key).address);
      proxy.setFault(() => ({ kind: "http", status: 503 }));
      const job = await market.client.post(provider.address ?? "0x");
      const refused = await market.client.request(provider.url, job, "{}");
      expect(refused.status, "bad input stays bad input").to.equal(400);
      const body = JSON.stringify({ model: testModel, messages: [] });
      const unavailable = await market.client.request(provider.url, job, body);
      expect(unavailable.status).to.equal(503);
      expect(await unavailable.text()).to.include("chain_unavailable");
      proxy.setFault(undefined);
      expect((await market.client.request(provider.url, job, body)).status).to.not.equal(503);
    } finally {
      proxy.setFault(undefined);
      await provider.close();
      await proxy.stop();
    }
  });

  it("waits for stake and says what is missing, instead of sending what must fail", async () => {
    const key = generatePrivateKey();
    await fundAccount(market.chain, privateKeyToAccount(key).address);
    const node = await start(key);
    try {
      expect(node.provider.notReady()).to.include("100000000");
      expect(await transactionsOf(key)).to.equal(0);
    } finally {
      await node.close();
    }
  });

  it("is served by an operator's key alone, which finds its owner by itself or is told", async () => {
    const owner = market.chain.account(5).address;
    const operatorKey = generatePrivateKey();
    const operator = privateKeyToAccount(operatorKey).address;
    await fundAccount(market.chain, operator);
    const told = await start(operatorKey, { T4T_OWNER: owner, T4T_STAKE: "0" });
    expect(told.provider.notReady()).to.include("not registered");
    await told.close();
    const data = encodeFunctionData({
      abi: providerRegistryAbi,
      functionName: "register",
      args: [operator, owner, "http://x", 0n],
    });
    await sendUnlocked(market.chain, owner, market.deployment.registry, data);
    const node = await start(operatorKey, { T4T_STAKE: "0" });
    try {
      expect(node.address).to.equal(owner);
      expect(await providerOnChain(market, owner)).to.include({ endpoint: node.url, maxConcurrentJobs: 2 });
      expect(node.provider.notReady(), "only the owner can stake").to.include("has no stake");
    } finally {
      await node.close();
    }
  });

  it("goes on from its journal with another operator's key, but not as another provider", async () => {
    const owner = market.chain.account(6).address;
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const keys = [generatePrivateKey(), generatePrivateKey()] as const;
    const operators = keys.map((key) => privateKeyToAccount(key).address);
    const send = async (data: Hex) => await sendUnlocked(market.chain, owner, market.deployment.registry, data);
    for (const [index, key] of keys.entries()) {
      const operator = operators[index] ?? owner;
      await fundAccount(market.chain, operator);
      const abi = providerRegistryAbi;
      await send(
        index === 0
          ? encodeFunctionData({ abi, functionName: "register", args: [operator, owner, "http://x", 0n] })
          : encodeFunctionData({ abi, functionName: "setOperator", args: [operator] }),
      );
      const node = await start(key, { T4T_STAKE: "0" }, dataDir);
      expect(node.provider.notReady(), "only the owner can stake").to.include("has no stake");
      await node.close();
    }
    const stranger = await start(await market.providerKey(), {}, dataDir).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(stranger).to.be.instanceOf(ForeignJournalError);
  });

  it("goes on with jobs after another transaction was sent from the node's key by hand", async () => {
    const key = await market.providerKey();
    const node = await start(key);
    try {
      const { createWalletClient, http } = await import("viem");
      const account = privateKeyToAccount(key);
      const wallet = createWalletClient({ account, transport: http(market.chain.rpcUrl) });
      await wallet.sendTransaction({ chain: null, to: account.address, value: 1n });
      const job = await runJob(market.client, node);
      await until(
        "it is settled",
        async () => {
          const answer = (await (await fetch(`${node.url}/v1/jobs/${job.jobId}`)).json()) as { status: string };
          return answer.status === "settled";
        },
        20_000,
      );
    } finally {
      await node.close();
    }
  });
});
