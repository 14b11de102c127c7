import { expect } from "chai";
import { LiveJobs } from "../../../provider/jobs/live-jobs.ts";
import { StreamEnds } from "../../../provider/jobs/stream-ends.ts";
import { drain } from "../../../provider/node/drain.ts";
import { JobBook } from "../../../provider/settlement/job-book.ts";
import { RunAbort } from "../../../provider/upstream/answer.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { ManualClock } from "../support/manual-clock.ts";

function setup() {
  const clock = new ManualClock();
  const book = new JobBook(new MemoryJournal(), clock);
  const live = new LiveJobs();
  const ends = new StreamEnds({ book, clock, onError: (error) => expect.fail(String(error)) });
  const calls: string[] = [];
  const faults: unknown[] = [];
  const side = {
    declineUnbegun: () => {
      calls.push("declined");
      return Promise.resolve();
    },
    claimDelivered: () => {
      calls.push("claimed");
      return Promise.resolve();
    },
  };
  const log = {
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
    fault: (_part: string, error: unknown) => faults.push(error),
  };
  let isOver = false;
  const begin = (): void => {
    void drain({ side, book, live, ends, clock, log, drainMs: 5000 }).then(() => {
      isOver = true;
    });
  };
  return { clock, live, side, calls, faults, begin, isOver: () => isOver };
}

describe("the drain of a provider node", () => {
  it("lets answers run for as long as it is told, then ends them, and still claims what was delivered", async () => {
    const { clock, live, calls, begin, isOver } = setup();
    const abort = new RunAbort();
    const end = live.add("0x01", abort);
    abort.signal.addEventListener("abort", end);
    begin();
    await clock.advance(4999);
    expect([abort.cause, calls]).to.deep.equal([undefined, ["declined"]]);
    await clock.advance(1);
    expect(abort.cause).to.equal("drain");
    expect([isOver(), calls]).to.deep.equal([true, ["declined", "declined", "claimed"]]);
    expect(clock.pending).to.equal(0);
  });

  it("ends though an answer does not: else the process stayed until it was killed, and claimed nothing", async () => {
    const { clock, live, calls, begin, isOver } = setup();
    live.add("0x01", new RunAbort());
    begin();
    await clock.advance(5000);
    expect([isOver(), calls]).to.deep.equal([false, ["declined"]]);
    await clock.advance(10_000);
    expect([isOver(), calls]).to.deep.equal([true, ["declined", "declined", "claimed"]]);
  });

  it("goes on though one part fails, and tells of it", async () => {
    const { clock, side, calls, faults, begin, isOver } = setup();
    side.declineUnbegun = () => Promise.reject(new Error("the chain cannot be reached"));
    begin();
    await clock.advance(0);
    expect(isOver()).to.equal(true);
    expect(calls, "what was delivered is claimed all the same").to.deep.equal(["claimed"]);
    expect(faults.map(String)).to.deep.equal(Array.from({ length: 2 }, () => "Error: the chain cannot be reached"));
  });
});
