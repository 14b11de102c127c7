import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import { DURATION, JobStatus, PAYMENT, USAGE_PRICE } from "./support/market.ts";

describe("expiring jobs", () => {
  it("is anyone's from the deadline on: refund, slot, event", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const free = await market.free(client);
    await time.setNextBlockTimestamp(job.terms.deadline);
    await expect(market.escrow.connect(stranger).expireJobs([job.jobId]))
      .to.emit(market.escrow, "JobExpired")
      .withArgs(job.jobId, provider.address)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    expect(await market.escrow.accountOf(client)).to.deep.equal([free + PAYMENT, 0n]);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Expired);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.exposure]).to.deep.equal([100n * PAYMENT, 0n]);
  });

  it("skips a job a second before its deadline and says why", async () => {
    const { market, client, job } = await loadFixture(openJob);
    await time.setNextBlockTimestamp(job.terms.deadline - 1n);
    const call = market.escrow.expireJobs([job.jobId]);
    await expect(call).to.emit(market.escrow, "ExpirySkipped").withArgs(job.jobId, JobStatus.Open, job.terms.deadline);
    await expect(call).not.to.emit(market.escrow, "JobExpired");
    expect(await market.locked(client)).to.equal(PAYMENT);
  });

  it("ends acknowledged jobs and jobs with a cancel request as well", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const other = await market.post(client, provider);
    await market.escrow.connect(provider.operator).ackJob(other.jobId);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(job.jobId);
    await time.increase(DURATION);
    await market.escrow.expireJobs([job.jobId, other.jobId]);
    for (const { jobId } of [job, other]) expect(await market.statusOf(jobId)).to.equal(JobStatus.Expired);
    expect(await market.locked(client)).to.equal(0);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("does not make providers look alive, none of several in a batch: nobody heard of them", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const other = await market.provider();
    const another = await market.post(client, other);
    const seen = async () =>
      (await Promise.all([provider, other].map(({ address }) => market.registry.providerOf(address)))).map(
        ({ lastSeen }) => lastSeen,
      );
    const before = await seen();
    await time.increase(DURATION);
    await expect(market.escrow.connect(stranger).expireJobs([job.jobId, another.jobId])).not.to.emit(
      market.registry,
      "Heartbeat",
    );
    expect(await seen()).to.deep.equal(before);
  });

  it("skips what is unknown, ended, not yet due or named twice, and expires the rest", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const [late, done, due] = [
      await market.post(client, provider, { duration: 10_000 }),
      await market.post(client, provider),
      await market.post(client, provider),
    ];
    await market.complete(done);
    await time.increase(DURATION + 10);
    const unknown = ethers.id("no job");
    const call = market.escrow.expireJobs([unknown, job.jobId, late.jobId, done.jobId, job.jobId, due.jobId]);
    for (const args of [
      [unknown, JobStatus.None, 0],
      [late.jobId, JobStatus.Open, late.terms.deadline],
      [done.jobId, JobStatus.Completed, 0],
      [job.jobId, JobStatus.Expired, job.terms.deadline],
    ]) {
      await expect(call)
        .to.emit(market.escrow, "ExpirySkipped")
        .withArgs(...args);
    }
    for (const { jobId } of [job, due]) {
      await expect(call).to.emit(market.escrow, "JobExpired").withArgs(jobId, provider.address);
    }
    expect(await market.openJobs(provider)).to.equal(1);
    expect(await market.locked(client)).to.equal(PAYMENT);
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });

  it("frees slots of several providers in one call", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const other = await market.provider({ cap: 2n });
    const jobs = [
      job,
      await market.post(client, other),
      await market.post(client, provider),
      await market.post(client, other),
    ];
    await time.increase(DURATION);
    const call = market.escrow.expireJobs(jobs.map(({ jobId }) => jobId));
    await expect(call).to.emit(market.registry, "SlotsChanged").withArgs(provider.address, 0, 0);
    await expect(call).to.emit(market.registry, "SlotsChanged").withArgs(other.address, 0, 2);
    for (const { address } of [provider, other]) {
      expect((await market.registry.providerOf(address)).exposure).to.equal(0);
    }
  });

  it("takes none, 50, and not 51", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.escrow.expireJobs([]);
    const jobIds = [];
    for (let count = 0; count < 50; count++) {
      jobIds.push((await market.post(client, provider, { maxPayment: 10_000n })).jobId);
    }
    await time.increase(DURATION);
    await expect(market.escrow.expireJobs([...jobIds, ethers.ZeroHash]))
      .to.be.revertedWithCustomError(market.escrow, "TooManyItems")
      .withArgs(51, 50);
    await market.escrow.expireJobs(jobIds);
    expect(await market.openJobs(provider)).to.equal(0);
    expect(await market.locked(client)).to.equal(0);
  });

  it("lets the provider complete after the deadline while nobody has expired the job, and not after", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const other = await market.post(client, provider);
    await time.increase(DURATION + 1_000);
    await market.complete(job);
    await market.escrow.expireJobs([other.jobId]);
    await expect(market.complete(other))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(other.jobId, JobStatus.Expired);
  });

  it("heals a provider whose slots abandoned jobs had taken", async () => {
    const { market, client, stranger } = await loadFixture(smallMarket);
    const provider = await market.provider({ cap: 2n });
    const jobs = [await market.post(client, provider), await market.post(client, provider)];
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity");
    await time.increase(DURATION);
    await market.escrow.connect(stranger).expireJobs(jobs.map(({ jobId }) => jobId));
    await market.registry.connect(provider.operator).heartbeat();
    await market.post(client, provider);
  });
});
