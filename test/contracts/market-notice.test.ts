import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { emptyMarket, smallMarket } from "./support/fixtures.ts";
import { PAYMENT, registryDefaults, USAGE_PRICE } from "./support/market.ts";
import { Seller } from "./support/seller.ts";

const UNBONDING = Number(registryDefaults.unbondingPeriod);
const STAKE = 100n * PAYMENT;

/** A market with a provider, a contract that is proposed as another, and the times in which it can be allowed. */
async function proposedMarket() {
  const parts = await smallMarket();
  const { registry } = parts.market;
  const proposed = await parts.market.contractAccount();
  await registry.proposeMarket(proposed);
  const { from, until } = await registry.marketProposal(proposed);
  return { ...parts, registry, proposed, from, until };
}

/** A market whose first provider chose as payout a contract that later became a market. */
async function payoutThatBecameAMarket() {
  const parts = await smallMarket();
  const { market, provider, client } = parts;
  const payout = await market.contractAccount();
  await market.registry.connect(provider.owner).setPayout(payout);
  await market.complete(await market.post(client, provider));
  await market.registry.connect(provider.owner).deactivate();
  await market.registry.connect(provider.owner).startUnbonding(STAKE);
  await market.allowMarket(payout);
  return { ...parts, payout };
}

describe("a new market beside providers that are there already", () => {
  it("is announced three unbonding periods ahead", async () => {
    const { market } = await loadFixture(smallMarket);
    const proposed = await market.contractAccount();
    const now = (await time.latest()) + 10;
    await time.setNextBlockTimestamp(now);
    await expect(market.registry.proposeMarket(proposed))
      .to.emit(market.registry, "MarketProposed")
      .withArgs(proposed, now + 3 * UNBONDING, now + 4 * UNBONDING);
    const times = await market.registry.marketProposal(proposed);
    expect([...times]).to.deep.equal([BigInt(now + 3 * UNBONDING), BigInt(now + 4 * UNBONDING)]);
    expect(await market.registry.isMarket(proposed)).to.equal(false);
  });

  it("cannot be allowed without notice, so that a stolen key cannot burn stakes at once", async () => {
    const { market } = await loadFixture(smallMarket);
    const proposed = await market.contractAccount();
    await expect(market.registry.setMarket(proposed, true))
      .to.be.revertedWithCustomError(market.registry, "MarketNotDue")
      .withArgs(proposed, 0, 0);
    // A time at which "0 until 0" would be over cannot help either.
    await time.increase(3 * UNBONDING);
    await expect(market.registry.setMarket(proposed, true)).to.be.revertedWithCustomError(
      market.registry,
      "MarketNotDue",
    );
  });

  it("cannot be allowed a second before its time, and can at it", async () => {
    const { registry, proposed, from, until } = await loadFixture(proposedMarket);
    await time.setNextBlockTimestamp(from - 1n);
    await expect(registry.setMarket(proposed, true))
      .to.be.revertedWithCustomError(registry, "MarketNotDue")
      .withArgs(proposed, from, until);
    await time.setNextBlockTimestamp(from);
    await expect(registry.setMarket(proposed, true)).to.emit(registry, "MarketSet").withArgs(proposed, true);
    expect([...(await registry.marketProposal(proposed))]).to.deep.equal([0n, 0n]);
    expect(await registry.isMarket(proposed)).to.equal(true);
  });

  it("can be allowed until a period later, and no more, so that a proposal that everybody forgot is void", async () => {
    const { registry, proposed, from, until } = await loadFixture(proposedMarket);
    await time.setNextBlockTimestamp(until);
    await expect(registry.setMarket(proposed, true))
      .to.be.revertedWithCustomError(registry, "MarketNotDue")
      .withArgs(proposed, from, until);
    await registry.proposeMarket(proposed);
    const again = await registry.marketProposal(proposed);
    await time.setNextBlockTimestamp(again.until - 1n);
    await registry.setMarket(proposed, true);
  });

  it("waits anew when it is proposed again", async () => {
    const { registry, proposed, from } = await loadFixture(proposedMarket);
    await time.setNextBlockTimestamp(from - 1n);
    await registry.proposeMarket(proposed);
    await expect(registry.setMarket(proposed, true)).to.be.revertedWithCustomError(registry, "MarketNotDue");
    expect((await registry.marketProposal(proposed)).from).to.equal(from - 1n + BigInt(3 * UNBONDING));
  });

  it("is withdrawn by forbidding it, and then needs another notice", async () => {
    const { registry, proposed, from } = await loadFixture(proposedMarket);
    await expect(registry.setMarket(proposed, false))
      .to.emit(registry, "MarketProposalWithdrawn")
      .withArgs(proposed)
      .and.to.emit(registry, "MarketSet")
      .withArgs(proposed, false);
    await time.setNextBlockTimestamp(from);
    await expect(registry.setMarket(proposed, true))
      .to.be.revertedWithCustomError(registry, "MarketNotDue")
      .withArgs(proposed, 0, 0);
    await expect(registry.setMarket(proposed, false)).not.to.emit(registry, "MarketProposalWithdrawn");
  });

  it("is proposed by the owner only, once there is code to judge, and not again when it is known", async () => {
    const { registry, market, stranger, proposed } = await loadFixture(proposedMarket);
    await expect(registry.connect(stranger).proposeMarket(proposed))
      .to.be.revertedWithCustomError(registry, "OwnableUnauthorizedAccount")
      .withArgs(stranger);
    for (const empty of [stranger.address, ethers.ZeroAddress]) {
      await expect(registry.proposeMarket(empty))
        .to.be.revertedWithCustomError(registry, "InvalidParameter")
        .withArgs(ethers.encodeBytes32String("market"));
    }
    await expect(registry.proposeMarket(market.escrow))
      .to.be.revertedWithCustomError(registry, "MarketKnown")
      .withArgs(market.escrow);
  });

  it("finds no stake of a provider that noticed within one period, though it began to unbond a part just before", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const own = market.registry.connect(provider.owner);
    const thief = new Seller(market, await market.contractAccount());
    await market.registry.proposeMarket(thief.account);
    const { from } = await market.registry.marketProposal(thief.account);

    // Begun blindly at the end of the first period; all the rest as soon as that has ended.
    await time.setNextBlockTimestamp(from - BigInt(2 * UNBONDING) - 3n);
    await own.startUnbonding(1n);
    await time.setNextBlockTimestamp(from - BigInt(2 * UNBONDING) - 2n);
    await own.deactivate();
    await time.setNextBlockTimestamp(from - BigInt(UNBONDING) - 1n);
    await own.withdrawStake();
    await time.setNextBlockTimestamp(from - BigInt(UNBONDING));
    await own.startUnbonding(STAKE - 1n);
    await time.setNextBlockTimestamp(from);
    await own.withdrawStake();
    await market.registry.setMarket(thief.account, true);
    await expect(thief.acquire(provider)).to.be.revertedWithCustomError(market.registry, "ProviderInactive");
    expect(await market.token.balanceOf(provider.payout)).to.equal(STAKE);
    expect(await market.token.balanceOf(market.registry)).to.equal(0n);
  });
});

