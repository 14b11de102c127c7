import { expect } from "chai";
import * as fc from "fast-check";
import { type AdvanceContext, advance, ChainMovedError, type JobLog } from "../../../chain/registry-index/advance.ts";
import type { BlockHeader } from "../../../chain/registry-index/chain-reader.ts";
import { RangePacer } from "../../../chain/registry-index/range-pacer.ts";
import { genesisState } from "../../../chain/registry-index/state.ts";
import { Window } from "../../../chain/registry-index/window.ts";
import {
  escrowEvent,
  FakeChain,
  type FakeEvent,
  fakeContracts,
  fakeRating,
  jobNumber,
  joining,
  person,
  registryEvent,
} from "../../support/fake-chain.ts";
import { FakeMarket, type Happening, happeningKinds } from "../../support/fake-market.ts";
import { plainState } from "../../support/plain-state.ts";

const happening: fc.Arbitrary<Happening> = fc.record({
  // Joining and posting more often, so that something happens.
  kind: fc.constantFrom(...happeningKinds, "join", "post", "post", "end"),
  who: fc.nat(40),
  what: fc.nat(40),
});
const block = fc.array(happening, { maxLength: 6 });
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ drop: fc.constant(0), blocks: fc.array(block, { minLength: 1, maxLength: 5 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ drop: fc.integer({ min: 1, max: 6 }), blocks: fc.array(block, { maxLength: 6 }) }),
  },
);

/** A chain on which a market happens, with the market's state at each block so that it can fork. */
class Story {
  readonly chain = new FakeChain();
  #states: FakeMarket[] = [new FakeMarket()];

