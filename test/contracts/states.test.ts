import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob } from "./support/fixtures.ts";
import {
  escrowDefaults,
  JobStatus,
  type Market,
  type Posted,
  REQUEST_HASH,
  RESPONSE_HASH,
  USAGE,
} from "./support/market.ts";

const ACK_WINDOW = Number(escrowDefaults.ackWindow);
const RESPONSE_WINDOW = Number(escrowDefaults.responseWindow);

type StatusName = keyof typeof JobStatus;
type Act = (market: Market, job: Posted) => Promise<unknown>;

const receiptOf = async (market: Market, { jobId, client, provider }: Posted): Promise<string> =>
  market.receipt(client, { jobId, provider: provider.address });

/** Every call that can change a job, made by whoever may make it. Times are the caller's business. */
const acts = {
  ackJob: async ({ escrow }, { jobId, provider }) => escrow.connect(provider.operator).ackJob(jobId),
  completeJob: async (market, job) =>
    market.escrow
      .connect(job.provider.operator)
      .completeJob(job.jobId, USAGE, RESPONSE_HASH, await receiptOf(market, job)),
  completeJobs: async ({ escrow }, { jobId, provider }) =>
    escrow
      .connect(provider.operator)
      .completeJobs([{ jobId, usage: USAGE, responseHash: RESPONSE_HASH, clientSignature: "0x" }]),
  declineJob: async ({ escrow }, { jobId, provider }) => escrow.connect(provider.operator).declineJob(jobId),
  requestCancel: async ({ escrow }, { jobId, client }) => escrow.connect(client).requestCancel(jobId),
  finalizeCancel: async ({ escrow }, { jobId, client }) => escrow.connect(client).finalizeCancel(jobId),
  expireJobs: async ({ escrow }, { jobId }) => escrow.expireJobs([jobId]),
  slashJob: async (market, { jobId, client, provider }) => {
    const signature = await market.acknowledgement(provider.operator, { jobId, provider: provider.address });
    return await market.escrow.connect(client).slashJob(jobId, REQUEST_HASH, signature);
  },
} satisfies Record<string, Act>;

type ActName = keyof typeof acts;

/** How a job gets into each status. */
const ways: Record<StatusName, (market: Market, job: Posted) => Promise<unknown>> = {
  None: async () => undefined,
  Open: async () => undefined,
  Acknowledged: acts.ackJob,
  CancelRequested: async (market, job) => {
    await time.increase(ACK_WINDOW);
    await acts.requestCancel(market, job);
  },
  Completed: acts.completeJob,
  Declined: acts.declineJob,
  Cancelled: async (market, job) => {
    await ways.CancelRequested(market, job);
    await time.increase(RESPONSE_WINDOW);
    await acts.finalizeCancel(market, job);
  },
  Expired: async (market, job) => {
    await time.setNextBlockTimestamp(job.terms.deadline);
    await acts.expireJobs(market, job);
  },
  Slashed: async (market, job) => {
    await time.setNextBlockTimestamp(job.terms.deadline);
    await acts.slashJob(market, job);
  },
};

/** The table of IJobEscrow: where each call leads when its time has come. What is not here is forbidden. */
const table: Record<ActName, Partial<Record<StatusName, StatusName>>> = {
  ackJob: { Open: "Acknowledged", CancelRequested: "Acknowledged" },
  completeJob: { Open: "Completed", Acknowledged: "Completed", CancelRequested: "Completed" },
  completeJobs: { Open: "Completed", Acknowledged: "Completed", CancelRequested: "Completed" },
  declineJob: { Open: "Declined", Acknowledged: "Declined", CancelRequested: "Declined" },
  requestCancel: { Open: "CancelRequested" },
  finalizeCancel: { CancelRequested: "Cancelled" },
  expireJobs: { Open: "Expired", Acknowledged: "Expired", CancelRequested: "Expired" },
  slashJob: { Open: "Slashed", Acknowledged: "Slashed", CancelRequested: "Slashed" },
};