describe("markets before the first provider", () => {
  it("are allowed at once: there is no stake to warn", async () => {
    const { market } = await loadFixture(emptyMarket);
    const other = await market.contractAccount();
    await market.registry.setMarket(other, true);
    expect(await market.registry.markets()).to.deep.equal([await market.escrow.getAddress(), other.address]);
    await market.provider();
    const late = await market.contractAccount();
    await expect(market.registry.setMarket(late, true)).to.be.revertedWithCustomError(market.registry, "MarketNotDue");
  });
});

describe("a market that was forbidden", () => {
  it("is allowed again at once: it kept its power over stakes, and one wrong call shall not stop the market for weeks", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.setMarket(market.escrow, false);
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "NotMarket");
    await market.registry.setMarket(market.escrow, true);
    await market.post(client, provider);
    expect(await market.registry.markets()).to.deep.equal([await market.escrow.getAddress()]);
  });
});

describe("a payout address that became a market", () => {
  it("gets no stake, which it could not pass on, until another is named", async () => {
    const { market, provider, payout, stranger } = await loadFixture(payoutThatBecameAMarket);
    const own = market.registry.connect(provider.owner);
    await expect(own.withdrawStake()).to.be.revertedWithCustomError(own, "InvalidPayout").withArgs(payout);
    await own.setPayout(stranger);
    await expect(own.withdrawStake()).to.emit(own, "StakeWithdrawn").withArgs(provider.owner, stranger, STAKE);
  });

  it("gets no earnings either", async () => {
    const { market, provider, payout, stranger } = await loadFixture(payoutThatBecameAMarket);
    const escrow = market.escrow.connect(provider.operator);
    await expect(escrow.withdrawProvider(provider.owner, USAGE_PRICE))
      .to.be.revertedWithCustomError(escrow, "InvalidRecipient")
      .withArgs(payout);
    await market.registry.connect(provider.owner).setPayout(stranger);
    await expect(escrow.withdrawProvider(provider.owner, USAGE_PRICE)).to.emit(escrow, "Withdrawn");
  });
});
