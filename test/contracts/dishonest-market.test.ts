import { expect } from "chai";
import { loadFixture, time } from "./support/chain.ts";
import { smallMarket } from "./support/fixtures.ts";
import { DURATION, JobStatus, PAYMENT, REQUEST_HASH, registryDefaults, USAGE_PRICE } from "./support/market.ts";
import { Seller } from "./support/seller.ts";

const STAKE = 100n * PAYMENT;
const HUGE = 2n ** 128n - 1n;

/** The escrow with three open jobs of one provider, and beside it a market that frees what it never took. */
async function dishonestMarket() {
  const parts = await smallMarket();
  const { market, provider, client } = parts;
  const thief = new Seller(market, await market.contractAccount());
  await market.allowMarket(thief.account);
  await market.registry.connect(provider.operator).heartbeat();
  const jobs = [
    await market.post(client, provider),
    await market.post(client, provider),
    await market.post(client, provider),
  ] as const;
  const own = market.registry.connect(provider.owner);
  const view = async () => await market.registry.providerOf(provider.address);
  return { ...parts, thief, jobs, own, view };
}

describe("jobs whose slots a dishonest market has freed", () => {
  it("are still paid, one by one, and the escrow says that the slot was missing", async () => {
    const { market, provider, thief, jobs } = await loadFixture(dishonestMarket);
    await thief.release(provider, 3n, 3n * PAYMENT);
    await expect(market.complete(jobs[0]))
      .to.emit(market.escrow, "SlotsMissing")
      .withArgs(provider.address, 1)
      .and.to.emit(market.escrow, "JobCompleted");
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("are still completed and declined only by who acts for their provider", async () => {
    const { market, provider, client, stranger, thief, jobs } = await loadFixture(dishonestMarket);
    await thief.release(provider, 3n, 3n * PAYMENT);
    for (const account of [stranger, client]) {
      await expect(market.complete(jobs[0], { as: account }))
        .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
        .withArgs(jobs[0].jobId, account);
      await expect(market.escrow.connect(account).declineJob(jobs[0].jobId)).to.be.revertedWithCustomError(
        market.escrow,
        "NotJobProvider",
      );
    }
    await expect(market.escrow.connect(provider.operator).declineJob(jobs[0].jobId))
      .to.emit(market.escrow, "SlotsMissing")
      .withArgs(provider.address, 1)
      .and.to.emit(market.escrow, "JobDeclined");
    expect(await market.locked(client)).to.equal(2n * PAYMENT);
  });

  it("are paid in a batch, which frees the slots that are left", async () => {
    const { market, provider, client, thief, jobs } = await loadFixture(dishonestMarket);
    await thief.release(provider, 1n, PAYMENT);
    const items = await Promise.all(
      jobs.map(async ({ jobId }) => ({
        jobId,
        usage: { inputTokens: 0n, outputTokens: 0n },
        responseHash: REQUEST_HASH,
        clientSignature: "0x",
      })),
    );
    const batch = market.escrow.connect(provider.operator).completeJobs(items);
    await expect(batch).to.emit(market.escrow, "SlotsMissing").withArgs(provider.address, 1);
    await expect(batch).to.emit(market.registry, "SlotsChanged").withArgs(provider.address, 0, 0);
    for (const { jobId } of jobs) expect(await market.statusOf(jobId)).to.equal(JobStatus.Completed);
    expect(await market.locked(client)).to.equal(0);
    // Of what the batch gives back a third was given back before: jobs of one size leave headroom at the stake, not above it.
    await market.escrow.connect(client).deposit(STAKE);
    await market.post(client, provider, { maxPayment: STAKE });
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "InsufficientStake");
  });

  it("give back no more than the part of the slots that are left, and show the provider alive, when they end in a batch", async () => {
    const { market, provider, thief, jobs } = await loadFixture(dishonestMarket);
    // Without its collateral, which stays held.
    await thief.release(provider, 1n, 0n);
    await time.increase(registryDefaults.timeToLive);
    const items = jobs.map(({ jobId }) => ({
      jobId,
      usage: { inputTokens: 0n, outputTokens: 0n },
      responseHash: REQUEST_HASH,
      clientSignature: "0x",
    }));
    await expect(market.escrow.connect(provider.operator).completeJobs(items)).to.emit(market.registry, "Heartbeat");
    const { exposure, openJobs, lastSeen } = await market.registry.providerOf(provider.address);
    expect([exposure, openJobs, lastSeen]).to.deep.equal([PAYMENT, 0n, BigInt(await time.latest())]);
  });

  it("are refunded in a batch of expiries, with all that stand beside them", async () => {
    const { market, provider, client, thief, jobs } = await loadFixture(dishonestMarket);
    const other = await market.provider();
    const beside = await market.post(client, other);
    await thief.release(provider, 3n, 0n);
    await time.increase(DURATION);
    const batch = market.escrow.expireJobs([...jobs.map(({ jobId }) => jobId), beside.jobId]);
    await expect(batch).to.emit(market.escrow, "SlotsMissing").withArgs(provider.address, 3);
    for (const { jobId } of [...jobs, beside]) expect(await market.statusOf(jobId)).to.equal(JobStatus.Expired);
    expect(await market.locked(client)).to.equal(0);
    expect(await market.openJobs(other)).to.equal(0);
  });

  it("are refunded after an unanswered cancel request", async () => {
    const { market, provider, client, stranger, thief, jobs } = await loadFixture(dishonestMarket);
    await thief.release(provider, 3n, 0n);
    await time.increase(await market.escrow.ackWindow());
    await market.escrow.connect(client).requestCancel(jobs[0].jobId);
    await time.increase(await market.escrow.responseWindow());
    await expect(market.escrow.connect(stranger).finalizeCancel(jobs[0].jobId))
      .to.emit(market.escrow, "SlotsMissing")
      .withArgs(provider.address, 1)
      .and.to.emit(market.escrow, "JobCancelled");
    expect(await market.locked(client)).to.equal(2n * PAYMENT);
  });

  it("cannot be slashed any more, and give the money back by their expiry", async () => {
    const { market, provider, client, thief, jobs } = await loadFixture(dishonestMarket);
    const { jobId } = jobs[0];
    const consent = await market.acknowledgement(provider.operator, { jobId, provider: provider.address });
    await thief.release(provider, 3n, 0n);
    await time.increase(DURATION);
    await expect(market.escrow.connect(client).slashJob(jobId, REQUEST_HASH, consent))
      .to.be.revertedWithCustomError(market.registry, "SlotUnderflow")
      .withArgs(provider.address, 0, 1);
    await expect(market.escrow.expireJobs([jobId])).to.emit(market.escrow, "JobExpired");
  });

  it("say nothing of missing slots while every market is honest", async () => {
    const { market, provider, jobs } = await loadFixture(dishonestMarket);
    await expect(market.complete(jobs[0])).not.to.emit(market.escrow, "SlotsMissing");
    await expect(market.escrow.connect(provider.operator).declineJob(jobs[1].jobId)).not.to.emit(
      market.escrow,
      "SlotsMissing",
    );
    await time.increase(DURATION);
    await expect(market.escrow.expireJobs([jobs[2].jobId])).not.to.emit(market.escrow, "SlotsMissing");
  });
});

describe("a stake of which a dishonest market gave back more than was taken", () => {
  it("is shown with no exposure, in views and pages", async () => {
    const { market, provider, thief, jobs, view } = await loadFixture(dishonestMarket);
    await thief.release(provider, 1n, 2n ** 100n);
    expect((await view()).exposure).to.equal(0);
    expect((await market.registry.providersPage(0, 10))[0]?.stake).to.equal(STAKE);
    // The escrow learns there where earnings go.
    await market.complete(jobs[0]);
    await expect(market.escrow.connect(provider.operator).withdrawProvider(provider.address, USAGE_PRICE))
      .to.emit(market.escrow, "Withdrawn")
      .withArgs(provider.address, provider.payout, USAGE_PRICE);
  });

  it("never turns into a debt, however much is given back", async () => {
    const { market, provider, client, thief, jobs, view } = await loadFixture(dishonestMarket);
    await thief.release(provider, 1n, HUGE);
    await thief.registry.settleSlotFor(provider.operator, 1, HUGE);
    // The counter goes on as it should, also where headroom is at its end.
    expect((await view()).openJobs).to.equal(1);
    expect((await view()).exposure).to.equal(0);
    // Jobs go on and end as ever.
    await market.complete(jobs[0]);
    await market.complete(await market.post(client, provider));
  });

  it("can be unbonded and added to, and is counted rightly from then on", async () => {
    const { market, provider, client, thief, own, view } = await loadFixture(dishonestMarket);
    await thief.release(provider, 1n, HUGE);
    await own.startUnbonding(10n * PAYMENT);
    // Two slots are counted; more than the stake cannot be free.
    expect((await view()).exposure).to.equal(0);
    await market.post(client, provider);
    expect((await view()).exposure).to.equal(PAYMENT);
    await thief.release(provider, 1n, HUGE);
    await own.addStake(PAYMENT);
    expect((await view()).exposure).to.equal(0);
    await market.post(client, provider);
    expect((await view()).exposure).to.equal(PAYMENT);
  });

  it("answers no slash with more than it is, and is counted rightly after one", async () => {
    const { provider, thief, view } = await loadFixture(dishonestMarket);
    await thief.release(provider, 1n, HUGE);
    await thief.slash(provider, 1n, PAYMENT);
    const { stake, exposure } = await view();
    expect(stake).to.equal(STAKE - PAYMENT);
    expect(exposure).to.equal(0);
  });

  it("leaves whole, though the market slashed it for more than all of it", async () => {
    const { provider, thief, own, view, market } = await loadFixture(dishonestMarket);
    await own.startUnbonding(10n * PAYMENT);
    await thief.slash(provider, 1n, HUGE);
    expect((await view()).stake).to.equal(0);
    expect((await view()).exposure).to.equal(0);
    expect(await market.registry.burntStake()).to.equal(STAKE);
  });
});

describe("a stake of which a dishonest market gave back less than was taken", () => {
  it("is free again once no job is open and it changes", async () => {
    const { market, provider, client, thief, own, view } = await loadFixture(dishonestMarket);
    await thief.release(provider, 3n, 0n);
    expect((await view()).exposure).to.equal(3n * PAYMENT);
    await own.startUnbonding(PAYMENT);
    expect((await view()).exposure).to.equal(0);
    await market.post(client, provider, { maxPayment: PAYMENT });
    expect((await view()).exposure).to.equal(PAYMENT);
  });

  it("keeps what open jobs hold when it changes", async () => {
    const { own, view } = await loadFixture(dishonestMarket);
    await own.startUnbonding(PAYMENT);
    expect((await view()).exposure).to.equal(3n * PAYMENT);
    await own.addStake(PAYMENT);
    expect((await view()).exposure).to.equal(3n * PAYMENT);
    expect((await view()).stake).to.equal(STAKE);
  });

  it("leaves within the unbonding period, whatever the market does", async () => {
    const { market, provider, thief, own } = await loadFixture(dishonestMarket);
    await thief.acquire(provider, 5n, 50n * PAYMENT);
    await thief.release(provider, 2n, HUGE);
    await own.deactivate();
    await own.startUnbonding(STAKE);
    await time.increase(registryDefaults.unbondingPeriod);
    await own.withdrawStake();
    expect(await market.token.balanceOf(provider.payout)).to.equal(STAKE);
  });
});
