import { expect } from "chai";
import { type Hex, numberToHex, type PublicClient } from "viem";
import { JobEventFollower } from "../../../provider/escrow/event-follower.ts";
import { escrowEvent, FakeChain, fakeContracts, type FakeEvent, jobNumber, person } from "../../support/fake-chain.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { ManualClock } from "../support/manual-clock.ts";

const pollMs = 1_000;

const completed = (job: number): FakeEvent =>
  escrowEvent("JobCompleted", {
    jobId: jobNumber(job),
    provider: person(1),
    payment: 5n,
    inputTokens: 1n,
    outputTokens: 1n,
    responseHash: `0x${"22".repeat(32)}`,
    signed: true,
  });

const missing = (count: number): FakeEvent => escrowEvent("SlotsMissing", { provider: person(1), count });

interface Filter {
  readonly fromBlock?: Hex;
  readonly toBlock?: Hex;
  readonly blockHash?: Hex;
  readonly topics: readonly unknown[];
}

/**
 * The two calls that the follower makes, answered by a chain in memory.
 *
 * @param behind Blocks that the node which is asked for logs has not seen yet.
 */
function clientOf(
  chain: () => FakeChain,
  renamed: (hash: Hex) => Hex,
  behind: () => number,
  beforeLookup: () => Promise<void>,
): PublicClient {
  const block = (header: Awaited<ReturnType<ReturnType<FakeChain["reader"]>["block"]>>) =>
    header === undefined
      ? null
      : {
          hash: renamed(header.hash),
          parentHash: renamed(header.parentHash),
          number: numberToHex(header.number),
          timestamp: numberToHex(header.timestamp),
        };
  /** As a node that has not seen the newest blocks yet. */
  const logsOf = async ({ fromBlock, toBlock, blockHash }: Filter) => {
    const reader = chain().reader();
    const known = (await reader.head()).number - behind();
    if (blockHash === undefined) return await reader.logsInRange(Number(fromBlock), Math.min(known, Number(toBlock)));
    const header = await reader.block(known);
    if (header === undefined || renamed(header.hash) !== blockHash) throw new Error("unknown block");
    return await reader.logsOfBlock(header.hash);
  };
  const request = async ({ method, params }: { readonly method: string; readonly params: readonly unknown[] }) => {
    const reader = chain().reader();
    if (method === "eth_getBlockByNumber") {
      const which = params[0] as Hex | "latest";
      return block(which === "latest" ? await reader.head() : await reader.block(Number(which)));
    }
    const filter = params[0] as Filter;
    const [selectors] = filter.topics as [Hex | readonly Hex[]];
    if (selectors === missing(1).topics[0]) await beforeLookup();
    const logs = await logsOf(filter);
    return logs.filter((log) => [selectors].flat().includes(log.topics[0] as Hex));
  };
  return { request } as unknown as PublicClient;
}

