import { expect } from "chai";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Address,
  decodeFunctionData,
  encodeAbiParameters,
  encodeEventTopics,
  encodeFunctionData,
  type Hex,
  type TransactionReceipt,
} from "viem";
import { jobEscrowAbi } from "../../../chain/abi/job-escrow.ts";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "../../../chain/transactions/types.ts";
import type { OnChainJob, OnChainJobStatus } from "../../../provider/escrow/on-chain-job.ts";
import type { ProviderJob } from "../../../provider/settlement/job.ts";
import { JobBook, JobConflictError } from "../../../provider/settlement/job-book.ts";
import { reopened } from "../../../provider/settlement/reopen.ts";
import { Settler } from "../../../provider/settlement/settler.ts";
import type { Journal } from "../../../store/journal.ts";
import { openSqliteJournal } from "../../../store/sqlite-journal.ts";
import { until } from "../../support/until.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptedJob, idOf } from "../support/provider-jobs.ts";

const escrow: Address = "0x00000000000000000000000000000000000000E5";
const provider: Address = "0x00000000000000000000000000000000000000A1";
const hash: Hex = `0x${"22".repeat(32)}`;

function jobOf(number: number, nowMs: number, change: Partial<ProviderJob> = {}): ProviderJob {
  const usage = { inputTokens: 60, outputTokens: 40 };
  return acceptedJob(nowMs, {
    jobId: idOf(number),
    stage: "receipted",
    delivery: { usage, responseHash: hash, statement: "0x12", estimated: false, partial: false, at: nowMs },
    receipt: { usage, responseHash: hash, signature: "0x34" },
    ...change,
  });
}

/** Job ids of a settlement's calldata. */
function jobsIn(request: TransactionRequest): readonly Hex[] {
  const call = decodeFunctionData({ abi: jobEscrowAbi, data: request.data });
  if (call.functionName === "completeJobs") return call.args[0].map((item) => item.jobId);
  if (call.functionName === "completeJob" || call.functionName === "declineJob") return [call.args[0]];
  throw new Error(call.functionName);
}

/** A queue whose answers the test gives, and a chain that goes with it. */
class ScriptedQueue implements TransactionQueue {
  readonly address = provider;
  readonly pending = 0;
  readonly requests: TransactionRequest[] = [];
  readonly statuses = new Map<Hex, OnChainJobStatus>();
  readonly known = new Map<string, TransactionOutcome>();
  answer: (request: TransactionRequest) => TransactionOutcome | Promise<TransactionOutcome> = (request) =>
    this.mined(request);

  async submit(request: TransactionRequest): Promise<TransactionOutcome> {
    this.requests.push(request);
    return await this.answer(request);
  }

  async outcomeOf(key: string): Promise<TransactionOutcome | undefined> {
    return await Promise.resolve(this.known.get(key));
  }

  isPending(): boolean {
    return false;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }

  /** A receipt in which each job but the bad ones is completed or declined. */
  mined(request: TransactionRequest, bad: ReadonlySet<Hex> = new Set()): TransactionOutcome {
    const isDecline = request.kind === "declineJob";
    const logs = jobsIn(request)
      .filter((jobId) => !bad.has(jobId))
      .map((jobId) => {
        this.statuses.set(jobId, isDecline ? "Declined" : "Completed");
        const completed = encodeAbiParameters(
          [{ type: "uint96" }, { type: "uint64" }, { type: "uint64" }, { type: "bytes32" }, { type: "bool" }],
          [100n, 60n, 40n, hash, true],
        );
        const eventName = isDecline ? "JobDeclined" : "JobCompleted";
        return {
          address: escrow,
          topics: encodeEventTopics({ abi: jobEscrowAbi, eventName, args: { jobId, provider } }),
          data: isDecline ? "0x" : completed,
        };
      });
    return { status: "success", hash, receipt: { blockNumber: 7n, logs } as unknown as TransactionReceipt };
  }
}

