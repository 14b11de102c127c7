import { expect } from "chai";
import { loadFixture, time } from "./support/chain.ts";
import { openJob } from "./support/fixtures.ts";
import {
  DURATION,
  escrowDefaults,
  JobStatus,
  type Market,
  PAYMENT,
  type Posted,
  USAGE_PRICE,
} from "./support/market.ts";

const ACK_WINDOW = Number(escrowDefaults.ackWindow);
const RESPONSE_WINDOW = Number(escrowDefaults.responseWindow);

const sinceOf = async (market: Market, job: Posted): Promise<number> =>
  Number((await market.escrow.jobOf(job.jobId)).since);

async function cancelRequested() {
  const parts = await openJob();
  await time.increase(ACK_WINDOW);
  await parts.market.escrow.connect(parts.client).requestCancel(parts.job.jobId);
  return { ...parts, requestedAt: await time.latest() };
}

describe("declining a job", () => {
  it("refunds all, frees the slot, costs the provider nothing and says so", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const free = await market.free(client);
    await expect(market.escrow.connect(provider.operator).declineJob(job.jobId))
      .to.emit(market.escrow, "JobDeclined")
      .withArgs(job.jobId, provider.address)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    expect(await market.escrow.accountOf(client)).to.deep.equal([free + PAYMENT, 0n]);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Declined);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.exposure, view.openJobs]).to.deep.equal([100n * PAYMENT, 0n, 0n]);
  });

  it("takes owner and operator of the job's provider only", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const other = await market.provider();
    for (const account of [client, stranger, other.owner, other.operator, market.admin]) {
      await expect(market.escrow.connect(account).declineJob(job.jobId))
        .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
        .withArgs(job.jobId, account);
    }
    await market.escrow.connect(provider.owner).declineJob(job.jobId);
  });
});

describe("a job's payment", () => {
  it("keeps its last unit, and the time its last second, through every change of state", async () => {
    const { market, provider, client } = await loadFixture(openJob);
    const held = await market.locked(client);
    const maxPayment = PAYMENT + 1n;
    const job = await market.post(client, provider, { maxPayment });
    for (const step of ["requestCancel", "ackJob"] as const) {
      // Odd and even distances from the post: the one must leave nothing of the other.
      await time.increase(ACK_WINDOW + (step === "ackJob" ? 1 : 0));
      const caller = step === "requestCancel" ? client : provider.operator;
      await market.escrow.connect(caller)[step](job.jobId);
      expect((await market.escrow.jobOf(job.jobId)).maxPayment, step).to.equal(maxPayment);
      expect(await sinceOf(market, job), step).to.equal(await time.latest());
    }
    await market.escrow.connect(provider.operator).declineJob(job.jobId);
    expect(await market.locked(client)).to.equal(held);
    // An ended job tells what it was worth.
    expect((await market.escrow.jobOf(job.jobId)).maxPayment).to.equal(maxPayment);
  });
});

describe("acknowledging a job on chain", () => {
  it("says so, keeps slot and money, and notes the time", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await time.increase(5);
    await expect(market.escrow.connect(provider.operator).ackJob(job.jobId))
      .to.emit(market.escrow, "JobAcknowledged")
      .withArgs(job.jobId, provider.address);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Acknowledged);
    expect(await sinceOf(market, job)).to.equal(await time.latest());
    expect(await market.locked(client)).to.equal(PAYMENT);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("takes owner and operator of the job's provider only", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const other = await market.provider();
    for (const account of [client, stranger, other.owner, other.operator]) {
      await expect(market.escrow.connect(account).ackJob(job.jobId))
        .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
        .withArgs(job.jobId, account);
    }
    await market.escrow.connect(provider.owner).ackJob(job.jobId);
  });

  it("ends the client's right to cancel, but not its money's way out at the deadline", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    await time.increase(ACK_WINDOW);
    await expect(market.escrow.connect(client).requestCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.Acknowledged);
    await time.increase(DURATION);
    await market.escrow.connect(stranger).expireJobs([job.jobId]);
    expect(await market.locked(client)).to.equal(0);
  });

  it("makes a pending cancel request fall, also after the response window while nobody finalised", async () => {
    const { market, provider, client, requestedAt, job } = await loadFixture(cancelRequested);
    await time.setNextBlockTimestamp(requestedAt + RESPONSE_WINDOW + 100);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    await expect(market.escrow.finalizeCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.Acknowledged);
    await expect(market.escrow.connect(client).requestCancel(job.jobId)).to.be.revertedWithCustomError(
      market.escrow,
      "JobStatusMismatch",
    );
  });

  it("is not possible twice", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    await expect(market.escrow.connect(provider.operator).ackJob(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.Acknowledged);
  });
});

