import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { emptyMarket, openJob } from "./support/fixtures.ts";
import { DURATION, deployMarket, escrowDefaults, JobStatus, Market, PAYMENT, USAGE_PRICE } from "./support/market.ts";
import { Seller } from "./support/seller.ts";

async function bareRegistry() {
  const market = await deployMarket();
  const seller = new Seller(market, await market.contractAccount());
  await market.registry.setMarket(seller.account, true);
  const provider = await market.provider({ cap: 10n });
  return { market, provider, seller };
}

/** Two escrows on one registry, the second added when the provider was already there. */
async function twoEscrows() {
  const parts = await openJob();
  const { market } = parts;
  const escrow = await ethers.deployContract("JobEscrow", [
    await market.registry.getAddress(),
    market.admin.address,
    escrowDefaults,
  ]);
  await market.allowMarket(escrow);
  await market.registry.connect(parts.provider.operator).heartbeat();
  const second = new Market({ registry: market.registry, token: market.token, escrow }, await ethers.getSigners(), {
    ...market.domain,
    verifyingContract: await escrow.getAddress(),
  });
  await market.token.connect(parts.client).approve(escrow, ethers.MaxUint256);
  await escrow.connect(parts.client).deposit(10n * PAYMENT);
  return { ...parts, second };
}

