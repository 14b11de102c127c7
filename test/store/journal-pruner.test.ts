import { expect } from "chai";
import { JournalPruner } from "../../store/journal-pruner.ts";
import { ManualClock } from "../provider/support/manual-clock.ts";

const day = 86_400_000;

describe("pruning of the journal", () => {
  let clock: ManualClock;
  let asked: { readonly before: number; readonly limit: number }[];
  /** Old rows left. */
  let rows: number;
  let pruned: number[];
  let failures: unknown[];
  let failure: Error | undefined;
  let pruner: JournalPruner;

  beforeEach(() => {
    clock = new ManualClock();
    asked = [];
    pruned = [];
    failures = [];
    failure = undefined;
  });

  function start(keepMs: number): void {
    pruner = new JournalPruner({
      journal: {
        prune: async (before, limit) => {
          asked.push({ before, limit });
          if (failure !== undefined) throw failure;
          const taken = Math.min(rows, limit);
          rows -= taken;
          return await Promise.resolve(taken);
        },
      },
      clock,
      keepMs,
      onPruned: (count) => pruned.push(count),
      onError: (error) => failures.push(error),
    });
    pruner.start();
  }

  it("takes out what is older than it may be, in batches with a pause, then looks again in an hour", async () => {
    rows = 450;
    start(30 * day);
    await clock.advance(60_000);
    expect(asked, "one batch at a time: others wait for the same disk").to.have.length(1);
    expect(asked[0]?.before).to.equal(clock.now() - 30 * day);
    await clock.advance(100);
    await clock.advance(100);
    expect(pruned).to.deep.equal([450]);
    await clock.advance(3_599_000);
    expect(asked).to.have.length(3);
    await clock.advance(1_000);
    expect(asked).to.have.length(4);
    expect(pruned, "nothing to say when nothing was old").to.deep.equal([450]);
  });

  it("goes on after a failure", async () => {
    rows = 1;
    failure = new Error("disk full");
    start(day);
    await clock.advance(60_000);
    expect(failures).to.deep.equal([failure]);
    failure = undefined;
    await clock.advance(3_600_000);
    expect(pruned).to.deep.equal([1]);
  });

  it("never begins when everything is to be kept", async () => {
    rows = 1;
    start(0);
    await clock.advance(day);
    expect(asked).to.deep.equal([]);
    expect(clock.pending).to.equal(0);
  });

  it("stops at once", async () => {
    rows = 1000;
    start(day);
    await clock.advance(60_000);
    await pruner.stop();
    await clock.advance(day);
    expect(asked).to.have.length(1);
  });
});
