import { expect } from "chai";
import { systemClock } from "../../../chain/system-clock.ts";
import type { JobDocument } from "../../../gateway/jobs/job-document.ts";
import { JobRecord } from "../../../gateway/jobs/job-record.ts";
import type { JobRow } from "../../../store/journal.ts";

const empty: JobDocument = {
  version: 1,
  id: "0x01",
  kind: "chat",
  model: "m",
  stream: false,
  source: "openai",
  requestId: "req_1",
  owner: null,
  createdAt: 0,
  attempts: [],
  events: [],
  outcome: null,
  result: null,
};

function attempt(jobId: `0x${string}`) {
  return { jobId, nonce: "1", state: "posting", modelId: "m", candidates: [], maxPayment: "9", deadline: 0 } as const;
}

describe("a request's record", () => {
  for (const turns of [0, 1, 2, 3, 4, 5]) {
    it(`has written what a save is told of, begun ${turns} turns after the end of another`, async () => {
      const rows: JobRow[] = [];
      const writes: PromiseWithResolvers<void>[] = [];
      const record = JobRecord.create(
        {
          journal: {
            putJob: async (row) => {
              const write = Promise.withResolvers<void>();
              writes.push(write);
              await write.promise;
              rows.push(row);
            },
          },
          clock: systemClock,
          onChange: () => undefined,
          onSaveError: () => undefined,
        },
        empty,
      );
      record.saveSoon();
      writes[0]?.resolve();
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      record.addAttempt(attempt("0x02"));
      const saved = record.save();
      setImmediate(() => writes[1]?.resolve());
      await saved;
      const written = JSON.parse(rows.at(-1)?.document ?? "{}") as JobDocument;
      expect(written.attempts.map(({ jobId }) => jobId)).to.deep.equal(["0x02"]);
    });
  }

  it("is written again after a write that failed at once", async () => {
    let failures = 1;
    const rows: JobRow[] = [];
    const record = JobRecord.create(
      {
        journal: {
          putJob: (row) => {
            failures -= 1;
            if (failures === 0) throw new Error("disk full");
            rows.push(row);
            return Promise.resolve();
          },
        },
        clock: systemClock,
        onChange: () => undefined,
        onSaveError: () => undefined,
      },
      empty,
    );
    const refused = await record.save().catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(Error);
    await record.save();
    expect(rows.length).to.equal(1);
  });
});
