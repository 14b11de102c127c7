import { expect } from "chai";
import { type Address, encodeFunctionData, getAddress, type Hex, numberToHex } from "viem";
import { providerRegistryAbi } from "../../../chain/abi/provider-registry.ts";
import { type ChainConnection, openChain } from "../../../chain/rpc.ts";
import { systemClock } from "../../../chain/system-clock.ts";
import { MarketReader } from "../../../provider/registration/market-reader.ts";
import { MarketWatch } from "../../../provider/registration/market-watch.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { sendUnlocked } from "../../support/deployment.ts";
import { countingRpcProxy, type ProxiedCall, type RpcProxy } from "../../support/rpc-proxy.ts";
import { until } from "../../support/until.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type Market, startMarket } from "../support/market.ts";

const lookMs = 300_000;
const retryMs = 30_000;
const period = 604_800;

describe("MarketWatch", () => {
  let market: Market;
  let proxy: RpcProxy;
  let chain: ChainConnection;
  let snapshot: unknown;
  let clock: ManualClock;
  let journal: MemoryJournal;
  let watches: MarketWatch[];
  /** What was told, in order. */
  let told: string[];
  let errors: string[];

  before(async () => {
    market = await startMarket();
    proxy = await countingRpcProxy(market.chain.rpcUrl);
    chain = openChain({ url: proxy.url, clock: systemClock, random: Math.random, attempts: 1 });
  });

  after(async () => {
    await chain.close();
    await proxy.stop();
    await market.stop();
  });

  beforeEach(async () => {
    snapshot = await market.chain.rpc("evm_snapshot");
    clock = new ManualClock();
    journal = new MemoryJournal();
    watches = [];
    told = [];
    errors = [];
  });

  afterEach(async () => {
    for (const watch of watches) await watch.stop();
    proxy.setFault(undefined);
    proxy.reset();
    await market.chain.rpc("evm_revert", snapshot);
  });

  /** A contract at an address of this number. */
  async function contractAt(number: number): Promise<Address> {
    const address = getAddress(`0x${String(number).padStart(40, "a")}`);
    await market.chain.rpc("hardhat_setCode", address, "0x00");
    return address;
  }

  async function asOwner(data: Hex): Promise<void> {
    await sendUnlocked(market.chain, market.chain.account(0).address, market.deployment.registry, data);
  }

  async function propose(address: Address): Promise<void> {
    await asOwner(encodeFunctionData({ abi: providerRegistryAbi, functionName: "proposeMarket", args: [address] }));
  }

  /** No provider is registered, so that a market is allowed without waiting. */
  async function setMarket(address: Address, allowed: boolean): Promise<void> {
    const args = [address, allowed] as const;
    await asOwner(encodeFunctionData({ abi: providerRegistryAbi, functionName: "setMarket", args }));
  }

  async function pass(seconds: number): Promise<void> {
    await market.chain.rpc("evm_increaseTime", seconds);
    await market.chain.rpc("hardhat_mine", "0x1");
  }

  /** A watch that has looked once. */
  async function start(): Promise<MarketWatch> {
    const { chainId, registry, escrow, deployedAtBlock } = market.deployment;
    const watch = new MarketWatch({
      reader: new MarketReader(chain.client, registry),
      journal,
      clock,
      chainId,
      registry,
      escrow,
      deployedAtBlock: BigInt(deployedAtBlock),
      onProposal: (proposal, unbondingPeriod) => {
        told.push(`proposed ${proposal.market}`);
        expect(proposal.until - proposal.from).to.equal(period);
        expect(unbondingPeriod).to.equal(period);
      },
      onMarket: (address) => told.push(`allowed ${address}`),
      onError: (error) => errors.push(error instanceof Error ? error.name : "?"),
    });
    watches.push(watch);
    watch.start();
    await lookEnds();
    return watch;
  }

  async function lookEnds(): Promise<void> {
    await until("the look has ended", () => clock.pending === 1);
  }

  async function nextLook(afterMs = lookMs): Promise<void> {
    await clock.advance(afterMs);
    await lookEnds();
  }

  /** Ranges of blocks that logs were asked of. */
  function recordRanges(fault?: (from: bigint, to: bigint) => boolean): [bigint, bigint][] {
    const ranges: [bigint, bigint][] = [];
    proxy.setFault((call: ProxiedCall) => {
      if (call.method !== "eth_getLogs") return undefined;
      const [{ fromBlock, toBlock }] = call.params as [{ readonly fromBlock: Hex; readonly toBlock: Hex }];
      const range: [bigint, bigint] = [BigInt(fromBlock), BigInt(toBlock)];
      ranges.push(range);
      return fault?.(...range) === true ? { kind: "error", code: -32_602, message: "range too large" } : undefined;
    });
    return ranges;
  }

  it("is silent while there is one market and no proposal, and says so in figures", async () => {
    const watch = await start();
    expect(told).to.deep.equal([]);
    expect(watch.pending).to.deep.equal([]);
    expect(watch.allowableFrom).to.equal(undefined);
  });

  it("tells of a proposal once, at once after a start and a look after it came, and again after the next start", async () => {
    const [first, second] = [await contractAt(1), await contractAt(2)];
    await propose(first);
    const watch = await start();
    expect(told).to.deep.equal([`proposed ${first}`]);
    await propose(second);
    await nextLook();
    await nextLook();
    expect(told).to.deep.equal([`proposed ${first}`, `proposed ${second}`]);
    expect(watch.pending?.map((proposal) => proposal.market)).to.deep.equal([first, second]);
    expect(watch.allowableFrom).to.equal(watch.pending?.[0]?.from);
    await watch.stop();
    await start();
    expect(told.slice(2), "again, for whoever reads the log of this process").to.deep.equal([
      `proposed ${first}`,
      `proposed ${second}`,
    ]);
  });

  it("takes a proposal that was withdrawn for none, and one that was made again for a new one", async () => {
    const proposed = await contractAt(1);
    await propose(proposed);
    const watch = await start();
    await setMarket(proposed, false);
    await nextLook();
    expect(watch.pending).to.deep.equal([]);
    await pass(60);
    await propose(proposed);
    await nextLook();
    await pass(60);
    await propose(proposed);
    await nextLook();
    expect(told).to.deep.equal(Array.from({ length: 3 }, () => `proposed ${proposed}`));
  });

  it("goes on with a proposal while it can be used, and forgets it when it is void, also after a restart", async () => {
    const proposed = await contractAt(1);
    await propose(proposed);
    const watch = await start();
    await pass(4 * period - 60);
    await nextLook();
    expect(watch.pending, "it can be allowed now").to.have.length(1);
    await pass(60);
    await nextLook();
    expect(watch.pending).to.deep.equal([]);
    await watch.stop();
    await start();
    expect(told).to.deep.equal([`proposed ${proposed}`]);
  });

  it("tells of a market that was allowed while it ran, and of one that was while it was away, each once", async () => {
    const [first, second] = [await contractAt(1), await contractAt(2)];
    const watch = await start();
    await setMarket(first, true);
    await nextLook();
    expect(told).to.deep.equal([`allowed ${first}`]);
    await watch.stop();
    await setMarket(second, true);
    const restarted = await start();
    expect(told).to.deep.equal([`allowed ${first}`, `allowed ${second}`]);
    await restarted.stop();
    await start();
    expect(told).to.have.length(2);
  });

  it("tells of a market beside the escrow at its very first look: who stakes must know whom it trusts", async () => {
    const other = await contractAt(1);
    await setMarket(other, true);
    await start();
    expect(told).to.deep.equal([`allowed ${other}`]);
  });

  it("reads the blocks in which a proposal can still be valid, none below, and then only new ones and a margin", async () => {
    const stale = await contractAt(1);
    await propose(stale);
    await market.chain.rpc("hardhat_mine", numberToHex(600));
    await pass(4 * period);
    const oldest = await market.reader.getBlockNumber();
    await market.chain.rpc("hardhat_mine", numberToHex(600));
    const proposed = await contractAt(2);
    await propose(proposed);
    const ranges = recordRanges();
    await start();
    const head = await market.reader.getBlockNumber();
    expect(ranges).to.deep.equal([[oldest, head]]);
    await market.chain.rpc("hardhat_mine", numberToHex(10));
    await nextLook();
    expect(ranges[1]).to.deep.equal([head + 1n - 256n, head + 10n]);
    expect(told).to.deep.equal([`proposed ${proposed}`]);
  });

  it("finds the proposals of a long time at a node that answers only short ranges", async () => {
    await market.chain.rpc("hardhat_mine", numberToHex(60));
    const proposed = await contractAt(1);
    await propose(proposed);
    await market.chain.rpc("hardhat_mine", numberToHex(60));
    recordRanges((from, to) => to - from >= 10n);
    await start();
    expect(told).to.deep.equal([`proposed ${proposed}`]);
    expect(errors).to.deep.equal([]);
  });

  it("follows a reorganisation that drops a proposal, and one that puts it into another block", async () => {
    const proposed = await contractAt(1);
    const branch = await market.chain.rpc("evm_snapshot");
    await propose(proposed);
    const watch = await start();
    await market.chain.rpc("evm_revert", branch);
    await market.chain.rpc("hardhat_mine", "0x3");
    await nextLook();
    expect(watch.pending).to.deep.equal([]);
    const otherBranch = await market.chain.rpc("evm_snapshot");
    await market.chain.rpc("hardhat_mine", "0x5");
    await nextLook();
    await market.chain.rpc("evm_revert", otherBranch);
    await pass(60);
    await propose(proposed);
    await market.chain.rpc("hardhat_mine", "0x5");
    await nextLook();
    expect(watch.pending).to.have.length(1);
    expect(told).to.deep.equal([`proposed ${proposed}`, `proposed ${proposed}`]);
  });

  it("misses no proposal on a branch that is shorter than the one that it has read", async () => {
    const proposed = await contractAt(1);
    const branch = await market.chain.rpc("evm_snapshot");
    await market.chain.rpc("hardhat_mine", numberToHex(1_000));
    await start();
    await market.chain.rpc("evm_revert", branch);
    await market.chain.rpc("hardhat_mine", "0x3");
    await nextLook();
    await propose(proposed);
    await market.chain.rpc("hardhat_mine", numberToHex(300));
    await nextLook();
    expect(told).to.deep.equal([`proposed ${proposed}`]);
  });

  it("tells of a failure once, looks again soon, and does not call unread proposals none", async () => {
    const proposed = await contractAt(1);
    await propose(proposed);
    proxy.setFault(({ method }) => (method === "eth_getLogs" ? { kind: "http", status: 503 } : undefined));
    const watch = await start();
    await nextLook(retryMs);
    await nextLook(retryMs);
    expect(errors).to.deep.equal(["ChainUnavailableError"]);
    expect(watch.pending).to.equal(undefined);
    proxy.setFault(undefined);
    await nextLook(retryMs);
    expect(told).to.deep.equal([`proposed ${proposed}`]);
    proxy.setFault(() => ({ kind: "http", status: 503 }));
    await nextLook();
    expect(errors, "it comes back: of blocks, and of the list").to.have.length(3);
    expect(watch.pending, "what was known stays").to.have.length(1);
  });

  it("looks at the list of markets though logs cannot be had", async () => {
    const other = await contractAt(1);
    await setMarket(other, true);
    proxy.setFault(({ method }) => (method === "eth_getLogs" ? { kind: "http", status: 503 } : undefined));
    await start();
    expect(told).to.deep.equal([`allowed ${other}`]);
  });

  it("leaves no timer and no call when it is stopped, also in the middle of a look", async () => {
    const watch = await start();
    await clock.advance(lookMs);
    await watch.stop();
    expect(clock.pending).to.equal(0);
    const { total } = proxy;
    await clock.advance(10 * lookMs);
    expect(proxy.total).to.equal(total);
  });
});