describe("Settler", () => {
  let folder: string;
  let journal: Journal;
  let clock: ManualClock;
  let book: JobBook;
  let queue: ScriptedQueue;
  let failures: string[];
  let settler: Settler;

  function open(windowMs = 10): Settler {
    return new Settler({
      book,
      queue,
      reader: {
        read: async (jobId) => {
          const status = queue.statuses.get(jobId) ?? "Open";
          return await Promise.resolve({ jobId, status } as unknown as OnChainJob);
        },
      },
      escrow,
      clock,
      aheadMs: () => 0,
      policy: { receiptGraceMs: 60_000, settleMarginSeconds: 10, unfetchedDeclineMs: 30_000 },
      batch: 20,
      windowMs,
      events: {
        ended: () => undefined,
        failed: (_job, reason) => failures.push(reason),
        unexpected: (error) => failures.push(String(error)),
      },
    });
  }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-settler-"));
    journal = await openSqliteJournal(join(folder, "provider.sqlite"));
    clock = new ManualClock();
    book = new JobBook(journal, clock);
    queue = new ScriptedQueue();
    failures = [];
    settler = open();
  });

  afterEach(async () => {
    settler.close();
    await settler.idle();
    await journal.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function insert(...numbers: number[]): Promise<void> {
    for (const number of numbers) expect(await book.insert(jobOf(number, clock.now()))).to.equal(true);
  }

  const stageOf = async (number: number): Promise<string | undefined> => (await book.get(idOf(number)))?.stage;

  it("settles a single job after the window, with its own call", async () => {
    settler.start();
    await insert(1);
    await clock.advance(9);
    expect(queue.requests).to.have.length(0);
    await clock.advance(1);
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    expect(queue.requests.map((request) => request.kind)).to.deep.equal(["completeJob"]);
    expect((await book.get(idOf(1)))?.payment).to.equal("100");
  });

  it("shares one transaction among jobs that are ready together, at most twenty", async () => {
    await insert(...Array.from({ length: 23 }, (_, index) => index + 1));
    settler.start();
    await until("all are settled", () => book.openJobs().length === 0 && queue.requests.length >= 2);
    expect(queue.requests.map((request) => jobsIn(request).length).toSorted((a, b) => b - a)).to.deep.equal([20, 3]);
  });

  it("isolates a poison item: the others of its batch are paid at once, it goes alone and spoils no other batch", async () => {
    const poison = idOf(2);
    queue.answer = (request) =>
      jobsIn(request).length > 1
        ? queue.mined(request, new Set([poison]))
        : jobsIn(request)[0] === poison
          ? { status: "reverted", hash: undefined, errorName: "SomethingBad", errorArgs: [], message: "bad" }
          : queue.mined(request);
    await insert(1, 2, 3);
    settler.start();
    await clock.advance(10);
    await until(
      "the good ones are settled",
      async () => (await stageOf(1)) === "settled" && (await stageOf(3)) === "settled",
    );
    await until("it was tried alone", () => queue.requests.length >= 2);
    expect(jobsIn(queue.requests[1] as TransactionRequest)).to.deep.equal([poison]);
    await until("the attempt failed", () => failures.length >= 2);
    await insert(4, 5);
    await clock.advance(10);
    await until("the next batch is settled", async () => (await stageOf(5)) === "settled");
    const together = queue.requests.filter((request) => request.kind === "completeJobs");
    expect(jobsIn(together[1] as TransactionRequest)).to.deep.equal([idOf(4), idOf(5)]);
    expect(await stageOf(2)).to.equal("receipted");
    expect((await book.get(poison))?.attempts).to.be.at.least(2);
  });

  it("tries a failed job again after a growing pause, each time as another transaction", async () => {
    queue.answer = () => ({ status: "abandoned", message: "no fees", undecided: false });
    await insert(1);
    settler.start();
    await clock.advance(10);
    await until("first and second attempt", () => failures.length === 2);
    const at = clock.now();
    await clock.advance(1_999);
    expect(queue.requests).to.have.length(2);
    queue.answer = (request) => queue.mined(request);
    await clock.advance(10);
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    expect(clock.now() - at).to.be.lessThan(2_100);
    expect(new Set(queue.requests.map((request) => request.key)).size).to.equal(3);
  });

  it("tries a job that has often failed again while it still has time, instead of sleeping over its deadline", async () => {
    queue.answer = () => ({ status: "abandoned", message: "no gas", undecided: false });
    await book.insert(jobOf(1, clock.now(), { attempts: 9, deadline: clock.now() / 1000 + 80 }));
    settler.start();
    await until("it has failed once more", () => failures.length === 1);
    queue.answer = (request) => queue.mined(request);
    await clock.advance(41_000);
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    expect(queue.requests).to.have.length(2);
  });

  it("does not press on once the deadline is past", async () => {
    queue.answer = () => ({ status: "abandoned", message: "no gas", undecided: false });
    await book.insert(jobOf(1, clock.now(), { attempts: 9, deadline: clock.now() / 1000 - 1 }));
    settler.start();
    await until("it has failed once more", () => failures.length === 1);
    await clock.advance(60_000);
    expect(queue.requests).to.have.length(1);
  });

  it("believes the chain and not the error: a job that others ended is not sent again", async () => {
    queue.answer = () => ({
      status: "reverted",
      hash: undefined,
      errorName: "JobStatusMismatch",
      errorArgs: [],
      message: "",
    });
    queue.statuses.set(idOf(1), "Expired");
    queue.statuses.set(idOf(2), "Completed");
    queue.statuses.set(idOf(3), "Declined");
    await insert(1, 2, 3);
    settler.start();
    await clock.advance(10);
    await until("all have ended", () => book.openJobs().length === 0);
    expect([await stageOf(1), await stageOf(2), await stageOf(3)]).to.deep.equal(["lost", "settled", "forfeited"]);
    expect((await book.get(idOf(1)))?.reason).to.equal("expired");
    expect(queue.requests).to.have.length(1);
  });

  it("drops a receipt that the chain does not accept, and claims without it", async () => {
    let isFirst = true;
    queue.answer = (request) => {
      if (!isFirst) return queue.mined(request);
      isFirst = false;
      return { status: "reverted", hash: undefined, errorName: "InvalidClientSignature", errorArgs: [], message: "" };
    };
    await insert(1);
    settler.start();
    await clock.advance(10);
    await until("the receipt is gone", async () => (await stageOf(1)) === "delivered");
    await clock.advance(60_000);
    await until("it is claimed", async () => (await stageOf(1)) === "settled");
    const last = decodeFunctionData({ abi: jobEscrowAbi, data: (queue.requests.at(-1) as TransactionRequest).data });
    expect(last.functionName === "completeJob" && last.args[3]).to.equal("0x");
  });

  it("goes on after a crash before the transaction reached the queue", async () => {
    await book.insert(jobOf(1, clock.now(), { stage: "settling", transaction: { key: "k", action: "complete" } }));
    await book.insert(
      jobOf(2, clock.now(), {
        stage: "settling",
        transaction: { key: "d", action: "decline" },
        delivery: undefined as never,
      }),
    );
    settler.start();
    await until("both are ready again", () => book.openJobs().every((job) => job.stage !== "settling"));
    await clock.advance(10);
    await until("both have ended", () => book.openJobs().length === 0);
    expect([await stageOf(1), await stageOf(2)]).to.deep.equal(["settled", "declined"]);
  });

  it("takes the outcome of a transaction that an earlier process had sent, and sends no other", async () => {
    const data = encodeFunctionData({
      abi: jobEscrowAbi,
      functionName: "completeJob",
      args: [idOf(1), { inputTokens: 60n, outputTokens: 40n }, hash, "0x34"],
    });
    queue.known.set("k", queue.mined({ key: "k", to: escrow, kind: "completeJob", data }));
    await book.insert(jobOf(1, clock.now(), { stage: "settling", transaction: { key: "k", action: "complete" } }));
    settler.start();
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    expect(queue.requests).to.have.length(0);
  });

  it("does not send a lone completion again that an earlier process had sent without a mark", async () => {
    const data = encodeFunctionData({
      abi: jobEscrowAbi,
      functionName: "completeJob",
      args: [idOf(1), { inputTokens: 60n, outputTokens: 40n }, hash, "0x34"],
    });
    const key = `complete:${idOf(1)}:0`;
    queue.known.set(key, queue.mined({ key, to: escrow, kind: "completeJob", data }));
    await insert(1, 2, 3);
    settler.start();
    await until("the first is settled", async () => (await stageOf(1)) === "settled");
    await clock.advance(10);
    await until("the others too", () => book.openJobs().length === 0);
    expect(queue.requests.map(jobsIn)).to.deep.equal([[idOf(2), idOf(3)]]);
  });

  it("ends a job once, however often the chain tells of it", async () => {
    settler.start();
    await insert(1);
    await settler.completed(idOf(1), 100n, hash, 7);
    await settler.completed(idOf(1), 100n, hash, 7);
    await settler.lost(idOf(1), "expired", 7);
    expect(await book.get(idOf(1))).to.include({ stage: "settled", payment: "100", endBlock: 7 });
  });

  it("knows the block that an end is in, as told last, so that a reorganisation below it is seen to undo it", async () => {
    settler.start();
    await insert(1);
    await clock.advance(10);
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    expect((await book.get(idOf(1)))?.endBlock).to.equal(7);
    await settler.completed(idOf(1), 100n, hash, 9);
    expect((await book.get(idOf(1)))?.endBlock).to.equal(9);
    expect(await book.endedAbove(9)).to.deep.equal([]);
    expect((await book.endedAbove(8)).map(({ jobId }) => jobId)).to.deep.equal([idOf(1)]);
  });

  it("settles a job again whose end the chain has taken back, by another transaction", async () => {
    settler.start();
    await insert(1);
    await clock.advance(10);
    await until("it is settled", async () => (await stageOf(1)) === "settled");
    await book.change(idOf(1), reopened);
    await clock.advance(10);
    await until("it is settled again", async () => (await stageOf(1)) === "settled");
    expect(new Set(queue.requests.map(({ key }) => key)).size).to.equal(2);
  });

  it("pauses ever longer while the queue fails, instead of spinning, and pays when it works again", async () => {
    queue.answer = () => {
      throw new Error("disk full");
    };
    await insert(1);
    await book.insert(jobOf(2, clock.now(), { stage: "declining", delivery: undefined as never }));
    settler.start();
    await clock.advance(10);
    await until("both have failed", () => failures.length === 2);
    for (let turn = 0; turn < 20; turn += 1) await journal.getValue("a turn of the journal's thread");
    expect(queue.requests, "none is tried again while the clock stands still").to.have.length(2);
    await clock.advance(1_000);
    await until("both have failed again", async () => {
      await clock.advance(10);
      return failures.length === 4;
    });
    await clock.advance(1_000);
    for (let turn = 0; turn < 20; turn += 1) await journal.getValue("a turn of the journal's thread");
    expect(queue.requests, "the second pause is longer").to.have.length(4);
    queue.answer = (request) => queue.mined(request);
    await until("both have ended", async () => {
      await clock.advance(1_000);
      return book.openJobs().length === 0;
    });
  });

  it("asks again for a transaction of an earlier process when it could not be told what became of it", async () => {
    const outcomeOf = queue.outcomeOf.bind(queue);
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "declineJob", args: [idOf(1)] });
    queue.known.set("k", queue.mined({ key: "k", to: escrow, kind: "declineJob", data }));
    let asked = 0;
    queue.outcomeOf = async (key) => {
      asked += 1;
      if (asked <= 2) throw new Error("the chain did not answer");
      return await outcomeOf(key);
    };
    await book.insert(jobOf(1, clock.now(), { stage: "settling", transaction: { key: "k", action: "decline" } }));
    settler.start();
    await clock.advance(500);
    expect(await stageOf(1)).to.equal("settling");
    await clock.advance(10_000);
    await until("it has ended", async () => (await stageOf(1)) === "forfeited");
    expect(asked).to.equal(3);
    expect(queue.requests).to.have.length(0);
  });
});

