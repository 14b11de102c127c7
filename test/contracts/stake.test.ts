import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import { deployMarket, PAYMENT, registryDefaults, REQUEST_HASH } from "./support/market.ts";

const MIN = registryDefaults.minStake;
const STAKE = 100n * PAYMENT;
const UNBONDING = Number(registryDefaults.unbondingPeriod);

/** Jobs hold half of their payment as collateral. */
async function halfCollateral() {
  const market = await deployMarket({ parameters: { collateralBps: 5_000n } });
  return { market, provider: await market.provider({ stake: MIN }), client: await market.client() };
}

async function noCollateral() {
  const market = await deployMarket({ parameters: { collateralBps: 0n, minStake: 0n } });
  return { market, provider: await market.provider({ stake: 0n }), client: await market.client() };
}

describe("adding stake", () => {
  it("moves the tokens and announces the new stake", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const call = market.registry.connect(provider.owner).addStake(7n);
    await expect(call)
      .to.emit(market.registry, "Staked")
      .withArgs(provider.address, 7n, STAKE + 7n);
    await expect(call).to.changeTokenBalances(ethers, market.token, [provider.owner, market.registry], [-7n, 7n]);
  });

  it("refuses an amount of which nothing arrives", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await expect(market.registry.connect(provider.owner).addStake(0))
      .to.be.revertedWithCustomError(market.registry, "InvalidAmount")
      .withArgs(0);
  });

  it("counts up to 2^127 - 1, which is what headroom can hold, and refuses one unit more", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const most = 2n ** 127n - 1n;
    await market.token.mint(provider.owner, most + 1n);
    const own = market.registry.connect(provider.owner);
    await expect(own.addStake(most - STAKE + 1n))
      .to.be.revertedWithCustomError(own, "InvalidAmount")
      .withArgs(most - STAKE + 1n);
    await own.addStake(most - STAKE);
    const { stake, exposure } = await market.registry.providerOf(provider.address);
    expect([stake, exposure]).to.deep.equal([most, 0n]);
    await market.complete(await market.post(await market.client(), provider));
  });

  it("gives room for another job at once", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    await market.post(client, provider, { maxPayment: MIN });
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "InsufficientStake");
    await market.registry.connect(provider.owner).addStake(PAYMENT);
    await market.post(client, provider);
  });
});