  play({ drop, blocks }: { readonly drop: number; readonly blocks: readonly (readonly Happening[])[] }): void {
    if (drop > 0) {
      this.chain.drop(drop);
      this.#states = this.#states.slice(0, this.chain.length);
    }
    for (const happenings of blocks) {
      const market = (this.#states.at(-1) ?? new FakeMarket()).copy();
      this.chain.extend(happenings.flatMap((each) => market.happen(each)));
      this.#states.push(market);
    }
  }
}

function contextOf(
  chain: FakeChain,
  options: { readonly maxRange?: number; readonly keepBlocks?: number } = {},
): AdvanceContext {
  return {
    reader: chain.reader(),
    contracts: fakeContracts,
    pacer: new RangePacer(options.maxRange ?? 100),
    keepBlocks: options.keepBlocks ?? 64,
    rating: fakeRating,
  };
}

function windowAt(header: BlockHeader, capacity: number): Window {
  return Window.from(
    { number: header.number, hash: header.hash, state: genesisState, touched: new Set(), jobLogs: [] },
    capacity,
  );
}

async function genesis(context: AdvanceContext): Promise<Window> {
  const first = await context.reader.block(0);
  if (first === undefined) throw new Error("no first block");
  return windowAt(first, context.keepBlocks);
}

/** Follows to the head of now; restarts from nothing when lost. Returns what was told on the way. */
async function follow(context: AdvanceContext, from: Window, told: JobLog[] = []): Promise<Window> {
  let window = from;
  for (;;) {
    const head = await context.reader.head();
    let result: Awaited<ReturnType<typeof advance>>;
    try {
      result = await advance(context, window, head);
    } catch (error) {
      if (error instanceof ChainMovedError) continue;
      throw error;
    }
    if (result === undefined) return window;
    if (result === "lost") {
      told.length = 0;
      window = await genesis(context);
      continue;
    }
    for (const log of result.removed) {
      const last = told.pop();
      expect(last, "events are taken back in the reverse of their order").to.deep.equal(log);
    }
    told.push(...result.added);
    ({ window } = result);
  }
}

async function freshReplay(chain: FakeChain): Promise<{ readonly state: unknown; readonly told: readonly JobLog[] }> {
  const context = contextOf(chain, { maxRange: 1_000, keepBlocks: 1_000 });
  const told: JobLog[] = [];
  const window = await follow(context, await genesis(context), told);
  return { state: plainState(window.tip.state), told };
}

describe("following the chain", () => {
  it("ends in the state of a fresh replay after any reorganisations, however the blocks were read", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        async (steps, maxRange, tellsTimes) => {
          const story = new Story();
          story.chain.tellsTimes = tellsTimes;
          const context = contextOf(story.chain, { maxRange });
          const told: JobLog[] = [];
          let window = await genesis(context);
          for (const each of steps) {
            story.play(each);
            window = await follow(context, window, told);
          }
          const fresh = await freshReplay(story.chain);
          expect(plainState(window.tip.state)).to.deep.equal(fresh.state);
          expect(told).to.deep.equal(fresh.told);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("dates the outcome of a job between the ends of what it read, without a call of its own, where logs carry no times", async () => {
    const provider = person(1);
    const jobId = jobNumber(1);
    const terms = { client: person(9), provider, offeringId: 1, maxPayment: 10n, unsignedLimit: 0n, deadline: 1 };
    const usage = { payment: 5n, inputTokens: 1n, outputTokens: 1n, responseHash: jobId, signed: true };
    const read = async (end: readonly FakeEvent[]) => {
      const chain = new FakeChain();
      chain.tellsTimes = false;
      chain.extend(joining(1, 1, ["a"]));
      chain.extend([escrowEvent("JobPosted", { jobId, ...terms })]);
      for (let block = 0; block < 6; block += 1) chain.extend([]);
      chain.extend(end);
      for (let block = 0; block < 6; block += 1) chain.extend([]);
      const context = contextOf(chain);
      const { tip } = await follow(context, await genesis(context));
      return { calls: chain.calls, record: tip.state.providers.get(provider)?.reputation.get("a") };
    };
    const rated = await read([escrowEvent("JobCompleted", { jobId, provider, ...usage })]);
    const unrated = await read([escrowEvent("JobCompleted", { jobId, provider, ...usage, signed: false })]);
    expect(rated.record?.time).to.equal(1_000_000 + 9 * 2);
    expect(rated.record?.paid.total).to.equal(5);
    expect(unrated.record).to.equal(undefined);
    expect(rated.calls).to.deep.equal(unrated.calls);
  });

  it("survives a chain that changes between any two calls", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 2, maxLength: 12 }),
        fc.array(fc.boolean(), { minLength: 30, maxLength: 30 }),
        fc.integer({ min: 1, max: 9 }),
        async (steps, strikePlan, maxRange) => {
          const story = new Story();
          const strikes = [...strikePlan];
          const [first, ...rest] = steps;
          if (first !== undefined) story.play(first);
          story.chain.beforeCall = () => {
            if (strikes.pop() !== true) return;
            const next = rest.shift();
            if (next !== undefined) story.play(next);
          };
          const context = contextOf(story.chain, { maxRange });
          const told: JobLog[] = [];
          const window = await follow(context, await genesis(context), told);
          // The last call may have been struck after the head was read: look once more at a chain at rest.
          story.chain.beforeCall = () => undefined;
          const atRest = await follow(context, window, told);
          const fresh = await freshReplay(story.chain);
          expect(plainState(atRest.tip.state)).to.deep.equal(fresh.state);
          expect(told).to.deep.equal(fresh.told);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("goes on after a failure as if it had not happened: nothing moves before everything is read", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 8 }),
        fc.array(fc.boolean(), { minLength: 25, maxLength: 25 }),
        async (steps, failurePlan) => {
          const story = new Story();
          const failures = [...failurePlan];
          const context = contextOf(story.chain, { maxRange: 4 });
          const told: JobLog[] = [];
          let window = await genesis(context);
          for (const each of steps) {
            story.play(each);
            story.chain.beforeCall = () => {
              if (failures.pop() === true) throw new Error("the node had a bad moment");
            };
            for (let failed = true; failed; ) {
              const frozen = window;
              const attempt = [...told];
              try {
                window = await follow(context, window, attempt);
                told.length = 0;
                told.push(...attempt);
                failed = false;
              } catch {
                window = frozen;
              }
            }
          }
          story.chain.beforeCall = () => undefined;
          const fresh = await freshReplay(story.chain);
          expect(plainState(window.tip.state)).to.deep.equal(fresh.state);
          expect(told).to.deep.equal(fresh.told);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("calls the node once more for a next block and at most three times more for many, whatever is in them", async () => {
    const story = new Story();
    const context = contextOf(story.chain);
    let window = await genesis(context);
    for (const blocks of [1, 1, 7, 40]) {
      for (let index = 0; index < blocks; index += 1) {
        story.chain.extend(joining(story.chain.length, story.chain.length, ["alpha"]));
      }
      Object.assign(story.chain.calls, { head: 0, block: 0, logs: 0 });
      window = await follow(context, window);
      // `follow` looks at the head twice: the second time nothing is new.
      expect(story.chain.calls).to.deep.equal({ head: 2, block: blocks === 1 ? 0 : 2, logs: 1 });
    }
  });

  it("finds a common ancestor with a number of calls that grows with the logarithm of the window", async () => {
    const story = new Story();
    const context = contextOf(story.chain, { keepBlocks: 256, maxRange: 1_000 });
    let window = await genesis(context);
    for (let index = 0; index < 250; index += 1) {
      story.chain.extend([]);
      window = await follow(context, window);
    }
    story.chain.drop(200);
    for (let index = 0; index < 210; index += 1) story.chain.extend([]);
    Object.assign(story.chain.calls, { head: 0, block: 0, logs: 0 });
    window = await follow(context, window);
    // Two to see that the range does not fit, eight to search among 251 blocks, two for the range that does.
    expect(story.chain.calls.block).to.be.lessThanOrEqual(12);
    expect(window.tip.number).to.equal(story.chain.length - 1);
  });

  it("halves a range that the node refuses until it is answered, and lets it grow again", async () => {
    const story = new Story();
    const context = contextOf(story.chain, { maxRange: 64 });
    for (let index = 0; index < 200; index += 1)
      story.chain.extend(index % 10 === 0 ? joining(index, index, ["alpha"]) : []);
    const asked: number[] = [];
    story.chain.beforeCall = (_call, range) => {
      if (range === undefined) return;
      asked.push(range.to - range.from + 1);
      if (range.to - range.from + 1 > 10) throw new Error("query returned more than 10000 results");
    };
    const window = await follow(context, await genesis(context));
    expect(window.tip.state.providers.size).to.equal(20);
    expect(asked.slice(0, 4)).to.deep.equal([64, 32, 16, 8]);
    expect(Math.max(...asked.slice(4))).to.be.lessThanOrEqual(16);
  });

  it("gives up on a single block that the node refuses, so that the error is seen", async () => {
    const story = new Story();
    const context = contextOf(story.chain, { maxRange: 8 });
    for (let index = 0; index < 20; index += 1) story.chain.extend([]);
    const window = await genesis(context);
    story.chain.beforeCall = (call) => {
      if (call === "logs") throw new Error("no logs here");
    };
    const failure = await follow(context, window).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Error).with.property("message", "no logs here");
  });

  it("says that it is lost when the chain shares no block of its window", async () => {
    const story = new Story();
    const context = contextOf(story.chain, { keepBlocks: 4 });
    let window = await genesis(context);
    for (let index = 0; index < 10; index += 1) {
      story.chain.extend([]);
      window = await follow(context, window);
    }
    story.chain.drop(8);
    for (let index = 0; index < 10; index += 1) story.chain.extend([]);
    expect(await advance(context, window, await context.reader.head())).to.equal("lost");
  });

  it("refuses logs that speak of a provider nobody registered: something was missed", async () => {
    const story = new Story();
    const context = contextOf(story.chain);
    story.chain.extend([registryEvent("Heartbeat", { provider: person(1) })]);
    const failure = await follow(context, await genesis(context)).catch((error: unknown) => error);
    expect(failure).to.have.property("name", "IndexInconsistencyError");
  });
});
