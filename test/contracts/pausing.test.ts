import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import { DURATION, ENDPOINT, JobStatus, MODEL, PAYMENT, REQUEST_HASH, USAGE_PRICE } from "./support/market.ts";

async function pausedMarket() {
  const parts = await openJob();
  await parts.market.escrow.pause();
  return parts;
}

describe("pausing", () => {
  it("stops new posts and says so", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await expect(market.escrow.pause())
      .to.emit(market.escrow, "Paused")
      .withArgs(market.admin)
      .and.to.emit(market.registry, "MarketSuspended")
      .withArgs(market.escrow, true);
    expect(await market.escrow.paused()).to.equal(true);
    const free = await market.free(client);
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "EnforcedPause");
    await expect(
      market.escrow.connect(client).postJobAny([provider.address], await market.terms()),
    ).to.be.revertedWithCustomError(market.registry, "EnforcedPause");
    expect(await market.free(client)).to.equal(free);
  });

  it("is over when the owner says so", async () => {
    const { market, provider, client } = await loadFixture(pausedMarket);
    await expect(market.escrow.unpause())
      .to.emit(market.escrow, "Unpaused")
      .withArgs(market.admin)
      .and.to.emit(market.registry, "MarketSuspended")
      .withArgs(market.escrow, false);
    expect(await market.escrow.paused()).to.equal(false);
    await market.post(client, provider);
  });

  it("is the contract owner's alone, and not possible twice", async () => {
    const { market, stranger, provider, client } = await loadFixture(smallMarket);
    for (const account of [stranger, provider.owner, client]) {
      for (const name of ["pause", "unpause"] as const) {
        await expect(market.escrow.connect(account)[name]())
          .to.be.revertedWithCustomError(market.escrow, "OwnableUnauthorizedAccount")
          .withArgs(account);
      }
    }
    await expect(market.escrow.unpause()).to.be.revertedWithCustomError(market.escrow, "ExpectedPause");
    await market.escrow.pause();
    await expect(market.escrow.pause()).to.be.revertedWithCustomError(market.escrow, "EnforcedPause");
  });

  it("never stops an exit of a job", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const jobs = [];
    for (let count = 0; count < 7; count++) jobs.push(await market.post(client, provider));
    const [completed, unsigned, batched, declined, cancelled, expired, slashed] = jobs;
    if (!completed || !unsigned || !batched || !declined || !cancelled || !expired || !slashed)
      throw new Error("seven");
    await market.escrow.pause();
    const escrow = market.escrow.connect(provider.operator);
    await market.complete(completed);
    await market.complete(unsigned, { signature: "0x" });
    await escrow.completeJobs([
      {
        jobId: batched.jobId,
        usage: { inputTokens: 1, outputTokens: 1 },
        responseHash: MODEL_HASH,
        clientSignature: "0x",
      },
    ]);
    await escrow.declineJob(declined.jobId);
    await escrow.ackJob(slashed.jobId);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(cancelled.jobId);
    await time.increase(60);
    await market.escrow.finalizeCancel(cancelled.jobId);
    await time.increase(DURATION);
    await market.escrow.expireJobs([expired.jobId]);
    const signature = await market.acknowledgement(provider.operator, { ...slashed, provider: provider.address });
    await market.escrow.connect(client).slashJob(slashed.jobId, REQUEST_HASH, signature);
    expect(await market.locked(client)).to.equal(0);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("never stops money from going in and out", async () => {
    const { market, provider, client, job } = await loadFixture(pausedMarket);
    await market.escrow.connect(client).deposit(1n);
    await market.escrow.connect(client).depositFor(provider.address, 1n);
    await market.escrow.connect(client).withdraw(1n, client);
    await market.complete(job);
    await market.escrow.connect(provider.operator).withdrawProvider(provider.address, USAGE_PRICE);
    await market.escrow.connect(client).withdraw(await market.free(client), client);
  });

  it("never stops what providers do with themselves and their stake", async () => {
    const { market, provider } = await loadFixture(pausedMarket);
    const registry = market.registry.connect(provider.owner);
    await registry.heartbeat();
    await registry.setMaxConcurrentJobs(1);
    await registry.setOffering("another/model", 1, 1, 1);
    await registry.addStake(1n);
    await registry.deactivate();
    await registry.startUnbonding(100n * PAYMENT);
    await time.increase(604_800);
    await registry.withdrawStake();
    await market.provider();
  });
});

const MODEL_HASH = ethers.id(MODEL);

describe("owning the contracts", () => {
  it("changes hands in two steps, so that it cannot be lost to a typing error", async () => {
    const { market, stranger, client } = await loadFixture(smallMarket);
    for (const contract of [market.registry, market.escrow]) {
      await contract.transferOwnership(stranger);
      expect(await contract.owner()).to.equal(market.admin.address);
      expect(await contract.pendingOwner()).to.equal(stranger.address);
      await expect(contract.connect(client).acceptOwnership())
        .to.be.revertedWithCustomError(contract, "OwnableUnauthorizedAccount")
        .withArgs(client);
      await contract.connect(stranger).acceptOwnership();
      expect(await contract.owner()).to.equal(stranger.address);
    }
    await expect(market.escrow.pause())
      .to.be.revertedWithCustomError(market.escrow, "OwnableUnauthorizedAccount")
      .withArgs(market.admin);
    await market.escrow.connect(stranger).pause();
  });

  it("can be given up: jobs, money and stake go on without an owner", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    await market.registry.renounceOwnership();
    await market.escrow.renounceOwnership();
    await market.complete(job);
    await market.post(client, provider);
    await market.registry.connect(stranger).register(stranger, stranger, ENDPOINT, 10_000_000n);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Completed);
  });
});