describe("collateral of open jobs", () => {
  it("a job that the stake does not cover is refused with what is free and what is needed", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    await market.post(client, provider, { maxPayment: MIN - 1n });
    await expect(market.post(client, provider, { maxPayment: 1_000n }))
      .to.be.revertedWithCustomError(market.registry, "InsufficientStake")
      .withArgs(provider.address, 1n, 1_000n);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(MIN - 1n);
  });

  it("is the sum over open jobs, and every end gives it back", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const second = await market.post(client, provider, { maxPayment: 3_000n });
    const exposure = async (): Promise<bigint> => (await market.registry.providerOf(provider.address)).exposure;
    expect(await exposure()).to.equal(PAYMENT + 3_000n);
    await market.complete(job);
    expect(await exposure()).to.equal(3_000n);
    await market.escrow.connect(provider.operator).declineJob(second.jobId);
    expect(await exposure()).to.equal(0);
  });

  it("is a part of the payment, rounded down, and comes back to the last unit", async () => {
    const { market, provider, client } = await loadFixture(halfCollateral);
    expect(await market.registry.collateralFor(1_001n)).to.equal(500n);
    const jobs = [];
    for (let count = 0; count < 3; count++) jobs.push(await market.post(client, provider, { maxPayment: 1_001n }));
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(1_500n);
    for (const job of jobs) await market.complete(job);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(0);
  });

  it("is shown to the last unit", async () => {
    const market = await deployMarket({ parameters: { collateralBps: 10n } });
    const provider = await market.provider();
    await market.post(await market.client(), provider, { maxPayment: 1_000n, unsignedLimit: 0n });
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(1n);
  });

  it("is nothing where the deployment asks for none: a provider without stake serves", async () => {
    const { market, provider, client } = await loadFixture(noCollateral);
    const job = await market.post(client, provider, { maxPayment: 100n * PAYMENT });
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(0);
    await market.complete(job);
  });

  it("can be as large as a payment can be, and leaves the other fields of the job as they are", async () => {
    const { market } = await loadFixture(smallMarket);
    const most = 2n ** 96n - 1n;
    const provider = await market.provider();
    await market.token.mint(provider.owner, most);
    await market.registry.connect(provider.owner).addStake(most);
    // Its address is even: what lies beside it in the word must not run into it.
    let payer = await market.client();
    while (BigInt(payer.address) % 2n === 1n) payer = await market.client();
    await market.token.mint(payer, most);
    await market.escrow.connect(payer).deposit(most);
    const job = await market.post(payer, provider, { maxPayment: most, unsignedLimit: most });
    const view = await market.escrow.jobOf(job.jobId);
    expect([view.maxPayment, view.unsignedLimit]).to.deep.equal([most, most]);
    expect([view.client, view.provider]).to.deep.equal([payer.address, provider.address]);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(most);
    // The rest of the account is the greatest that one can hold: free and locked stay apart.
    const rest = 2n ** 112n - 1n - most - 100n * PAYMENT;
    await market.token.mint(payer, rest);
    await market.escrow.connect(payer).deposit(rest);
    expect([await market.free(payer), await market.locked(payer)]).to.deep.equal([rest + 100n * PAYMENT, most]);
    await market.escrow.connect(payer).withdraw(rest, payer);
    // All of it, and not a unit more.
    await market.complete(job, { usage: { inputTokens: 2n ** 64n - 1n, outputTokens: 2n ** 64n - 1n } });
    const paid = await market.free(provider.address);
    expect(paid + (await market.free(payer))).to.equal(most + 100n * PAYMENT);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(0n);
  });
});