describe("slots as the registry gives them to a market", () => {
  it("takes and frees several at once", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await expect(seller.acquire(provider, 7n))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 7, 10);
    await expect(seller.release(provider, 6n, PAYMENT))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 1, 10);
  });

  it("answers with the record, and holds the collateral of the payment once for all the slots together", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    expect(await seller.acquireAnswer(provider, 3n)).to.equal(1n);
    await seller.acquire(provider, 3n);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(PAYMENT);
  });

  it("refuses a count that would pass the cap, also where the sum passes 32 bits", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await seller.acquire(provider, 4n);
    for (const count of [7n, 2n ** 32n - 1n]) {
      await expect(seller.acquire(provider, count))
        .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
        .withArgs(provider.address, 4, 10);
    }
    await seller.acquire(provider, 6n);
  });

  it("never wraps the counter of a provider without a cap", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(0);
    await seller.acquire(provider, 2n ** 32n - 1n);
    await expect(seller.acquire(provider, 1n))
      .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
      .withArgs(provider.address, 2n ** 32n - 1n, 0);
    const view = await market.registry.providerOf(provider.address);
    expect([view.openJobs, view.maxConcurrentJobs, view.active]).to.deep.equal([2n ** 32n - 1n, 0n, true]);
  });

  it("takes collateral to the last unit of the stake and gives it back without touching its neighbours in the slot", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    const before = await market.registry.providerOf(provider.address);
    await seller.acquire(provider, 10n, 100n * PAYMENT);
    const held = await market.registry.providerOf(provider.address);
    expect([held.exposure, held.openJobs]).to.deep.equal([100n * PAYMENT, 10n]);
    await expect(seller.acquire(provider, 1n, 0n)).to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity");
    await seller.release(provider, 10n, 100n * PAYMENT);
    expect(await market.registry.providerOf(provider.address)).to.deep.equal(before);
  });

  it("refuses no slots, to take or to free", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    for (const call of [() => seller.acquire(provider, 0n), () => seller.acquireAny([provider.address], 0n)]) {
      await expect(call()).to.be.revertedWithCustomError(market.registry, "InvalidAmount").withArgs(0);
    }
    await expect(seller.release(provider, 0n, 0n))
      .to.be.revertedWithCustomError(market.registry, "SlotUnderflow")
      .withArgs(provider.address, 0, 0);
  });

  it("reverts an underflow and never saturates", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await seller.acquire(provider, 2n);
    for (const call of [() => seller.release(provider, 3n, 0n, true), () => seller.slash(provider, 3n, 0n)]) {
      await expect(call())
        .to.be.revertedWithCustomError(market.registry, "SlotUnderflow")
        .withArgs(provider.address, 2, 3);
    }
    await expect(seller.release(market.admin, 1n, 0n))
      .to.be.revertedWithCustomError(market.registry, "SlotUnderflow")
      .withArgs(market.admin, 0, 1);
    expect(await market.openJobs(provider)).to.equal(2);
  });

  it("gives several slots to the first candidate that has them all", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    const small = await market.provider({ cap: 2n });
    const candidates = [market.admin.address, small.address, provider.address];
    expect(await seller.acquireAnyAnswer(candidates, 3n)).to.deep.equal([2n, 1n]);
    await expect(seller.acquireAny(candidates, 3n))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 3, 10);
    expect(await market.openJobs(small)).to.equal(0);
  });

  it("answers past the end, changes nothing and reverts nothing where no candidate can", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    const candidates = [provider.address, market.admin.address];
    expect(await seller.acquireAnyAnswer(candidates, 11n)).to.deep.equal([2n, 0n]);
    await expect(seller.acquireAny(candidates, 11n)).not.to.emit(market.registry, "SlotsChanged");
    expect(await seller.acquireAnyAnswer([])).to.deep.equal([0n, 0n]);
  });

  it("frees a slot for an account that acts for the record's provider, and does nothing for another", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    const other = await market.provider();
    await seller.acquire(provider, 3n);
    const { registry } = seller;
    for (const account of [market.admin, other.owner, other.operator, seller.account]) {
      await expect(registry.settleSlotFor(account, 1, 0)).not.to.emit(registry, "SlotsChanged");
      expect(await registry.settleSlotFor.staticCall(account, 1, 0)).to.deep.equal([0n, ethers.ZeroAddress]);
    }
    for (const account of [provider.owner, provider.operator]) {
      expect((await registry.settleSlotFor.staticCall(account, 1, 0)).provider).to.equal(provider.address);
      await expect(registry.settleSlotFor(account, 1, 0)).to.emit(registry, "SlotsChanged");
    }
    expect(await market.openJobs(provider)).to.equal(1);
    await registry.settleSlotFor(provider.owner, 1, PAYMENT);
    await expect(registry.settleSlotFor(provider.owner, 1, 0))
      .to.be.revertedWithCustomError(registry, "SlotUnderflow")
      .withArgs(provider.address, 0, 1);
  });

  it("gives nothing to strangers, and takes nothing back from them, not even from the provider itself", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await seller.acquire(provider, 2n);
    for (const account of [market.account(), provider.owner, provider.operator]) {
      const thief = new Seller(market, account);
      for (const call of [
        () => thief.acquire(provider),
        () => thief.acquireAny([provider.address]),
        () => thief.release(provider, 1n, 0n),
        () => thief.slash(provider, 1n, 0n),
        () => thief.registry.settleSlotFor(provider.owner, 1, 0),
        () => thief.registry.touch(provider.address),
        () => thief.registry.setMarketSuspended(true),
      ]) {
        await expect(call()).to.be.revertedWithCustomError(market.registry, "NotMarket").withArgs(account);
      }
    }
    expect(await market.openJobs(provider)).to.equal(2);
  });

  it("a suspended market takes no slots and still frees", async () => {
    const { market, provider, seller } = await loadFixture(bareRegistry);
    await seller.acquire(provider, 2n);
    await expect(seller.registry.setMarketSuspended(true))
      .to.emit(market.registry, "MarketSuspended")
      .withArgs(seller.account, true);
    expect(await market.registry.isMarketSuspended(seller.account)).to.equal(true);
    expect(await market.registry.isMarket(seller.account)).to.equal(true);
    for (const call of [() => seller.acquire(provider), () => seller.acquireAny([provider.address])]) {
      await expect(call()).to.be.revertedWithCustomError(market.registry, "EnforcedPause");
    }
    await seller.release(provider, 1n, 0n);
    await seller.registry.settleSlotFor(provider.operator, 1, PAYMENT);
    await seller.registry.setMarketSuspended(false);
    await seller.acquire(provider);
  });
});

