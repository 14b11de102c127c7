import { expect } from "chai";
import type { JobEvent } from "../../../chain/registry-index/types.ts";
import { applyJobEvent } from "../../../gateway/jobs/chain-events.ts";
import type { JobDocument } from "../../../gateway/jobs/job-document.ts";
import { JobStore } from "../../../gateway/jobs/job-store.ts";
import { jobNumber, person } from "../../support/fake-chain.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { MemoryJournal } from "../support/memory-journal.ts";

const document: JobDocument = {
  version: 1,
  id: jobNumber(1),
  kind: "chat",
  model: "m",
  stream: false,
  source: "openai",
  requestId: "r",
  owner: null,
  createdAt: 0,
  attempts: [
    {
      jobId: jobNumber(1),
      nonce: "1",
      state: "abandoned",
      modelId: "m",
      candidates: [person(1)],
      maxPayment: "1",
      deadline: 1,
      provider: person(1),
    },
  ],
  events: [],
  outcome: { status: "failed" },
  result: null,
};
const declined = (removed: boolean): JobEvent => ({
  type: "declined",
  jobId: jobNumber(1),
  provider: person(1),
  place: { blockNumber: 2, blockHash: jobNumber(2), transactionHash: jobNumber(3), logIndex: 0 },
  removed,
});

describe("an end on chain that a reorganisation takes back", () => {
  it("leaves the job open for a later process too", async () => {
    const journal = new MemoryJournal();
    const clock = new ManualClock();
    const store = new JobStore({ journal, clock, onSaveError: () => undefined });
    store.create(document);
    applyJobEvent(store, declined(false), () => undefined);
    clock.advance(1000);
    await store.idle();
    expect(journal.jobs.get(document.id)?.open).to.equal(false);
    applyJobEvent(store, declined(true), () => undefined);
    clock.advance(1000);
    await store.idle();
    expect(journal.jobs.get(document.id)?.open).to.equal(true);
  });
});

describe("a job that was held never to have been posted", () => {
  const posted = (removed: boolean): JobEvent => ({
    type: "posted",
    client: person(9),
    offeringId: 1,
    maxPayment: 1n,
    unsignedLimit: 0n,
    deadline: 77,
    jobId: jobNumber(1),
    provider: person(2),
    place: { blockNumber: 5, blockHash: jobNumber(2), transactionHash: jobNumber(3), logIndex: 0 },
    removed,
  });
  let journal: MemoryJournal;
  let store: JobStore;

  beforeEach(() => {
    journal = new MemoryJournal();
    store = new JobStore({ journal, clock: new ManualClock(), onSaveError: () => undefined, maxFinished: 2 });
    const [attempt] = document.attempts;
    if (attempt === undefined) throw new Error("no attempt");
    store.create({ ...document, attempts: [{ ...attempt, state: "not_posted" }] });
  });

  it("is looked after when the chain has it all the same, so that its money comes back", async () => {
    expect(store.openCount).to.equal(0);
    applyJobEvent(store, posted(false), () => undefined);
    expect(store.byJob(jobNumber(1))?.attempt(jobNumber(1))).to.include({
      state: "abandoned",
      provider: person(2),
      deadline: 77,
      postBlock: 5,
    });
    expect(store.openCount).to.equal(1);
    await store.idle();
    expect(journal.jobs.get(document.id)?.open).to.equal(true);
  });

  it("stays as it is when a reorganisation takes its post back", () => {
    applyJobEvent(store, posted(true), () => undefined);
    expect(store.openCount).to.equal(0);
  });

  it("is not forgotten while others end after it", () => {
    applyJobEvent(store, posted(false), () => undefined);
    for (const number of [2, 3, 4]) store.create({ ...document, id: jobNumber(number), attempts: [] });
    expect(store.byJob(jobNumber(1))?.id).to.equal(document.id);
    applyJobEvent(store, declined(false), () => undefined);
    expect(store.openCount).to.equal(0);
  });
});