describe("JobBook", () => {
  let folder: string;
  let journal: Journal;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-book-"));
    journal = await openSqliteJournal(join(folder, "provider.sqlite"));
  });

  afterEach(async () => {
    await journal.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("takes a job once, of many that come at the same time", async () => {
    const clock = new ManualClock();
    const book = new JobBook(journal, clock);
    const results = await Promise.all(Array.from({ length: 10 }, async () => await book.insert(jobOf(1, clock.now()))));
    expect(results.filter(Boolean)).to.have.length(1);
  });

  it("loses no change of many that come at the same time", async () => {
    const clock = new ManualClock();
    const book = new JobBook(journal, clock);
    await book.insert(jobOf(1, clock.now()));
    await Promise.all(
      Array.from(
        { length: 20 },
        async () => await book.change(idOf(1), (job) => ({ ...job, attempts: job.attempts + 1 })),
      ),
    );
    expect((await book.get(idOf(1)))?.attempts).to.equal(20);
  });

  it("knows its open jobs after a restart, and the ended ones too", async () => {
    const clock = new ManualClock();
    const book = new JobBook(journal, clock);
    await book.insert(jobOf(1, clock.now()));
    await book.insert(jobOf(2, clock.now()));
    await book.change(idOf(2), (job) => ({ ...job, stage: "settled" }));
    const next = new JobBook(journal, clock);
    await next.load();
    expect(next.openJobs()).to.deep.equal([jobOf(1, clock.now())]);
    expect((await next.get(idOf(2)))?.stage).to.equal("settled");
    expect(await next.insert(jobOf(2, clock.now())), "an ended job is not begun again").to.equal(false);
  });

  it("refuses to go on when another process writes the same jobs", async () => {
    const clock = new ManualClock();
    const [one, two] = [new JobBook(journal, clock), new JobBook(journal, clock)];
    await one.insert(jobOf(1, clock.now()));
    await two.load();
    await two.change(idOf(1), (job) => ({ ...job, attempts: 1 }));
    let thrown: unknown;
    try {
      await one.change(idOf(1), (job) => ({ ...job, attempts: 2 }));
    } catch (error) {
      thrown = error;
    }
    expect(thrown).to.be.instanceOf(JobConflictError);
  });
});
