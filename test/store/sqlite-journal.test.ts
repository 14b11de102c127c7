import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "chai";
import * as fc from "fast-check";
import { JournalClosedError, JournalLockedError, JournalVersionError, UnknownIntentError } from "../../store/errors.ts";
import type { Journal, JobRow } from "../../store/journal.ts";
import { migrations } from "../../store/schema.ts";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";
import { nextThread } from "../support/next-thread.ts";
import { jobRow, transactionRow } from "../support/journal-rows.ts";

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => expect.fail("resolved"),
    (error: unknown) => error,
  );
}

describe("the SQLite journal", () => {
  let directory: string;
  let path: string;
  let journal: Journal;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-journal-"));
    path = join(directory, "deep", "journal.sqlite");
    journal = await openSqliteJournal(path);
  });

  afterEach(async () => {
    await journal.close();
    await rm(directory, { recursive: true });
  });

  const reopen = async (): Promise<void> => {
    await journal.close();
    journal = await openSqliteJournal(path);
  };

  it("inserts an intent once, so that a key never leads to two transactions", async () => {
    const row = transactionRow({ key: "post:1" });
    expect(
      await Promise.all([journal.insertTransaction(row), journal.insertTransaction({ ...row, kind: "other" })]),
    ).to.deep.equal([true, false]);
    await reopen();
    expect(await journal.transaction("post:1")).to.deep.equal(row);
    expect(await journal.insertTransaction(row)).to.equal(false);
  });

  it("changes only the fields that are given, and null is a value", async () => {
    const row = transactionRow({ key: "a", gas: "100", nonce: 3 });
    await journal.insertTransaction(row);
    await journal.updateTransaction("a", { hashes: ["0x01", "0x02"], status: "sent", updatedAt: 2_000 });
    expect(await journal.transaction("a")).to.deep.equal({
      ...row,
      hashes: ["0x01", "0x02"],
      status: "sent",
      updatedAt: 2_000,
    });
    await journal.updateTransaction("a", { gas: null, nonce: null });
    expect(await journal.transaction("a")).to.include({ gas: null, nonce: null, status: "sent" });
    await journal.updateTransaction("a", {});
  });

  it("rejects an update of an unknown intent without harm to its neighbours in the same commit", async () => {
    const [inserted, refused, put] = await Promise.allSettled([
      journal.insertTransaction(transactionRow({ key: "a" })),
      journal.updateTransaction("ghost", { status: "sent" }),
      journal.setValue("cursor", "7"),
    ]);
    expect(inserted).to.deep.equal({ status: "fulfilled", value: true });
    expect(refused.status === "rejected" && refused.reason).to.be.instanceOf(UnknownIntentError);
    expect(put.status).to.equal("fulfilled");
    await reopen();
    expect(await journal.getValue("cursor")).to.equal("7");
  });

  it("lists a sender's open intents by nonce, then age, whatever the case of the address", async () => {
    const sender = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8" as const;
    const rows = [
      transactionRow({ key: "later", createdAt: 9 }),
      transactionRow({ key: "earlier", createdAt: 5 }),
      transactionRow({ key: "nonce 2", nonce: 2, status: "sent" }),
      transactionRow({ key: "nonce 1", nonce: 1, status: "allocated", createdAt: 99 }),
      transactionRow({ key: "done", nonce: 0, status: "success" }),
      transactionRow({ key: "other chain", chainId: 1 }),
      transactionRow({ key: "other sender", sender: "0x5FbDB2315678afecb367f032d93F642f64180aa3" }),
    ];
    for (const row of rows) await journal.insertTransaction(row);
    for (const address of [sender, sender.toLowerCase() as typeof sender]) {
      const open = await journal.openTransactions(address, 31_337);
      expect(open.map((row) => row.key)).to.deep.equal(["nonce 1", "nonce 2", "earlier", "later"]);
    }
  });

  it("finds what a sender had mined from a nonce on, so that a reorganisation's gap can be closed with it", async () => {
    const rows = [
      transactionRow({ key: "below", nonce: 4, status: "success" }),
      transactionRow({ key: "second", nonce: 6, status: "reverted" }),
      transactionRow({ key: "first", nonce: 5, status: "success" }),
      transactionRow({ key: "open", nonce: 7, status: "sent" }),
      transactionRow({ key: "other chain", nonce: 5, status: "success", chainId: 1 }),
    ];
    for (const row of rows) await journal.insertTransaction(row);
    const mined = await journal.minedTransactions(transactionRow({ key: "" }).sender, 31_337, 5);
    expect(mined.map(({ key }) => key)).to.deep.equal(["first", "second"]);
  });

  it("writes a job over an outdated revision never, so that two writers cannot lose each other's change", async () => {
    expect(await journal.casJob(jobRow({ id: "j", revision: 2 }))).to.equal(false);
    expect(await journal.casJob(jobRow({ id: "j", revision: 1 }))).to.equal(true);
    expect(await journal.casJob(jobRow({ id: "j", revision: 1 }))).to.equal(false);
    const both = await Promise.all([
      journal.casJob(jobRow({ id: "j", revision: 2, document: '"one"' })),
      journal.casJob(jobRow({ id: "j", revision: 2, document: '"two"' })),
    ]);
    expect(both).to.deep.equal([true, false]);
    expect((await journal.job("gateway", "j"))?.document).to.equal('"one"');
  });

  it("takes finished jobs out of the open ones and keeps collections apart", async () => {
    await journal.putJob(jobRow({ id: "a", createdAt: 2 }));
    await journal.putJob(jobRow({ id: "b", createdAt: 1 }));
    await journal.putJob(jobRow({ id: "a", collection: "provider", document: '{"other":true}' }));
    await journal.putJob(
      jobRow({ id: "b", createdAt: 1, open: false, status: "settled", revision: 2, jobId: "0xabcd" }),
    );
    expect((await journal.openJobs("gateway")).map((job) => job.id)).to.deep.equal(["a"]);
    expect(await journal.job("gateway", "b")).to.deep.equal(
      jobRow({ id: "b", createdAt: 1, open: false, status: "settled", revision: 2, jobId: "0xabcd" }),
    );
    expect(await journal.job("gateway", "nobody")).to.equal(undefined);
  });

  it("pages through recent jobs, newest first", async () => {
    for (let time = 1; time <= 5; time += 1) await journal.putJob(jobRow({ id: `j${time}`, updatedAt: time }));
    const page = await journal.recentJobs("gateway", 2);
    expect(page.map((job) => job.id)).to.deep.equal(["j5", "j4"]);
    expect((await journal.recentJobs("gateway", 2, page.at(-1)?.updatedAt)).map((job) => job.id)).to.deep.equal([
      "j3",
      "j2",
    ]);
  });

  it("forgets what ended long ago, oldest first and a few at a time, and nothing that is open or younger", async () => {
    for (const [id, open, updatedAt] of [
      ["old", false, 100],
      ["older", false, 50],
      ["young", false, 900],
      ["old but open", true, 10],
    ] as const) {
      await journal.putJob(jobRow({ id, open, updatedAt, createdAt: 5 }));
    }
    expect(await journal.prune(500, 1)).to.equal(1);
    expect(await journal.job("gateway", "older")).to.equal(undefined);
    expect(await journal.prune(500, 10)).to.equal(1);
    expect((await journal.recentJobs("gateway", 10)).map(({ id }) => id)).to.deep.equal(["young", "old but open"]);
  });

  it("forgets final intents, but none that is under way or that an open job may still ask for", async () => {
    for (const [key, status, updatedAt] of [
      ["success", "success", 100],
      ["reverted", "reverted", 110],
      ["abandoned", "abandoned", 120],
      ["sent", "sent", 100],
      ["given up", "given_up", 100],
      ["of an open job", "success", 310],
      ["young", "success", 900],
    ] as const) {
      await journal.insertTransaction(transactionRow({ key, status, updatedAt }));
    }
    await journal.putJob(jobRow({ id: "open", open: true, createdAt: 300, updatedAt: 301 }));
    expect(await journal.prune(500, 2)).to.equal(2);
    expect(await journal.prune(500, 2)).to.equal(1);
    expect(await journal.prune(500, 2)).to.equal(0);
    for (const key of ["sent", "given up", "of an open job", "young"])
      expect((await journal.transaction(key))?.key, key).to.equal(key);
    await journal.putJob(jobRow({ id: "open", open: false, createdAt: 300, updatedAt: 600 }));
    expect(await journal.prune(500, 10)).to.equal(1);
    expect(await journal.transaction("of an open job")).to.equal(undefined);
  });

  it("counts without gaps or repeats under concurrency and across a restart, so that client nonces are never reused", async () => {
    const counts = await Promise.all(Array.from({ length: 200 }, () => journal.nextCounter("nonce")));
    expect(counts).to.deep.equal(Array.from({ length: 200 }, (_, index) => BigInt(index + 1)));
    await reopen();
    expect(await journal.nextCounter("nonce")).to.equal(201n);
    expect(await journal.nextCounter("other")).to.equal(1n);
  });

  it("keeps any text exactly", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary" }), fc.string(), async (value, key) => {
        fc.pre(value.isWellFormed() && !value.includes("\0") && !key.includes("\0"));
        await journal.setValue(key, value);
        expect(await journal.getValue(key)).to.equal(value);
      }),
      { numRuns: 60 },
    );
    expect(await journal.getValue("never set")).to.equal(undefined);
  });

  it("behaves like a plain map under any sequence of writes", async () => {
    const operation = fc.record({
      id: fc.constantFrom("a", "b", "c"),
      revision: fc.integer({ min: 1, max: 4 }),
      cas: fc.boolean(),
      open: fc.boolean(),
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 30 }), async (operations) => {
        run += 1;
        const model = new Map<string, JobRow>();
        const outcomes: Promise<unknown>[] = [];
        const expected: unknown[] = [];
        for (const { id, revision, cas, open } of operations) {
          const row = jobRow({ id: `${run}-${id}`, revision, open, document: JSON.stringify(expected.length) });
          if (cas) {
            const fits = (model.get(row.id)?.revision ?? 0) === revision - 1;
            outcomes.push(journal.casJob(row));
            expected.push(fits);
            if (fits) model.set(row.id, row);
          } else {
            outcomes.push(journal.putJob(row));
            expected.push(undefined);
            model.set(row.id, row);
          }
        }
        expect(await Promise.all(outcomes)).to.deep.equal(expected);
        for (const id of ["a", "b", "c"])
          expect(await journal.job("gateway", `${run}-${id}`)).to.deep.equal(model.get(`${run}-${id}`));
      }),
      { numRuns: 40 },
    );
  });

  it("shares one commit among writes in flight: 2,000 at once take less than a second even on a slow disk", async () => {
    const start = performance.now();
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => journal.putJob(jobRow({ id: `j${index}` }))));
    expect(performance.now() - start).to.be.lessThan(1_000);
  });

  it("refuses a second opener, so that two processes never share a data directory by accident", async () => {
    expect(await rejection(openSqliteJournal(path)))
      .to.be.instanceOf(JournalLockedError)
      .with.property("message")
      .that.includes("T4T_DATA_DIR");
  });

  it("says so when its thread dies, once, and not when it is closed", async () => {
    const lost: Error[] = [];
    const thread = nextThread();
    const doomed = await openSqliteJournal(join(directory, "doomed.sqlite"), { onLost: (error) => lost.push(error) });
    const [left] = await Promise.all([rejection(doomed.setValue("a", "1")), (await thread).terminate()]);
    expect(left).to.be.instanceOf(Error);
    expect(lost.length).to.equal(1);
    expect(await rejection(doomed.setValue("a", "2"))).to.equal(lost[0]);
    await doomed.close();
    const healthy = await openSqliteJournal(join(directory, "healthy.sqlite"), { onLost: (error) => lost.push(error) });
    await healthy.close();
    expect(lost.length).to.equal(1);
  });

  it("can be read from outside while it is open", async () => {
    await journal.setValue("seen", "yes");
    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare("SELECT content FROM named_values").get()).to.deep.include({ content: "yes" });
    reader.close();
  });

  it("refuses data of a newer program instead of damaging it", async () => {
    await journal.close();
    const database = new DatabaseSync(path);
    database.exec(`INSERT INTO schema_version (version) VALUES (${migrations.length + 1})`);
    database.close();
    expect(await rejection(openSqliteJournal(path))).to.be.instanceOf(JournalVersionError);
    const undo = new DatabaseSync(path);
    undo.exec(`DELETE FROM schema_version WHERE version > ${migrations.length}`);
    undo.close();
    journal = await openSqliteJournal(path);
  });

  it("finishes what was asked before close and refuses what comes after", async () => {
    const last = journal.setValue("last", "word");
    const closed = journal.close();
    expect(await rejection(journal.setValue("too", "late"))).to.be.instanceOf(JournalClosedError);
    await last;
    await closed;
    journal = await openSqliteJournal(path);
    expect(await journal.getValue("last")).to.equal("word");
  });
});
