import { expect } from "chai";
import { pino } from "pino";
import { type Address, encodeFunctionData, getAddress, type Hex } from "viem";
import { providerRegistryAbi } from "../../../chain/abi/provider-registry.ts";
import { systemClock } from "../../../chain/system-clock.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import type { Clock } from "../../../protocol/clock.ts";
import { fundAccount, sendUnlocked } from "../../support/deployment.ts";
import { countingRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { until } from "../../support/until.ts";
import { chatBody, jobAtProvider, onChain, readStream, runJob, untilOnChain } from "../support/answers.ts";
import { type Market, type PostedJob, startMarket } from "../support/market.ts";
import { startNode, type TestNode } from "../support/node.ts";
import { goodStream, type ScriptedBackend, startScriptedBackend } from "../support/scripted-backend.ts";

interface LogLine {
  readonly level: number;
  readonly msg: string;
  readonly market?: Address;
  readonly allowableFrom?: string;
  readonly count?: number;
  readonly missing?: number;
  readonly where?: string;
}

const warn = 40;
const error = 50;

describe("a node's alarms about markets", () => {
  let market: Market;
  let backend: ScriptedBackend;
  let proxy: RpcProxy;
  let lines: LogLine[];
  /** A market that the registry has beside the escrow. */
  const other = getAddress(`0x${"b".repeat(40)}`);
  const proposed = getAddress(`0x${"c".repeat(40)}`);

  before(async () => {
    market = await startMarket();
    proxy = await countingRpcProxy(market.chain.rpcUrl);
    backend = await startScriptedBackend(goodStream(["Hi"]));
    for (const contract of [other, proposed]) await market.chain.rpc("hardhat_setCode", contract, "0x00");
    // Before the first provider, so that it needs no notice.
    const abi = providerRegistryAbi;
    await asOwner(encodeFunctionData({ abi, functionName: "setMarket", args: [other, true] }));
    await asOwner(encodeFunctionData({ abi, functionName: "proposeMarket", args: [proposed] }));
    await market.chain.rpc("hardhat_impersonateAccount", other);
    await fundAccount(market.chain, other);
  });

  after(async () => {
    await backend.close();
    await proxy.stop();
    await market.stop();
  });

  beforeEach(() => {
    lines = [];
  });

  async function asOwner(data: Hex): Promise<void> {
    await sendUnlocked(market.chain, market.chain.account(0).address, market.deployment.registry, data);
  }

  async function start(clock: Clock = systemClock): Promise<TestNode> {
    return await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_RPC_URL: proxy.url },
      dependencies: {
        clock,
        logger: pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line) as LogLine) }),
      },
    });
  }

  /** The other market frees a slot of a provider, which it never took. */
  async function free(provider: Address): Promise<void> {
    const args = [provider, 1, 0n, false] as const;
    const data = encodeFunctionData({ abi: providerRegistryAbi, functionName: "releaseSlots", args });
    await sendUnlocked(market.chain, other, market.deployment.registry, data);
  }

  function linesAbout(address: Address): LogLine[] {
    return lines.filter((line) => line.market === address);
  }

  async function metric(node: TestNode, name: string): Promise<string | undefined> {
    const page = await (await fetch(`${node.url}/metrics`)).text();
    return new RegExp(`^${name} (.*)$`, "m").exec(page)?.[1];
  }

  it("are given at its start for a proposal and for a market that it did not know, in log and metrics", async () => {
    const node = await start();
    try {
      await until("it has warned", () => linesAbout(proposed).length > 0 && linesAbout(other).length > 0);
      const [from] = await market.reader.readContract({
        address: market.deployment.registry,
        abi: providerRegistryAbi,
        functionName: "marketProposal",
        args: [proposed],
      });
      const [ofProposal, ofMarket] = [linesAbout(proposed), linesAbout(other)];
      expect(ofProposal).to.have.length(1);
      expect(ofProposal[0]).to.include({ level: warn, allowableFrom: new Date(from * 1000).toISOString() });
      expect(ofProposal[0]).to.have.property("cure").that.includes("startUnbonding");
      expect(ofMarket).to.have.length(1);
      expect(ofMarket[0]).to.include({ level: warn });
      await until("it counts", async () => (await metric(node, "t4t_provider_proposed_markets")) === "1");
      expect(await metric(node, "t4t_provider_market_allowable_timestamp_seconds")).to.equal(String(from));
      expect(node.provider.notReady(), "an alarm is no reason to serve nobody").to.equal(undefined);
    } finally {
      await node.close();
    }
  });

  it("are given when another market has freed the slot of one of its jobs, which is paid all the same", async () => {
    const node = await start();
    try {
      expect(await metric(node, "t4t_provider_missing_slots_total")).to.equal("0");
      const job = await market.client.post(node.address);
      await free(node.address);
      const seen = await readStream(await market.client.request(node.url, job, chatBody({ stream: true })));
      const { inputTokens, outputTokens } = seen.statement ?? { inputTokens: 0, outputTokens: 0 };
      const usage = { inputTokens, outputTokens };
      await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(seen.body));
      await untilOnChain(market, job, onChain.completed);
      await until("it counts", async () => (await metric(node, "t4t_provider_missing_slots_total")) === "1");
      await until("it knows", async () => (await jobAtProvider(node, job))["status"] === "settled");
      expect(lines.filter((line) => line.level === error && line.count === 1)).to.have.length(1);
    } finally {
      await node.close();
    }
  });

  it("are given once when the registry counts fewer slots than jobs, before any of them ends", async () => {
    // A minute passes at once.
    const after: Clock["after"] = (ms, run) => systemClock.after(ms === 60_000 ? 20 : ms, run);
    const node = await start({ ...systemClock, after });
    const fewer = () => lines.filter(({ msg }) => msg.includes("counts fewer slots"));
    try {
      const jobs = [await market.client.post(node.address), await market.client.post(node.address)];
      const isKnown = async (job: PostedJob) => (await jobAtProvider(node, job))["status"] !== undefined;
      for (const job of jobs) await until("it knows the job", async () => await isKnown(job));
      await until("it has compared", async () => (await metric(node, "t4t_provider_open_jobs_drift")) === "0");
      expect(fewer()).to.have.length(0);
      await free(node.address);
      await until("it has noticed", () => fewer().length > 0);
      expect(fewer()[0]).to.include({ level: error, missing: 1 });
      await free(node.address);
      await until("it has looked again", async () => (await metric(node, "t4t_provider_open_jobs_drift")) === "-2");
      expect(fewer()).to.have.length(1);
      expect(await metric(node, "t4t_provider_missing_slots_total")).to.equal("0");
    } finally {
      await node.close();
    }
  });

  it("need no answer of the chain for the node to serve, and fail with a line in the log each", async () => {
    const { registry } = market.deployment;
    const selectors = (["markets", "unbondingPeriod"] as const).map((functionName) =>
      encodeFunctionData({ abi: providerRegistryAbi, functionName }),
    );
    proxy.setFault(({ params }) => {
      const [call] = params as [{ readonly to?: string; readonly data?: Hex; readonly address?: string } | undefined];
      const isOfWatch = call?.address === registry || (call?.data !== undefined && selectors.includes(call.data));
      return isOfWatch ? { kind: "error", code: -32_000, message: "not here" } : undefined;
    });
    const node = await start();
    try {
      await until("both looks have failed", () => lines.filter(({ where }) => where === "markets").length === 2);
      expect(node.provider.notReady()).to.equal(undefined);
      expect(await metric(node, "t4t_provider_proposed_markets"), "nobody knows").to.equal(undefined);
      const job = await runJob(market.client, node);
      await untilOnChain(market, job, onChain.completed);
    } finally {
      await node.close();
      proxy.setFault(undefined);
    }
    expect(lines.filter(({ where }) => where !== undefined)).to.have.length(2);
  });

  it("stop with the node: no timer of theirs is left to hold the process", async () => {
    const lookMs = 300_000;
    const waiting = new Set<object>();
    const after: Clock["after"] = (delayMs, callback) => {
      const timer = { delayMs };
      if (delayMs === lookMs) waiting.add(timer);
      const cancel = systemClock.after(delayMs, callback);
      return () => {
        waiting.delete(timer);
        cancel();
      };
    };
    const node = await start({ ...systemClock, after });
    try {
      await until("the next look is waited for", () => waiting.size === 1);
    } finally {
      await node.close();
    }
    expect(waiting.size).to.equal(0);
  });
});
