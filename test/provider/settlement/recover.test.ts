import { expect } from "chai";
import type { Hex } from "viem";
import type { ProviderJob } from "../../../provider/settlement/job.ts";
import { JobBook } from "../../../provider/settlement/job-book.ts";
import { LostEnds } from "../../../provider/settlement/recover.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptedJob, idOf } from "../support/provider-jobs.ts";

const usage = { inputTokens: 60, outputTokens: 40 };

describe("LostEnds", () => {
  let clock: ManualClock;
  let book: JobBook;
  let live: Set<Hex>;
  let lostEnds: LostEnds;

  beforeEach(() => {
    clock = new ManualClock();
    book = new JobBook(new MemoryJournal(), clock);
    live = new Set();
    const signer = { stateUsage: async () => await Promise.resolve("0x99" as const) };
    lostEnds = new LostEnds({ book, signer, clock }, (jobId) => live.has(jobId));
  });

  async function accepted(number: number, change: Partial<ProviderJob> = {}): Promise<Hex> {
    const jobId = idOf(number);
    await book.insert(acceptedJob(clock.now(), { jobId, ...change }));
    return jobId;
  }

  it("claims what such a stream had delivered, and gives back a job of which nothing was", async () => {
    const begun = await accepted(1, { checkpoint: usage });
    const unbegun = await accepted(2);
    expect(await lostEnds.look(), "they may just be starting").to.equal(0);
    expect(await lostEnds.look()).to.equal(2);
    expect(book.peek(begun)).to.deep.include({ stage: "delivered", reason: "lost_end" });
    expect(book.peek(begun)?.delivery).to.deep.include({ usage, partial: true, statement: "0x99" });
    expect(book.peek(unbegun)).to.include({ stage: "declining" });
    expect(await lostEnds.look()).to.equal(0);
  });

  it("leaves a stream that runs, or that ran at the look before", async () => {
    const jobId = await accepted(1, { checkpoint: usage });
    live.add(jobId);
    expect([await lostEnds.look(), await lostEnds.look()]).to.deep.equal([0, 0]);
    live.delete(jobId);
    expect(await lostEnds.look()).to.equal(0);
    expect(book.peek(jobId)?.stage).to.equal("accepted");
  });
});