/** Calls that skip a job, and say so, in place of reverting. */
const skipping: Partial<Record<ActName, string>> = { completeJobs: "CompletionSkipped", expireJobs: "ExpirySkipped" };

const statusNames = Object.keys(JobStatus) as StatusName[];
const ended = statusNames.filter((status) => JobStatus[status] > JobStatus.CancelRequested);

describe("the life of a job", () => {
  for (const name of Object.keys(table) as ActName[]) {
    for (const from of statusNames) {
      const to = table[name][from];
      it(`${name} ${to === undefined ? "is forbidden" : `leads to ${to}`} from ${from}`, async () => {
        const { market, job: opened } = await loadFixture(openJob);
        const job = from === "None" ? { ...opened, jobId: ethers.id("never posted") } : opened;
        await ways[from](market, job);
        expect(await market.statusOf(job.jobId)).to.equal(JobStatus[from]);
        // Past every window, so that only the status can stand in the way.
        await time.increase(100_000);

        const before = await snapshot(market, job);
        const call = acts[name](market, job);
        const skipped = skipping[name];
        if (to !== undefined) {
          await call;
          expect(await market.statusOf(job.jobId)).to.equal(JobStatus[to]);
          return;
        }
        if (skipped !== undefined) {
          await expect(call).to.emit(market.escrow, skipped);
        } else if (from === "None") {
          await expect(call).to.be.revertedWithCustomError(market.escrow, "JobNotFound").withArgs(job.jobId);
        } else {
          await expect(call)
            .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
            .withArgs(job.jobId, JobStatus[from]);
        }
        expect(await snapshot(market, job)).to.deep.equal(before);
      });
    }
  }

  for (const end of ended) {
    it(`its id cannot be posted again after it was ${end}`, async () => {
      const { market, job } = await loadFixture(openJob);
      await ways[end](market, job);
      await market.registry.connect(job.provider.operator).heartbeat();
      const terms = { ...job.terms, deadline: BigInt((await time.latest()) + 900) };
      await expect(market.escrow.connect(job.client).postJob(job.provider.address, terms))
        .to.be.revertedWithCustomError(market.escrow, "JobAlreadyPosted")
        .withArgs(job.jobId);
    });

    if (end === "Completed") continue;
    it(`all of it can still be read after it was ${end}`, async () => {
      const { market, job } = await loadFixture(openJob);
      const { since, status, ...before } = await viewOf(market, job);
      await ways[end](market, job);
      const after = await viewOf(market, job);
      expect(after).to.include(before);
      expect([status, after.status]).to.deep.equal([JobStatus.Open, JobStatus[end]]);
      expect(after.since >= since).to.equal(true);
    });
  }
});

describe("every live status has an end that needs neither party", () => {
  for (const status of ["Open", "Acknowledged", "CancelRequested"] as const) {
    it(`${status}: a stranger expires the job after its deadline and the client has its money`, async () => {
      const { market, client, provider, stranger, job } = await loadFixture(openJob);
      const { free, locked } = await market.escrow.accountOf(client);
      await ways[status](market, job);
      await market.escrow.pause();
      await market.registry.setMarket(market.escrow, false);
      await market.registry.connect(provider.owner).deactivate();
      await time.setNextBlockTimestamp(job.terms.deadline);
      await market.escrow.connect(stranger).expireJobs([job.jobId]);
      expect(await market.escrow.accountOf(client)).to.deep.equal([free + locked, 0n]);
      expect(await market.openJobs(provider)).to.equal(0);
    });
  }
});

async function viewOf(market: Market, job: Posted) {
  const view = await market.escrow.jobOf(job.jobId);
  const { client, provider, modelKey, offeringId, maxPayment, unsignedLimit, deadline, since, status } = view;
  return { client, provider, modelKey, offeringId, maxPayment, unsignedLimit, deadline, since, status };
}

async function snapshot(market: Market, job: Posted) {
  return {
    job: await viewOf(market, job),
    client: await market.escrow.accountOf(job.client),
    provider: await market.escrow.accountOf(job.provider.address),
    openJobs: await market.openJobs(job.provider),
    burnt: await market.registry.burntStake(),
  };
}
