import { expect } from "chai";
import type { Address, Hex } from "viem";
import { PageReader } from "../../../chain/registry-index/page-reader.ts";
import { IndexDriftError } from "../../../chain/registry-index/audit.ts";
import {
  createRegistryIndex,
  IndexStoppedError,
  type RegistryIndexOptions,
} from "../../../chain/registry-index/registry-index.ts";
import type { JobEvent, ProviderRecord, RegistryIndex, RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import { type ChainConnection, openChain } from "../../../chain/rpc.ts";
import { systemClock } from "../../../chain/system-clock.ts";
import { startAnvil, startHardhatChain, type TestChain } from "../../support/chain.ts";
import { type Actor, TestMarket } from "../../support/market.ts";
import { plainSnapshot } from "../../support/plain-state.ts";
import { countingRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { until } from "../../support/until.ts";

/** What the tests derive: which version it was derived from, and how often. */
interface Derived {
  readonly version: number;
  readonly count: number;
}

type Index = RegistryIndex<Derived>;

interface Opened {
  readonly index: Index;
  readonly errors: unknown[];
  readonly jobs: JobEvent[];
}

const longAgo = 2_000_000_000;

for (const start of [startHardhatChain, startAnvil]) {
  describe(`the registry index on ${start === startAnvil ? "anvil" : "Hardhat"}`, function () {
    this.timeout(60_000);
    let chain: TestChain;
    let market: TestMarket;
    let proxy: RpcProxy;
    const indexes: Index[] = [];
    const connections: ChainConnection[] = [];

    before(async () => {
      chain = await start();
    });

    after(async () => {
      await chain.stop();
    });

    beforeEach(async () => {
      market = await TestMarket.open(chain);
      proxy = await countingRpcProxy(chain.rpcUrl);
    });

    afterEach(async () => {
      for (const index of indexes.splice(0)) await index.stop();
      for (const connection of connections.splice(0)) await connection.close();
      await proxy.stop();
    });

    function open(options: Partial<RegistryIndexOptions<Derived>> = {}): Opened {
      const connection = openChain({
        url: proxy.url,
        clock: systemClock,
        random: Math.random,
        attempts: 2,
        backoffBaseMs: 5,
        backoffMaxMs: 20,
      });
      connections.push(connection);
      const errors: unknown[] = [];
      const jobs: JobEvent[] = [];
      const index = createRegistryIndex<Derived>({
        client: connection.client,
        contracts: market.deployment,
        deployedAtBlock: market.deployment.deployedAtBlock,
        derive: (snapshot, _delta, previous) => ({ version: snapshot.version, count: (previous?.count ?? 0) + 1 }),
        clock: systemClock,
        random: Math.random,
        pollMs: 25,
        auditEveryMs: 0,
        lagPatienceMs: 50,
        onError: (error) => errors.push(error),
        ...options,
      });
      index.onJobEvent((event) => jobs.push(event));
      indexes.push(index);
      index.start();
      return { index, errors, jobs };
    }

    async function head(): Promise<number> {
      return Number(await chain.rpc("eth_blockNumber"));
    }

    /** The newest snapshot once the index is at the chain's head. */
    async function atHead(index: Index): Promise<RegistrySnapshot> {
      return await until("the index is at the head", async () => {
        const hash = ((await chain.rpc("eth_getBlockByNumber", "latest", false)) as { readonly hash: Hex }).hash;
        const snapshot = index.current()?.snapshot;
        return snapshot?.blockHash === hash ? snapshot : undefined;
      });
    }

    /** All of the registry as its views tell it now. */
    async function views(): Promise<readonly ProviderRecord[]> {
      return await new PageReader(market.client, market.deployment.registry).allProviders(await head());
    }

    function withoutReputation(records: Iterable<ProviderRecord>): unknown {
      return [...records]
        .map((record) => ({ ...record, reputation: undefined }))
        .toSorted((a, b) => (a.address.toLowerCase() < b.address.toLowerCase() ? -1 : 1));
    }

    /** A bit of everything that can happen to a registry. */
    async function manyThings(): Promise<{ readonly providers: readonly Actor[]; readonly client: Actor }> {
      const operator = await market.actor();
      const first = await market.provider(2, { "m/a": 5_000_000n, "m/b": 7_000_000n }, operator.address);
      const second = await market.provider(0, { "m/a": 9_000_000n });
      const third = await market.provider(1, {});
      const client = await market.funded();
      const signed = await market.post({ client, provider: first.address, model: "m/a" });
      const unsigned = await market.post({ client, provider: first.address, model: "m/b" });
      const open = await market.post({ client, provider: second.address, model: "m/a" });
      await market.complete(signed, first.address, { inputTokens: 100, outputTokens: 1_000 }, client, operator.address);
      await market.complete(unsigned, first.address, { inputTokens: 1, outputTokens: 1 });
      await market.escrow(second.address, "ackJob", [open]);
      await market.registry(second.address, "setEndpoint", ["https://elsewhere.test/path"]);
      await market.registry(first.address, "removeOffering", ["m/b"]);
      await market.registry(first.address, "setOffering", ["m/a", 1n, 2n, 100]);
      await market.registry(third.address, "deactivate", []);
      await market.registry(third.address, "setMaxConcurrentJobs", [9]);
      const next = await market.actor();
      await market.registry(first.address, "setOperator", [next.address]);
      await market.registry(next.address, "resignOperator", []);
      await market.registry(first.address, "setPayout", [client.address]);
      await market.registry(second.address, "startUnbonding", [5n]);
      await market.registry(third.address, "reactivate", []);
      await market.registry(third.address, "heartbeat", []);
      return { providers: [first, second, third], client };
    }

    it("rebuilds from events exactly what the views tell, live and in hindsight", async () => {
      const live = open();
      await live.index.waitForBlock(0);
      await manyThings();
      const expected = withoutReputation(await views());
      const hindsight = open();
      const paged = open({ maxReplayBlocks: 0 });
      for (const { index } of [live, hindsight, paged]) {
        expect(withoutReputation((await atHead(index)).providers())).to.deep.equal(expected);
      }
    });

    it("knows reputation from signed receipts, replayed or joined to pages later", async () => {
      const { providers } = await manyThings();
      const address = providers[0]?.address ?? market.deployment.token;
      const replayed = (await open().index.waitForBlock(0)).snapshot;
      const reputation = replayed.provider(address)?.reputation;
      expect([...(reputation?.keys() ?? [])]).to.deep.equal(["m/a"]);
      expect(reputation?.get("m/a")?.paid.total).to.equal(5_500);
      expect(reputation?.get("m/a")?.failed.total).to.equal(0);
      const paged = open({ maxReplayBlocks: 0, maxRange: 3 });
      await until(
        "history is joined",
        () => (paged.index.current()?.snapshot.provider(address)?.reputation.size ?? 0) > 0,
      );
      expect(plainSnapshot(await atHead(paged.index))).to.deep.equal(plainSnapshot(replayed));
    });

    it("counts a proven fault, and forgets jobs that ended", async () => {
      const provider = await market.provider(3, { m: 5_000_000n });
      const client = await market.funded();
      const { index, jobs } = open();
      const staked = (await index.waitForBlock(0)).snapshot.provider(provider.address)?.stake ?? 0n;
      const slashed = await market.post({ client, provider: provider.address, model: "m", duration: 40 });
      const expired = await market.post({ client, provider: provider.address, model: "m", duration: 40 });
      await market.pass(50);
      await market.slash(slashed, client, provider);
      await market.escrow(client.address, "expireJobs", [[expired]]);
      const record = (await atHead(index)).provider(provider.address);
      const reputation = record?.reputation.get("m");
      expect(reputation?.paid.total).to.equal(0);
      expect(reputation?.failed.clients).to.deep.equal([client.address]);
      expect(reputation?.failed.total).to.be.greaterThan(0);
      expect(record?.openJobs).to.equal(0);
      expect(record?.stake, "less what was slashed").to.equal(staked - 1_000_000n);
      expect(withoutReputation(record === undefined ? [] : [record])).to.deep.equal(
        withoutReputation((await views()).filter(({ address }) => address === provider.address)),
      );
      expect(jobs.map((event) => [event.type, event.jobId])).to.deep.equal([
        ["posted", slashed],
        ["posted", expired],
        ["slashed", slashed],
        ["expired", expired],
      ]);
    });

    it("publishes snapshot and what is derived from it together, and tells listeners what changed", async () => {
      const provider = await market.provider(1, { m: 5n, other: 6n });
      const { index } = open();
      const published: {
        readonly version: number;
        readonly derived: number;
        readonly models: readonly string[];
        readonly providers: readonly Address[];
      }[] = [];
      index.subscribe(({ snapshot, derived }, delta) => {
        expect(index.current()?.snapshot).to.equal(snapshot);
        published.push({
          version: snapshot.version,
          derived: derived.version,
          models: [...delta.models],
          providers: [...delta.providers],
        });
      });
      await index.waitForBlock(0);
      const block = await market.registry(provider.address, "setOffering", ["m", 8n, 8n, 100]);
      await index.waitForBlock(block);
      expect(published.every((each) => each.version === each.derived)).to.equal(true);
      expect(published.at(-1)).to.deep.include({ providers: [provider.address] });
      expect(published.at(-1)?.models).to.have.members(["m", "other"]);
      expect(published.map((each) => each.version)).to.deep.equal(published.map((_, position) => position + 1));
    });

    it("publishes nothing while deriving fails, and loses nothing by it", async () => {
      const provider = await market.provider(1, { m: 5n });
      let fail = false;
      const { index, errors, jobs } = open({
        derive: (snapshot, _delta, previous) => {
          if (fail) throw new Error("cannot derive");
          return { version: snapshot.version, count: (previous?.count ?? 0) + 1 };
        },
      });
      const client = await market.funded();
      const before = await index.waitForBlock(await head());
      fail = true;
      const jobId = await market.post({ client, provider: provider.address, model: "m" });
      await until("deriving failed", () => errors.length > 0);
      expect(index.current()).to.equal(before);
      expect(jobs).to.deep.equal([]);
      fail = false;
      await atHead(index);
      expect(jobs.map((event) => [event.type, event.jobId])).to.deep.equal([["posted", jobId]]);
    });

    it("unwinds a reorganisation and takes the events of lost blocks back", async () => {
      const provider = await market.provider(3, { m: 5_000_000n });
      const client = await market.funded();
      const { index, jobs } = open();
      await index.waitForBlock(await head());
      const snapshotId = await chain.rpc("evm_snapshot");
      const lost = await market.post({ client, provider: provider.address, model: "m" });
      await market.provider(1, { "only in the lost fork": 1n });
      await market.registry(provider.address, "setMaxConcurrentJobs", [17]);
      const during = await atHead(index);
      expect(during.providerCount).to.equal(2);
      await chain.rpc("evm_revert", snapshotId);
      await market.registry(provider.address, "setMaxConcurrentJobs", [5]);
      await market.mine(12);
      const after = await atHead(index);
      expect(withoutReputation(after.providers())).to.deep.equal(withoutReputation(await views()));
      expect(after.provider(provider.address)).to.deep.include({ openJobs: 0, maxConcurrentJobs: 5 });
      expect(after.models()).to.deep.equal(["m"]);
      expect(during.models(), "a snapshot that a reader still holds").to.deep.equal(["m", "only in the lost fork"]);
      expect(jobs.map((event) => [event.type, event.jobId, event.removed])).to.deep.equal([
        ["posted", lost, false],
        ["posted", lost, true],
      ]);
      expect(index.health().reorganisations).to.be.greaterThan(0);
    });

    it("follows a chain that became shorter", async () => {
      const provider = await market.provider(3, { m: 5n });
      const { index } = open();
      const snapshotId = await chain.rpc("evm_snapshot");
      const before = await index.waitForBlock(await head());
      await market.registry(provider.address, "setMaxConcurrentJobs", [8]);
      await market.mine(5);
      await atHead(index);
      await chain.rpc("evm_revert", snapshotId);
      const after = await until("the index went back", () => {
        const snapshot = index.current()?.snapshot;
        return snapshot?.blockNumber === before.snapshot.blockNumber ? snapshot : undefined;
      });
      expect(plainSnapshot(after)).to.deep.equal(plainSnapshot(before.snapshot));
    });

    it("does not go back with a node that lags behind the others of the same address", async () => {
      const provider = await market.provider(3, { m: 5n });
      const client = await market.funded();
      const { index, jobs } = open({ lagPatienceMs: 60_000 });
      await index.waitForBlock(await head());
      const old = await chain.rpc("eth_getBlockByNumber", "latest", false);
      const jobId = await market.post({ client, provider: provider.address, model: "m" });
      const reached = await atHead(index);
      proxy.reset();
      proxy.setFault(({ method, params }) =>
        method === "eth_getBlockByNumber" && params[0] === "latest" ? { kind: "result", result: old } : undefined,
      );
      await until("the lagging node was asked a few times", () => proxy.count("eth_getBlockByNumber") >= 4);
      expect(index.current()?.snapshot).to.equal(reached);
      proxy.setFault(undefined);
      await market.mine();
      await atHead(index);
      expect(jobs.map((event) => [event.jobId, event.removed])).to.deep.equal([[jobId, false]]);
      expect(index.health().reorganisations).to.equal(0);
    });

    it("reads everything again when a reorganisation is deeper than it remembers", async () => {
      const provider = await market.provider(3, { m: 5n });
      const { index } = open({ keepBlocks: 3 });
      const snapshotId = await chain.rpc("evm_snapshot");
      for (let round = 0; round < 6; round += 1) {
        await index.waitForBlock(await market.registry(provider.address, "heartbeat", []));
      }
      await chain.rpc("evm_revert", snapshotId);
      await market.registry(provider.address, "setMaxConcurrentJobs", [6]);
      await market.mine(10);
      expect((await atHead(index)).provider(provider.address)?.maxConcurrentJobs).to.equal(6);
    });

    it("makes a constant number of calls for each block and none but its poll while the head stands still", async () => {
      const providers = await Promise.all([1, 2, 3].map(async () => await market.provider(3, { m: 5n })));
      const { index } = open();
      await atHead(index);
      proxy.reset();
      await until("a few polls", () => proxy.count("eth_getBlockByNumber") >= 4);
      expect([...proxy.counts.keys()]).to.deep.equal(["eth_getBlockByNumber"]);
      proxy.reset();
      const blocks = 20;
      for (let block = 0; block < blocks; block += 1) {
        const number = await market.registry(providers[block % 3]?.address ?? market.deployment.token, "heartbeat", []);
        // Many wait for the same block; the chain is asked once.
        await Promise.all(Array.from({ length: 50 }, async () => await index.waitForBlock(number)));
      }
      const polls = proxy.count("eth_getBlockByNumber");
      expect(proxy.count("eth_getLogs")).to.be.at.most(blocks);
      expect(proxy.total - polls).to.be.at.most(blocks);
      // One for each block, and at most one more for the poke that came while it was looked at, and those of the timer.
      expect(polls).to.be.at.most(blocks * 3);
    });

    it("starts without a chain, says that it is not ready, and catches up when the chain is there", async () => {
      const provider = await market.provider(3, { m: 5n });
      proxy.setFault(() => ({ kind: "http", status: 503 }));
      const { index, errors } = open();
      await until("it failed more than once", () => errors.length > 1);
      expect(index.health()).to.include({ ready: false, blockNumber: undefined });
      expect(index.health().lastError).to.match(/did not answer/);
      proxy.setFault(undefined);
      const { snapshot } = await index.waitForBlock(0);
      expect(snapshot.provider(provider.address)?.maxConcurrentJobs).to.equal(3);
      await until("the failure is forgotten", () => index.health().lastError === undefined);
      expect(index.health().ready).to.equal(true);
    });

    it("comes to the right state through a node that fails every third call", async () => {
      let calls = 0;
      const { index } = open();
      proxy.setFault(() => {
        calls += 1;
        return calls % 3 === 0 ? { kind: "drop" } : undefined;
      });
      await manyThings();
      const snapshot = await atHead(index);
      proxy.setFault(undefined);
      expect(withoutReputation(snapshot.providers())).to.deep.equal(withoutReputation(await views()));
    });

    it("finds by its audit what a lying node hid, tells, and mends it without missing or repeating a job event", async () => {
      const provider = await market.provider(3, { m: 5_000_000n });
      const client = await market.funded();
      const { index, errors, jobs } = open({ auditEveryMs: 1 });
      const { blockNumber } = (await index.waitForBlock(await head())).snapshot;
      // Logs of one block are withheld: the cap's change is never seen.
      proxy.setFault(({ method }) => (method === "eth_getLogs" ? { kind: "result", result: [] } : undefined));
      await market.registry(provider.address, "setMaxConcurrentJobs", [11]);
      await until(
        "the index is past the hidden block",
        () => (index.current()?.snapshot.blockNumber ?? 0) > blockNumber,
      );
      proxy.setFault(undefined);
      const mended = await until(
        "the record is right again",
        () => {
          const snapshot = index.current()?.snapshot;
          return snapshot?.provider(provider.address)?.maxConcurrentJobs === 11 ? snapshot : undefined;
        },
        // The audit looks at providers by chance.
        40_000,
      );
      expect(withoutReputation(mended.providers())).to.deep.equal(withoutReputation(await views()));
      expect(index.health().drift).to.be.greaterThan(0);
      expect(errors.map(String).join()).to.include("IndexDriftError");
      const jobId = await market.post({ client, provider: provider.address, model: "m" });
      await market.complete(jobId, provider.address, { inputTokens: 0, outputTokens: 10 }, client);
      const record = (await atHead(index)).provider(provider.address);
      expect(record?.reputation.get("m")?.paid.total).to.be.greaterThan(0);
      expect(jobs.map((event) => event.type)).to.deep.equal(["posted", "completed"]);
    });

    it("mends what its audit found as soon as the node answers, when the first try met an outage", async () => {
      const provider = await market.provider(3, { m: 5_000_000n });
      const { index, errors } = open({ auditEveryMs: 1 });
      const { blockNumber } = (await index.waitForBlock(await head())).snapshot;
      proxy.setFault(({ method }) => (method === "eth_getLogs" ? { kind: "result", result: [] } : undefined));
      await market.registry(provider.address, "setMaxConcurrentJobs", [11]);
      await until(
        "the index is past the hidden block",
        () => (index.current()?.snapshot.blockNumber ?? 0) > blockNumber,
      );
      // From the drift until the repair has failed no view answers.
      let outages = 0;
      proxy.setFault(({ method }) => {
        if (method !== "eth_call" || !(errors.at(-1) instanceof IndexDriftError)) return undefined;
        outages += 1;
        return { kind: "drop" };
      });
      await until(
        "the record is right again",
        () => index.current()?.snapshot.provider(provider.address)?.maxConcurrentJobs === 11,
        30_000,
      );
      expect(outages).to.be.greaterThan(0);
    });

    it("wakes by the WebSocket long before the next poll", async () => {
      const provider = await market.provider(3, { m: 5n });
      const { index } = open({ pollMs: 3_600_000, wsUrl: chain.wsUrl });
      await index.waitForBlock(0);
      await atHead(index);
      const block = await market.registry(provider.address, "setMaxConcurrentJobs", [12]);
      await until(
        "the block was seen without a poke",
        () => (index.current()?.snapshot.blockNumber ?? 0) >= block,
        5_000,
      );
    });

    it("ends waiting when it is stopped or the caller gives up, and stops although the node hangs", async () => {
      const { index } = open();
      await index.waitForBlock(0);
      const impatient = index
        .waitForBlock(longAgo, AbortSignal.abort(new Error("no patience")))
        .catch((error: unknown) => error);
      expect(await impatient).to.have.property("message", "no patience");
      const controller = new AbortController();
      const aborted = index.waitForBlock(longAgo, controller.signal).catch((error: unknown) => error);
      controller.abort(new Error("changed my mind"));
      expect(await aborted).to.have.property("message", "changed my mind");
      proxy.setFault(() => ({ kind: "hang" }));
      const waiting = index.waitForBlock(longAgo).catch((error: unknown) => error);
      await index.stop();
      expect(await waiting).to.be.instanceOf(IndexStoppedError);
      expect(await index.waitForBlock(0).catch((error: unknown) => error)).to.be.instanceOf(IndexStoppedError);
    });

    it("lets one listener's fault harm neither the others nor the index", async () => {
      const { index, errors } = open();
      let heard = 0;
      index.subscribe(() => {
        throw new Error("a listener's fault");
      });
      index.subscribe(() => {
        heard += 1;
      });
      await index.waitForBlock(0);
      await market.mine();
      await atHead(index);
      expect(heard).to.be.greaterThan(1);
      expect(String(errors[0])).to.include("a listener's fault");
    });
  });
}

describe("the registry index under anvil_reorg", function () {
  this.timeout(60_000);
  let chain: TestChain;

  before(async () => {
    chain = await startAnvil();
  });

  after(async () => {
    await chain.stop();
  });

  it("equals the views after reorganisations of any depth", async () => {
    const market = await TestMarket.open(chain);
    const connection = openChain({ url: chain.rpcUrl, clock: systemClock, random: Math.random });
    const index = createRegistryIndex<undefined>({
      client: connection.client,
      contracts: market.deployment,
      deployedAtBlock: market.deployment.deployedAtBlock,
      derive: () => undefined,
      clock: systemClock,
      random: Math.random,
      pollMs: 20,
    });
    index.start();
    const provider = await market.provider(2, { m: 5n });
    await market.mine(5);
    for (const depth of [1, 2, 5, 8]) {
      for (let round = 0; round < 8; round += 1)
        await market.registry(provider.address, "setMaxConcurrentJobs", [depth * 10 + round]);
      await index.waitForBlock(Number(await chain.rpc("eth_blockNumber")));
      await chain.rpc("anvil_reorg", depth, []);
      await market.mine();
      const expected = (
        await new PageReader(market.client, market.deployment.registry).someProviders(
          [provider.address],
          Number(await chain.rpc("eth_blockNumber")),
        )
      )[0];
      await until(`the index follows a reorganisation of ${depth}`, async () => {
        const latest = (await chain.rpc("eth_getBlockByNumber", "latest", false)) as { readonly hash: Hex };
        return index.current()?.snapshot.blockHash === latest.hash;
      });
      const record = index.current()?.snapshot.provider(provider.address);
      expect({ ...record, reputation: undefined }).to.deep.equal({ ...expected, reputation: undefined });
    }
    expect(index.health().reorganisations).to.equal(4);
    await index.stop();
    await connection.close();
  });
});
