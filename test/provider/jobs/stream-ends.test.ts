import { expect } from "chai";
import type { Hex } from "viem";
import { LiveJobs } from "../../../provider/jobs/live-jobs.ts";
import { ReceiptDesk } from "../../../provider/jobs/receipt-desk.ts";
import { StreamEnds } from "../../../provider/jobs/stream-ends.ts";
import { ChainEvents } from "../../../provider/settlement/chain-events.ts";
import type { ProviderJob } from "../../../provider/settlement/job.ts";
import { JobBook } from "../../../provider/settlement/job-book.ts";
import { ProviderSigner } from "../../../provider/signer.ts";
import { accountFromKey } from "../../../protocol/signing.ts";
import { encodeDelivered } from "../../../protocol/wire.ts";
import { MemoryJournal } from "../../gateway/support/memory-journal.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptedJob } from "../support/provider-jobs.ts";

const jobId: Hex = `0x${"77".repeat(32)}`;
const hash: Hex = `0x${"22".repeat(32)}`;
const usage = { inputTokens: 60, outputTokens: 40 };

describe("the end of a stream that the journal cannot take, as on a full disk", () => {
  let clock: ManualClock;
  let journal: MemoryJournal;
  let book: JobBook;
  let faults: unknown[];
  let ends: StreamEnds;

  beforeEach(async () => {
    clock = new ManualClock();
    journal = new MemoryJournal();
    book = new JobBook(journal, clock);
    faults = [];
    ends = new StreamEnds({ book, clock, onError: (error) => faults.push(error) });
    await book.insert(acceptedJob(clock.now(), { jobId }));
    journal.failure = new Error("disk full");
  });

  afterEach(() => ends.stop());

  const delivered = (job: ProviderJob): ProviderJob | undefined =>
    job.stage === "accepted"
      ? {
          ...job,
          stage: "delivered",
          delivery: { usage, responseHash: hash, statement: "0x12", estimated: false, partial: false, at: clock.now() },
        }
      : undefined;

  const stage = () => book.peek(jobId)?.stage;

  it("is written as soon as the journal takes it, so that the job is paid for and its slot comes free", async () => {
    await ends.write(jobId, delivered);
    await clock.advance(20_000);
    expect(stage()).to.equal("accepted");
    expect(faults.length, "tried ever less often").to.be.within(4, 8);
    journal.failure = undefined;
    await clock.advance(15_000);
    expect(stage()).to.equal("delivered");
    expect(clock.pending).to.equal(0);
  });

  it("is written before the client's receipt is judged, which is then taken instead of refused", async () => {
    const account = accountFromKey(`0x${"11".repeat(32)}`);
    const desk = new ReceiptDesk({
      book,
      live: new LiveJobs(),
      ends,
      signatures: { isBy: async () => await Promise.resolve(true) },
      signer: new ProviderSigner(account, { chainId: 1, escrow: account.address }, account.address),
      clock,
    });
    await ends.write(jobId, delivered);
    const text = encodeDelivered(usage, hash, "0x34");
    const refused = await desk.take(jobId, text).then(
      () => undefined,
      (error: unknown) => String(error),
    );
    expect(refused, "a fault of ours, to be tried again, and no refusal").to.include("disk full");
    journal.failure = undefined;
    expect((await desk.take(jobId, text)).stage).to.equal("receipted");
  });

  it("is claimed at once when the client has asked for its money meanwhile", async () => {
    const events = new ChainEvents({
      book,
      isLive: () => false,
      isDraining: () => false,
      clock,
    } as unknown as ConstructorParameters<typeof ChainEvents>[0]);
    await ends.write(jobId, delivered);
    journal.failure = undefined;
    await events.take({ kind: "cancel_requested", jobId, block: 5 });
    await clock.advance(1_000);
    expect(book.peek(jobId)).to.include({ stage: "delivered", claimNow: true });
  });
});