describe("JobEventFollower", () => {
  let chain: FakeChain;
  /** Start of all hashes of another chain; undefined: the hashes are as they are. */
  let prefix: "0xff" | undefined;
  let behind: number;
  let journal: MemoryJournal;
  let clock: ManualClock;
  let told: string[];
  let faults: unknown[];
  /** Questions for the alarm of missing slots, what is done before each is answered, and the failures that were told. */
  let lookups: number;
  let lookup: () => Promise<void>;
  let lookupFaults: unknown[];
  let reorg: (lastCommonBlock: number) => Promise<void>;
  let follower: JobEventFollower;

  function open(): JobEventFollower {
    return new JobEventFollower({
      client: clientOf(
        () => chain,
        (hash) => (prefix === undefined ? hash : `${prefix}${hash.slice(4)}`),
        () => behind,
        async () => {
          lookups += 1;
          await lookup();
        },
      ),
      escrow: fakeContracts.escrow,
      provider: person(1),
      chainId: 1,
      journal,
      clock,
      pollMs,
      firstBlock: undefined,
      deployedAtBlock: 1n,
      onEvent: async (event) => {
        told.push(`${event.kind} ${event.block}`);
        return await Promise.resolve();
      },
      onReorg: async (lastCommonBlock) => await reorg(lastCommonBlock),
      onMissingSlots: ({ count, block }) => told.push(`missing ${count} in ${block}`),
      onMissingSlotsError: (error) => lookupFaults.push(error),
      onPoll: (error) => {
        if (error !== undefined) faults.push(error);
      },
    });
  }

  beforeEach(async () => {
    chain = new FakeChain();
    prefix = undefined;
    behind = 0;
    journal = new MemoryJournal();
    clock = new ManualClock();
    told = [];
    faults = [];
    lookups = 0;
    lookup = async () => await Promise.resolve();
    lookupFaults = [];
    reorg = async (lastCommonBlock) => {
      told.push(`reorg ${lastCommonBlock}`);
      return await Promise.resolve();
    };
    extend(3);
    follower = open();
    await follower.start();
  });

  afterEach(async () => await follower.stop());

  function extend(blocks: number): void {
    for (let block = 0; block < blocks; block += 1) chain.extend([]);
  }

  async function follow(blocks: number): Promise<void> {
    for (let block = 0; block < blocks; block += 1) {
      chain.extend([]);
      await clock.advance(pollMs);
    }
  }

  it("tells of an event once, and again with its new block after a reorganisation, which is told first", async () => {
    chain.extend([completed(1)]);
    await clock.advance(pollMs);
    await follow(2);
    expect(told).to.deep.equal(["completed 4"]);
    chain.drop(3);
    extend(2);
    chain.extend([completed(1)]);
    extend(1);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["completed 4", "reorg 3", "completed 6"]);
  });

  it("finds a reorganisation to a shorter chain at once, and not when the old height is reached", async () => {
    await follow(10);
    chain.drop(8);
    extend(2);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["reorg 5"]);
    chain.extend([completed(1)]);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["reorg 5", "completed 8"]);
  });

  it("finds a reorganisation of any depth, and tells the new branch from where the two part", async () => {
    await follow(300);
    chain.drop(200);
    chain.extend([completed(1)]);
    extend(400);
    await clock.advance(pollMs);
    const [first, second] = told;
    expect(Number(first?.split(" ")[1])).to.be.at.most(103);
    expect(second).to.equal("completed 104");
  });

  it("starts from the contracts on a chain that has none of the blocks that it saw, however short it is", async () => {
    await follow(100);
    chain = new FakeChain();
    prefix = "0xff";
    chain.extend([completed(1)]);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["reorg 0", "completed 1"]);
  });

  it("waits for a node that lags behind, and takes it for no reorganisation", async () => {
    await follow(20);
    const ahead = chain;
    chain = new FakeChain();
    extend(9);
    await clock.advance(3 * pollMs);
    chain = ahead;
    await follow(2);
    expect(told).to.deep.equal([]);
    expect(faults).to.deep.equal([]);
  });

  it("loses no event of the newest block to a node that has not seen that block yet", async () => {
    behind = 1;
    chain.extend([completed(1)]);
    await clock.advance(pollMs);
    expect(told).to.deep.equal([]);
    behind = 0;
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["completed 4"]);
  });

  it("loses no event of several blocks to a node that has not seen all of them yet, and tells of each once", async () => {
    behind = 3;
    extend(1);
    chain.extend([completed(1)]);
    chain.extend([completed(2)]);
    extend(1);
    await clock.advance(pollMs);
    expect(told).to.deep.equal([]);
    behind = 2;
    await follow(1);
    behind = 0;
    await follow(2);
    expect(told).to.deep.equal(["completed 5", "completed 6"]);
  });

  it("goes on with the newest block alone once every node has the others", async () => {
    extend(4);
    await clock.advance(pollMs);
    await follow(15);
    const before = chain.calls.logs;
    await follow(1);
    expect(chain.calls.logs - before, "more than its posts and its ends").to.equal(2);
  });

  it("tells of a reorganisation again until it was dealt with, also after a restart in between", async () => {
    await follow(5);
    reorg = async (lastCommonBlock) => {
      told.push(`failed ${lastCommonBlock}`);
      return await Promise.reject(new Error("the chain cannot be asked"));
    };
    chain.drop(2);
    extend(3);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["failed 6"]);
    await follower.stop();
    reorg = async (lastCommonBlock) => {
      told.push(`reorg ${lastCommonBlock}`);
      return await Promise.resolve();
    };
    follower = open();
    await follower.start();
    await follow(2);
    expect(told).to.deep.equal(["failed 6", "reorg 6"]);
  });

  it("takes up the cursor of an older version, which knows no blocks below it", async () => {
    await follow(5);
    await follower.stop();
    const [[key, text] = ["", ""]] = journal.values;
    const { number, hash } = JSON.parse(text) as { readonly number: string; readonly hash: Hex };
    await journal.setValue(key, JSON.stringify({ number, hash }));
    chain.extend([completed(1)]);
    follower = open();
    await follower.start();
    expect(told).to.deep.equal(["completed 9"]);
  });

  it("tells of slots that another market freed, and asks for them only where jobs have ended", async () => {
    await follow(4);
    const fields = { jobId: jobNumber(1), provider: person(1), respondBy: 1 };
    chain.extend([escrowEvent("JobCancelRequested", fields)]);
    await clock.advance(pollMs);
    expect(lookups, "no job has ended").to.equal(0);
    chain.extend([completed(1), missing(2)]);
    await clock.advance(pollMs);
    await follow(3);
    expect(told).to.deep.equal(["cancel_requested 8", "completed 9", "missing 2 in 9"]);
    expect(lookups).to.equal(1);
  });

  it("tells of jobs while the alarm cannot be asked for, says so once, and loses no alarm", async () => {
    lookup = async () => await Promise.reject(new Error("no answer"));
    chain.extend([completed(1), missing(1)]);
    await clock.advance(pollMs);
    chain.extend([completed(2), missing(1)]);
    await clock.advance(pollMs);
    await follow(2);
    expect(told).to.deep.equal(["completed 4", "completed 5"]);
    expect(faults, "the poll itself went well").to.deep.equal([]);
    expect(lookupFaults).to.have.length(1);
    lookup = async () => await Promise.resolve();
    await follow(1);
    expect(told.slice(2)).to.deep.equal(["missing 1 in 4", "missing 1 in 5"]);
  });

  it("waits for no answer about the alarm before it tells of the next job, but ends with it", async () => {
    const answer = Promise.withResolvers<void>();
    lookup = async () => await answer.promise;
    chain.extend([completed(1), missing(1)]);
    await clock.advance(pollMs);
    chain.extend([completed(2)]);
    await clock.advance(pollMs);
    expect(told).to.deep.equal(["completed 4", "completed 5"]);
    answer.resolve();
    await follower.stop();
    expect(told.slice(2)).to.deep.equal(["missing 1 in 4"]);
  });
});
