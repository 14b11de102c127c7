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
