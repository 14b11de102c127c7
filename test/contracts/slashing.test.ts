import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import {
  type Account,
  DURATION,
  deployMarket,
  JobStatus,
  type Market,
  PAYMENT,
  type Posted,
  registryDefaults,
  REQUEST_HASH,
} from "./support/market.ts";

const MIN = registryDefaults.minStake;

async function dueJob() {
  const parts = await openJob();
  await time.increase(DURATION);
  return parts;
}

async function halfCollateral() {
  const market = await deployMarket({ parameters: { collateralBps: 5_000n } });
  return { market, provider: await market.provider(), client: await market.client() };
}

async function slash(market: Market, job: Posted, signer: Account, requestHash = REQUEST_HASH) {
  const signature = await market.acknowledgement(signer, {
    jobId: job.jobId,
    provider: job.provider.address,
    requestHash,
  });
  return await market.escrow.connect(job.client).slashJob(job.jobId, requestHash, signature);
}

describe("slashing", () => {
  it("refunds the client, burns the collateral, frees the slot and says so", async () => {
    const { market, provider, client, job } = await loadFixture(dueJob);
    const free = await market.free(client);
    const call = slash(market, job, provider.operator);
    await expect(call)
      .to.emit(market.escrow, "JobSlashed")
      .withArgs(job.jobId, provider.address, PAYMENT)
      .and.to.emit(market.registry, "StakeSlashed")
      .withArgs(provider.address, PAYMENT, 99n * PAYMENT)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    expect(await market.escrow.accountOf(client)).to.deep.equal([free + PAYMENT, 0n]);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Slashed);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.exposure, view.openJobs, view.active]).to.deep.equal([99n * PAYMENT, 0n, 0n, true]);
    expect(await market.registry.burntStake()).to.equal(PAYMENT);
  });

  it("ends an unbonding of which it takes the last unit, so that another can begin", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    const job = await market.post(client, provider, { maxPayment: MIN });
    const registry = market.registry.connect(provider.owner);
    await registry.deactivate();
    await registry.startUnbonding(1n);
    await time.increase(DURATION);
    await slash(market, job, provider.operator);
    const { stake, unbonding, unbondingAt } = await registry.providerOf(provider.address);
    expect([stake, unbonding, unbondingAt]).to.deep.equal([0n, 0n, 0n]);
  });

  it("leaves an unbonding of which it takes a part, or nothing, to its time: stake could be had early by being slashed", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: 3n * MIN });
    const jobs = [
      await market.post(client, provider, { maxPayment: MIN }),
      await market.post(client, provider, { maxPayment: MIN }),
      await market.post(client, provider, { maxPayment: MIN }),
    ] as const;
    const registry = market.registry.connect(provider.owner);
    await registry.startUnbonding(2n * MIN);
    const { unbondingAt } = await registry.providerOf(provider.address);
    await time.increase(DURATION);
    // The first takes what is not unbonding, the second a half of what is, the third the rest.
    for (const [job, left, at] of [
      [jobs[0], 2n * MIN, unbondingAt] as const,
      [jobs[1], MIN, unbondingAt] as const,
      [jobs[2], 0n, 0n] as const,
    ]) {
      await slash(market, job, provider.operator);
      const view = await registry.providerOf(provider.address);
      expect([view.unbonding, view.unbondingAt]).to.deep.equal([left, at]);
    }
  });

  it("leaves a provider active that keeps exactly the minimum stake", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN + PAYMENT });
    const job = await market.post(client, provider, { maxPayment: PAYMENT });
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator)).not.to.emit(market.registry, "ProviderDeactivated");
    const { active, stake } = await market.registry.providerOf(provider.address);
    expect([active, stake]).to.deep.equal([true, MIN]);
  });

  it("tells an index the slots and the cap as they are", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ cap: 3n });
    const job = await market.post(client, provider);
    await market.post(client, provider);
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 1, 3);
  });

  it("nobody gains by it: the burnt stake can only be swept out of reach, by anyone, once", async () => {
    const { market, provider, stranger, job } = await loadFixture(dueJob);
    await slash(market, job, provider.operator);
    const sweep = market.registry.connect(stranger).sweepBurntStake();
    await expect(sweep).to.emit(market.registry, "BurntStakeSwept").withArgs(PAYMENT);
    await expect(sweep).to.changeTokenBalances(
      ethers,
      market.token,
      [await market.registry.BURN_ADDRESS(), market.registry, stranger],
      [PAYMENT, -PAYMENT, 0n],
    );
    await expect(market.registry.sweepBurntStake())
      .to.be.revertedWithCustomError(market.registry, "InvalidAmount")
      .withArgs(0);
  });

  it("takes the acknowledgement of the owner as well", async () => {
    const { market, provider, job } = await loadFixture(dueJob);
    await expect(slash(market, job, provider.owner)).to.emit(market.escrow, "JobSlashed");
  });

  it("takes nobody else's signature for consent", async () => {
    const { market, client, stranger, job } = await loadFixture(dueJob);
    const other = await market.provider();
    for (const signer of [client, stranger, market.admin, other.owner, other.operator]) {
      await expect(slash(market, job, signer))
        .to.be.revertedWithCustomError(market.escrow, "InvalidAcknowledgement")
        .withArgs(job.jobId);
    }
  });

  it("takes no signature over another job, request or provider", async () => {
    const { market, provider, client, job } = await loadFixture(dueJob);
    await market.registry.connect(provider.operator).heartbeat();
    const other = await market.post(client, provider);
    const escrow = market.escrow.connect(client);
    const address = provider.address;
    for (const signature of [
      await market.acknowledgement(provider.operator, { jobId: other.jobId, provider: address }),
      await market.acknowledgement(provider.operator, { jobId: job.jobId, provider: client }),
      await market.acknowledgement(provider.operator, {
        jobId: job.jobId,
        provider: address,
        requestHash: ethers.id("x"),
      }),
      await market.receipt(provider.operator, { jobId: job.jobId, provider: address }),
      "0x",
    ]) {
      await expect(escrow.slashJob(job.jobId, REQUEST_HASH, signature))
        .to.be.revertedWithCustomError(escrow, "InvalidAcknowledgement")
        .withArgs(job.jobId);
    }
  });

  it("is the client's only", async () => {
    const { market, provider, stranger, job } = await loadFixture(dueJob);
    const signature = await market.acknowledgement(provider.operator, { ...job, provider: provider.address });
    for (const account of [stranger, provider.owner, market.admin]) {
      await expect(market.escrow.connect(account).slashJob(job.jobId, REQUEST_HASH, signature))
        .to.be.revertedWithCustomError(market.escrow, "NotClient")
        .withArgs(job.jobId, account);
    }
  });

  it("is not possible before the deadline", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await time.setNextBlockTimestamp(job.terms.deadline - 1n);
    await expect(slash(market, job, provider.operator))
      .to.be.revertedWithCustomError(market.escrow, "DeadlineNotReached")
      .withArgs(job.jobId, job.terms.deadline);
    await time.setNextBlockTimestamp(job.terms.deadline);
    await slash(market, job, provider.operator);
  });

  it("is not possible after the job was completed, declined, cancelled or expired", async () => {
    const { market, provider, client, job } = await loadFixture(dueJob);
    await market.complete(job);
    await expect(slash(market, job, provider.operator))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(job.jobId, JobStatus.Completed);
    const late = await market.post(client, provider);
    await time.increase(DURATION);
    await market.escrow.expireJobs([late.jobId]);
    await expect(slash(market, late, provider.operator))
      .to.be.revertedWithCustomError(market.escrow, "JobStatusMismatch")
      .withArgs(late.jobId, JobStatus.Expired);
    expect(await market.registry.burntStake()).to.equal(0);
  });

  it("needs a signature also where the provider acknowledged on chain", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    await time.increase(DURATION);
    await expect(market.escrow.connect(client).slashJob(job.jobId, REQUEST_HASH, "0x")).to.be.revertedWithCustomError(
      market.escrow,
      "InvalidAcknowledgement",
    );
    await slash(market, job, provider.operator);
  });

  it("burns the collateral that the job holds, not its payment, where they differ", async () => {
    const { market, provider, client } = await loadFixture(halfCollateral);
    const job = await market.post(client, provider, { maxPayment: 5_001n });
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator))
      .to.emit(market.escrow, "JobSlashed")
      .withArgs(job.jobId, provider.address, 2_500n);
    expect((await market.registry.providerOf(provider.address)).stake).to.equal(100n * PAYMENT - 2_500n);
  });

  it("of one job leaves the collateral of the others whole", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const other = await market.post(client, provider);
    await time.increase(DURATION);
    await slash(market, job, provider.operator);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.exposure, view.openJobs]).to.deep.equal([99n * PAYMENT, PAYMENT, 1n]);
    await market.complete(other);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(0);
  });

  it("takes a provider that falls below the minimum stake out of the market, and says so", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator))
      .to.emit(market.registry, "ProviderDeactivated")
      .withArgs(provider.address);
    expect((await market.registry.providerOf(provider.address)).active).to.equal(false);
    await expect(market.registry.connect(provider.owner).reactivate())
      .to.be.revertedWithCustomError(market.registry, "InsufficientStake")
      .withArgs(provider.address, MIN - PAYMENT, MIN);
    await market.registry.connect(provider.owner).addStake(PAYMENT);
    await market.registry.connect(provider.owner).reactivate();
  });

  it("does not announce a departure of a provider that was already away", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    const job = await market.post(client, provider);
    await market.registry.connect(provider.owner).deactivate();
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator)).not.to.emit(market.registry, "ProviderDeactivated");
  });

  it("burns what there is, stake first and then what is unbonding, and reverts for nothing that is missing", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: 2n * MIN });
    const [first, second] = [
      await market.post(client, provider, { maxPayment: MIN }),
      await market.post(client, provider, { maxPayment: MIN }),
    ];
    const registry = market.registry.connect(provider.owner);
    await registry.deactivate();
    await registry.startUnbonding(MIN + 4n);
    await time.increase(DURATION);
    await expect(slash(market, first, provider.operator))
      .to.emit(registry, "StakeSlashed")
      .withArgs(provider.address, MIN, 0);
    expect((await registry.providerOf(provider.address)).unbonding).to.equal(MIN);
    await time.increase(registryDefaults.unbondingPeriod);
    await registry.withdrawStake();
    await expect(slash(market, second, provider.operator))
      .to.emit(market.escrow, "JobSlashed")
      .withArgs(second.jobId, provider.address, 0);
    expect(await market.locked(client)).to.equal(0);
    expect((await registry.providerOf(provider.address)).openJobs).to.equal(0);
  });
});

describe("consent and key rotation", () => {
  it("rotating the operator does not take back what it signed while the job was open", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.registry.connect(provider.owner).setOperator(market.account());
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator)).to.emit(market.escrow, "JobSlashed");
  });

  it("an operator that resigned before the job was posted can consent to nothing", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.connect(provider.operator).resignOperator();
    await time.increase(1);
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    await expect(slash(market, job, provider.operator))
      .to.be.revertedWithCustomError(market.escrow, "InvalidAcknowledgement")
      .withArgs(job.jobId);
    await slash(market, job, provider.owner);
  });

  it("the registry tells who acted for whom, and until when", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).setOperator(stranger);
    const resignedAt = await time.latest();
    const was = async (account: Account, at: number): Promise<boolean> =>
      market.registry.wasProviderAccount(provider.address, account, at);
    expect(await was(provider.operator, resignedAt)).to.equal(true);
    expect(await was(provider.operator, resignedAt + 1)).to.equal(false);
    expect(await was(stranger, resignedAt + 1_000_000)).to.equal(true);
    expect(await was(provider.owner, 0)).to.equal(true);
    expect(await was(market.admin, 0)).to.equal(false);
  });
});
