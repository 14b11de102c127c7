import { expect } from "chai";
import type { Hex } from "viem";
import type { OnChainJob, OnChainJobStatus } from "../../../provider/escrow/on-chain-job.ts";
import { EndCheck } from "../../../provider/settlement/end-check.ts";
import type { ProviderJob } from "../../../provider/settlement/job.ts";
import { JobBook } from "../../../provider/settlement/job-book.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptedJob, idOf } from "../support/provider-jobs.ts";

const usage = { inputTokens: 60, outputTokens: 40 };
const hash: Hex = `0x${"22".repeat(32)}`;
const delivery = { usage, responseHash: hash, statement: "0x12", estimated: false, partial: false, at: 0 } as const;
const receipt = { usage, responseHash: hash, signature: "0x34" } as const;

describe("EndCheck", () => {
  let clock: ManualClock;
  let journal: MemoryJournal;
  let book: JobBook;
  let statuses: Map<Hex, OnChainJobStatus>;
  let live: Set<Hex>;
  let pending: Set<string>;
  let reads: number;
  let reopenedJobs: Hex[];

  beforeEach(() => {
    clock = new ManualClock();
    journal = new MemoryJournal();
    book = new JobBook(journal, clock);
    statuses = new Map();
    live = new Set();
    pending = new Set();
    reads = 0;
    reopenedJobs = [];
  });

  function check(of = book): EndCheck {
    return new EndCheck({
      book: of,
      signer: { stateUsage: async () => await Promise.resolve("0x99" as const) },
      clock,
      reader: {
        read: async (jobId) => {
          reads += 1;
          const status = statuses.get(jobId);
          return await Promise.resolve(status === undefined ? undefined : ({ jobId, status } as OnChainJob));
        },
      },
      queue: { isPending: (key) => pending.has(key) },
      aheadMs: () => 0,
      isLive: (jobId) => live.has(jobId),
      onReopened: (job) => reopenedJobs.push(job.jobId),
    });
  }

  async function ended(number: number, onChain: OnChainJobStatus | undefined, change: Partial<ProviderJob>) {
    const jobId = idOf(number);
    if (onChain !== undefined) statuses.set(jobId, onChain);
    await book.insert(
      acceptedJob(clock.now(), { jobId, stage: "settled", acknowledgement: "0x56", endBlock: 20, ...change }),
    );
    await clock.advance(1);
    return jobId;
  }

  const stageOf = async (jobId: Hex) => (await book.get(jobId))?.stage;

  it("opens a settled job again whose settlement the chain has dropped, with all that it is to be paid for", async () => {
    const payment = { payment: "100", transactionHash: hash };
    const signed = await ended(1, "Open", { delivery, receipt, ...payment });
    const claimed = await ended(2, "Open", { delivery, ...payment });
    await check().endsAbove(19);
    const job = await book.get(signed);
    expect(job).to.deep.include({ stage: "receipted", delivery, receipt, attempts: 1 });
    expect(job).to.not.have.any.keys("payment", "transactionHash", "endBlock");
    expect(await stageOf(claimed)).to.equal("delivered");
    expect(book.openJobs()).to.have.length(2);
    expect(reopenedJobs).to.have.members([signed, claimed]);
  });

  it("opens a job that ends of others had ended, at every stage that it can have been in", async () => {
    const lost = { stage: "lost", reason: "expired" } as const;
    const delivered = await ended(1, "Open", { ...lost, delivery });
    const running = await ended(2, "Acknowledged", lost);
    live.add(running);
    const cut = await ended(3, "Open", { ...lost, checkpoint: usage });
    const unbegun = await ended(4, "CancelRequested", { ...lost, acknowledgement: undefined as never });
    const given = await ended(5, "Open", { stage: "declined" });
    await check().endsAbove(10);
    expect(await stageOf(delivered)).to.equal("delivered");
    expect(await stageOf(running), "its stream still runs").to.equal("accepted");
    expect(await book.get(cut), "its stream is over").to.deep.include({ stage: "delivered" });
    expect((await book.get(cut))?.delivery?.usage).to.deep.equal(usage);
    expect(await stageOf(unbegun)).to.equal("posted");
    expect(await stageOf(given)).to.equal("declining");
  });

  it("leaves the ends that the chain still has, and asks only for those above the block", async () => {
    await ended(1, "Open", { endBlock: 19 });
    const settled = await ended(2, "Completed", { delivery });
    const forfeited = await ended(3, "Declined", { stage: "forfeited", delivery });
    const lost = await ended(4, "Expired", { stage: "lost" });
    await check().endsAbove(19);
    expect([await stageOf(settled), await stageOf(forfeited), await stageOf(lost)]).to.deep.equal([
      "settled",
      "forfeited",
      "lost",
    ]);
    expect(reads).to.equal(3);
  });

  it("opens a job that has another end now, so that the book comes to say what the chain says", async () => {
    const jobId = await ended(1, "Expired", { delivery, receipt });
    await check().endsAbove(19);
    expect(await stageOf(jobId)).to.equal("receipted");
  });

  it("waits for the post of a forgotten job to come back until the deadline, and no longer", async () => {
    const early = await ended(1, undefined, { delivery, receipt });
    const late = await ended(2, undefined, { delivery, receipt, deadline: clock.now() / 1000 - 1 });
    await check().endsAbove(19);
    expect([await stageOf(early), await stageOf(late)]).to.deep.equal(["receipted", "settled"]);
  });

  it("lets the queue go on with a transaction that it still looks after, and makes no second one", async () => {
    const batch = { key: "settle-batch:1", action: "complete" } as const;
    const one = await ended(1, "Open", { delivery, receipt, transaction: batch });
    const two = await ended(2, "Open", { delivery, receipt });
    pending.add(batch.key).add(`complete:${two}:0`);
    await check().endsAbove(19);
    expect(await book.get(one)).to.deep.include({ stage: "settling", transaction: batch, attempts: 0 });
    expect((await book.get(two))?.transaction?.key).to.equal(`complete:${two}:0`);
  });

  it("finds ends of an earlier process, more than one page of them, and in blocks that nobody knows", async () => {
    for (let number = 1; number <= 450; number += 1) await ended(number, "Open", { delivery });
    const unknown = await ended(451, "Open", { delivery, endBlock: undefined as never });
    const next = new JobBook(journal, clock);
    await check(next).endsAbove(19);
    expect(next.openJobs()).to.have.length(451);
    expect((await next.get(unknown))?.stage).to.equal("delivered");
  });
});