describe("unbonding", () => {
  it("moves stake aside, says until when, and pays it to the payout address after that", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    const now = (await time.latest()) + 10;
    await time.setNextBlockTimestamp(now);
    await expect(registry.startUnbonding(STAKE - MIN))
      .to.emit(registry, "UnbondingStarted")
      .withArgs(provider.address, STAKE - MIN, MIN, now + UNBONDING);
    const view = await registry.providerOf(provider.address);
    expect([view.stake, view.unbonding]).to.deep.equal([MIN, STAKE - MIN]);
    await time.setNextBlockTimestamp(view.unbondingAt - 1n);
    await expect(registry.withdrawStake())
      .to.be.revertedWithCustomError(registry, "UnbondingPending")
      .withArgs(view.unbondingAt);
    await time.setNextBlockTimestamp(view.unbondingAt);
    const paid = registry.withdrawStake();
    await expect(paid)
      .to.emit(registry, "StakeWithdrawn")
      .withArgs(provider.address, provider.payout, STAKE - MIN);
    await expect(paid).to.changeTokenBalances(
      ethers,
      market.token,
      [provider.payout, registry],
      [STAKE - MIN, MIN - STAKE],
    );
    const after = await registry.providerOf(provider.address);
    expect([after.unbonding, after.unbondingAt]).to.deep.equal([0n, 0n]);
  });

  it("refuses nothing, one unit too much, and a second unbonding at a time", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await expect(registry.startUnbonding(0)).to.be.revertedWithCustomError(registry, "InvalidAmount").withArgs(0);
    await expect(registry.startUnbonding(STAKE - MIN + 1n))
      .to.be.revertedWithCustomError(registry, "StakeLocked")
      .withArgs(STAKE - MIN, STAKE - MIN + 1n);
    await registry.startUnbonding(1);
    const { unbondingAt } = await registry.providerOf(provider.address);
    await expect(registry.startUnbonding(1))
      .to.be.revertedWithCustomError(registry, "UnbondingPending")
      .withArgs(unbondingAt);
  });

  it("keeps the minimum of a provider that has no more and has not left", async () => {
    const { market } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: MIN });
    const registry = market.registry.connect(provider.owner);
    await expect(registry.startUnbonding(1)).to.be.revertedWithCustomError(registry, "StakeLocked").withArgs(0n, 1n);
  });

  it("refuses a withdrawal of nothing, also a second one", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await expect(registry.withdrawStake())
      .to.be.revertedWithCustomError(registry, "NothingUnbonding")
      .withArgs(provider.address);
    await registry.startUnbonding(1);
    await time.increase(UNBONDING);
    await registry.withdrawStake();
    await expect(registry.withdrawStake())
      .to.be.revertedWithCustomError(registry, "NothingUnbonding")
      .withArgs(provider.address);
  });

  it("takes all only after leaving", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await expect(registry.startUnbonding(STAKE))
      .to.be.revertedWithCustomError(registry, "StakeLocked")
      .withArgs(STAKE - MIN, STAKE);
    await registry.deactivate();
    await expect(registry.startUnbonding(STAKE + 1n))
      .to.be.revertedWithCustomError(registry, "StakeLocked")
      .withArgs(STAKE, STAKE + 1n);
    await registry.startUnbonding(STAKE);
    await time.increase(UNBONDING);
    await registry.withdrawStake();
    expect(await market.token.balanceOf(market.registry)).to.equal(0);
  });

  it("covers no new job", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).startUnbonding(STAKE - MIN);
    await market.post(client, provider, { maxPayment: MIN });
    await expect(market.post(client, provider, { maxPayment: 1_000n }))
      .to.be.revertedWithCustomError(market.registry, "InsufficientStake")
      .withArgs(provider.address, 0, 1_000n);
  });

  it("may take stake below what open jobs hold; no new job then, and what is left says nothing is free", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: 3n * MIN });
    const job = await market.post(client, provider, { maxPayment: 3n * MIN });
    await market.registry.connect(provider.owner).startUnbonding(2n * MIN);
    await expect(market.post(client, provider, { maxPayment: 1_000n }))
      .to.be.revertedWithCustomError(market.registry, "InsufficientStake")
      .withArgs(provider.address, 0, 1_000n);
    const view = await market.registry.providerOf(provider.address);
    expect([view.stake, view.unbonding, view.exposure]).to.deep.equal([MIN, 2n * MIN, 3n * MIN]);
    await market.complete(job);
    await market.post(client, provider, { maxPayment: MIN });
  });

  it("still answers for a slash", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: 3n * MIN });
    const job = await market.post(client, provider, { maxPayment: 2n * MIN });
    const registry = market.registry.connect(provider.owner);
    await registry.deactivate();
    await registry.startUnbonding(3n * MIN);
    await time.increase(1_000);
    const signature = await market.acknowledgement(provider.operator, { ...job, provider: provider.address });
    await expect(market.escrow.connect(client).slashJob(job.jobId, REQUEST_HASH, signature))
      .to.emit(registry, "StakeSlashed")
      .withArgs(provider.address, 2n * MIN, 0);
    const view = await registry.providerOf(provider.address);
    expect([view.stake, view.unbonding, view.exposure]).to.deep.equal([0n, MIN, 0n]);
    await time.increase(UNBONDING);
    await expect(registry.withdrawStake())
      .to.emit(registry, "StakeWithdrawn")
      .withArgs(provider.address, provider.payout, MIN);
  });

  it("is over when a slash has taken all of it, so that the next one can begin", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ stake: 2n * MIN });
    const job = await market.post(client, provider, { maxPayment: 2n * MIN });
    const registry = market.registry.connect(provider.owner);
    await registry.startUnbonding(MIN);
    await time.increase(1_000);
    const signature = await market.acknowledgement(provider.owner, { ...job, provider: provider.address });
    await market.escrow.connect(client).slashJob(job.jobId, REQUEST_HASH, signature);
    const view = await registry.providerOf(provider.address);
    expect([view.unbonding, view.unbondingAt]).to.deep.equal([0n, 0n]);
    await expect(registry.withdrawStake()).to.be.revertedWithCustomError(registry, "NothingUnbonding");
    await registry.addStake(MIN);
    await registry.startUnbonding(1);
  });
});