describe("the time since when a job is in its state", () => {
  it("is that of the acknowledgement alone when that answers a cancel request, whatever bits the request's had", async () => {
    const { market, client, provider, job } = await loadFixture(openJob);
    const posted = await sinceOf(market, job);
    await time.setNextBlockTimestamp(posted + 63);
    await market.escrow.connect(client).requestCancel(job.jobId);
    expect(await sinceOf(market, job)).to.equal(posted + 63);
    await time.setNextBlockTimestamp(posted + 64);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    expect(await sinceOf(market, job)).to.equal(posted + 64);
  });
});

describe("asking for a cancellation", () => {
  it("is refused before the acknowledgement window is over, and taken at its last second's end", async () => {
    const { market, client, provider, job } = await loadFixture(openJob);
    const earliest = (await sinceOf(market, job)) + ACK_WINDOW;
    await time.setNextBlockTimestamp(earliest - 1);
    await expect(market.escrow.connect(client).requestCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "CancelTooEarly")
      .withArgs(job.jobId, earliest);
    await time.setNextBlockTimestamp(earliest);
    await expect(market.escrow.connect(client).requestCancel(job.jobId))
      .to.emit(market.escrow, "JobCancelRequested")
      .withArgs(job.jobId, provider.address, earliest + RESPONSE_WINDOW);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.CancelRequested);
    expect(await sinceOf(market, job)).to.equal(earliest);
  });

  it("takes the client only", async () => {
    const { market, provider, stranger, job } = await loadFixture(openJob);
    await time.increase(ACK_WINDOW);
    for (const account of [provider.owner, provider.operator, stranger, market.admin]) {
      await expect(market.escrow.connect(account).requestCancel(job.jobId))
        .to.be.revertedWithCustomError(market.escrow, "NotClient")
        .withArgs(job.jobId, account);
    }
  });

  it("moves no money and frees no slot yet", async () => {
    const { market, provider, client } = await loadFixture(cancelRequested);
    expect(await market.locked(client)).to.equal(PAYMENT);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("can be answered by completing", async () => {
    const { market, provider, job } = await loadFixture(cancelRequested);
    await market.complete(job);
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
    await time.increase(RESPONSE_WINDOW);
    await expect(market.escrow.finalizeCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.Completed);
  });

  it("can be answered by completing without a receipt, within the limit that the client chose", async () => {
    const { market, provider, job } = await loadFixture(cancelRequested);
    await market.complete(job, { signature: "0x" });
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });

  it("can be answered by declining", async () => {
    const { market, provider, client, job } = await loadFixture(cancelRequested);
    await market.escrow.connect(provider.operator).declineJob(job.jobId);
    expect(await market.locked(client)).to.equal(0);
  });

  it("is not possible twice", async () => {
    const { market, client, job } = await loadFixture(cancelRequested);
    await expect(market.escrow.connect(client).requestCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.CancelRequested);
  });
});

describe("finalising a cancellation", () => {
  it("is anyone's at the end of the response window and not before: refund, slot, event", async () => {
    const { market, provider, client, stranger, requestedAt, job } = await loadFixture(cancelRequested);
    const free = await market.free(client);
    const until = requestedAt + RESPONSE_WINDOW;
    await time.setNextBlockTimestamp(until - 1);
    await expect(market.escrow.connect(stranger).finalizeCancel(job.jobId))
      .to.be.revertedWithCustomError(market.escrow, "ResponseWindowOpen")
      .withArgs(job.jobId, until);
    await time.setNextBlockTimestamp(until);
    await expect(market.escrow.connect(stranger).finalizeCancel(job.jobId))
      .to.emit(market.escrow, "JobCancelled")
      .withArgs(job.jobId, provider.address)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    expect(await market.escrow.accountOf(client)).to.deep.equal([free + PAYMENT, 0n]);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Cancelled);
  });

  it("costs the provider no stake", async () => {
    const { market, provider, job } = await loadFixture(cancelRequested);
    await time.increase(RESPONSE_WINDOW);
    await market.escrow.finalizeCancel(job.jobId);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.exposure]).to.deep.equal([100n * PAYMENT, 0n]);
  });

  it("works while the provider is gone for good", async () => {
    const { market, provider, client, job } = await loadFixture(cancelRequested);
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.owner).startUnbonding(100n * PAYMENT);
    await time.increase(RESPONSE_WINDOW);
    await market.escrow.connect(client).finalizeCancel(job.jobId);
    expect(await market.locked(client)).to.equal(0);
  });
});