describe("allowing and forbidding a market", () => {
  it("is the owner's, is announced, and refuses nobody's address", async () => {
    const { market } = await loadFixture(emptyMarket);
    const seller = await market.contractAccount();
    await expect(market.registry.connect(seller).setMarket(seller, true))
      .to.be.revertedWithCustomError(market.registry, "OwnableUnauthorizedAccount")
      .withArgs(seller);
    // Nobody is there: tokens could not be sent to it, or stuck there, for good.
    for (const nobody of [ethers.ZeroAddress, market.account().address]) {
      await expect(market.registry.setMarket(nobody, true))
        .to.be.revertedWithCustomError(market.registry, "InvalidParameter")
        .withArgs(ethers.encodeBytes32String("market"));
      expect(await market.registry.isDeadEnd(nobody)).to.equal(false);
    }
    expect(await market.registry.isMarket(seller)).to.equal(false);
    await expect(market.registry.setMarket(seller, true)).to.emit(market.registry, "MarketSet").withArgs(seller, true);
    expect(await market.registry.isMarket(seller)).to.equal(true);
    await expect(market.registry.setMarket(seller, false))
      .to.emit(market.registry, "MarketSet")
      .withArgs(seller, false);
    expect(await market.registry.isMarket(seller)).to.equal(false);
  });

  it("a forbidden market takes no new slots and can still free what it holds", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await market.registry.setMarket(market.escrow, false);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "NotMarket")
      .withArgs(market.escrow);
    await expect(market.escrow.connect(client).postJobAny([provider.address], await market.terms()))
      .to.be.revertedWithCustomError(market.registry, "NotMarket")
      .withArgs(market.escrow);
    await market.complete(job);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("an address that was only ever forbidden holds nothing to free", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    const never = new Seller(market, market.account());
    await market.registry.setMarket(never.account, false);
    for (const call of [() => never.acquire(provider), () => never.release(provider, 1n, 0n)]) {
      await expect(call()).to.be.revertedWithCustomError(market.registry, "NotMarket").withArgs(never.account);
    }
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Open);
  });

  it("knows eight markets at most, so that writing who acts for whom stays cheap", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [first, ...others] = await market.contracts(8);
    // The escrow is one already.
    for (const seller of others) await market.registry.setMarket(seller, true);
    await expect(market.registry.setMarket(first ?? "", true))
      .to.be.revertedWithCustomError(market.registry, "TooManyMarkets")
      .withArgs(8);
    // Switching one that is known needs no room.
    await market.registry.setMarket(market.escrow, false);
    await market.registry.setMarket(market.escrow, true);
    await expect(market.registry.setMarket(first ?? "", true)).to.be.revertedWithCustomError(
      market.registry,
      "TooManyMarkets",
    );
    expect(await market.registry.MAX_MARKETS()).to.equal(8);
    await market.provider();
  });
});

describe("a second market beside the first", () => {
  it("shares the slots of a provider: together they stay under the cap", async () => {
    const { market, second, provider, client } = await loadFixture(twoEscrows);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    await second.post(client, provider);
    for (const escrow of [market, second]) {
      await expect(escrow.post(client, provider))
        .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
        .withArgs(provider.address, 2, 2);
    }
  });

  it("is settled by owner and operator who acted before it was allowed", async () => {
    const { market, second, provider, client } = await loadFixture(twoEscrows);
    const [byOperator, byOwner] = [await second.post(client, provider), await second.post(client, provider)];
    await second.complete(byOperator);
    await second.complete(byOwner, { as: provider.owner });
    expect(await second.free(provider.address)).to.equal(2n * USAGE_PRICE);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("hears of every later change of operator, as the first does", async () => {
    const { market, second, provider, client, job } = await loadFixture(twoEscrows);
    const jobs = [await second.post(client, provider), await second.post(client, provider)] as const;
    const next = market.account();
    await market.registry.connect(provider.owner).setOperator(next);
    for (const [escrow, posted] of [[market, job] as const, [second, jobs[0]] as const]) {
      await expect(escrow.complete(posted))
        .to.be.revertedWithCustomError(escrow.escrow, "NotJobProvider")
        .withArgs(posted.jobId, provider.operator);
    }
    await market.complete(job, { as: next });
    await second.complete(jobs[0], { as: next });
    await market.registry.connect(next).resignOperator();
    await expect(second.complete(jobs[1], { as: next })).to.be.revertedWithCustomError(second.escrow, "NotJobProvider");
    await second.complete(jobs[1], { as: provider.owner });
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("does not let an account that changed sides settle for its former provider", async () => {
    const { market, second, provider, client } = await loadFixture(twoEscrows);
    const other = await market.provider();
    const jobs = [await market.post(client, provider), await second.post(client, provider)] as const;
    await market.registry.connect(provider.operator).resignOperator();
    await market.registry.connect(other.owner).setOperator(provider.operator);
    for (const [escrow, posted] of [[market, jobs[0]] as const, [second, jobs[1]] as const]) {
      await expect(escrow.complete(posted))
        .to.be.revertedWithCustomError(escrow.escrow, "NotJobProvider")
        .withArgs(posted.jobId, provider.operator);
    }
  });

  it("keeps jobs and money apart: an id of one is nothing to the other", async () => {
    const { market, second, client, job } = await loadFixture(twoEscrows);
    await time.increase(DURATION);
    await expect(second.escrow.expireJobs([job.jobId]))
      .to.emit(second.escrow, "ExpirySkipped")
      .withArgs(job.jobId, JobStatus.None, 0);
    await expect(second.complete(job)).to.be.revertedWithCustomError(second.escrow, "JobNotFound").withArgs(job.jobId);
    expect(await second.free(client)).to.equal(10n * PAYMENT);
    expect(await market.locked(client)).to.equal(PAYMENT);
  });
});
