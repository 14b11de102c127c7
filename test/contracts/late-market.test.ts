import { expect } from "chai";
import { ethers, loadFixture } from "./support/chain.ts";
import { smallMarket } from "./support/fixtures.ts";
import { type Account, deployMarket, MODEL_KEY, PAYMENT, PRICE } from "./support/market.ts";

/** A market that was allowed after the provider had registered; a key holder plays it. */
async function lateMarket() {
  const parts = await smallMarket();
  const { market, provider } = parts;
  const late = await market.contractAccount();
  await market.allowMarket(late);
  await market.registry.connect(provider.operator).heartbeat();
  const registry = market.registry.connect(late);
  const take = (): ReturnType<typeof registry.acquireSlots> =>
    registry.acquireSlots(provider.address, PRICE.input, PRICE.output, PAYMENT, 1, MODEL_KEY);
  const offeringId = await market.registry.currentOfferingId(provider.address, MODEL_KEY);
  return { ...parts, late, registry, take, offeringId };
}

/** What `settleSlotFor` would return. */
async function settling(parts: Awaited<ReturnType<typeof lateMarket>>, account: Account): Promise<string> {
  return (await parts.registry.settleSlotFor.staticCall(account, parts.offeringId, PAYMENT)).provider;
}

describe("a market that was allowed after a provider registered", () => {
  it("settles for the provider's owner and operator, though neither was written down under it", async () => {
    const parts = await loadFixture(lateMarket);
    const { registry, provider, market, take, offeringId } = parts;
    await take();
    await take();
    for (const account of [provider.owner, provider.operator]) {
      expect(await settling(parts, account)).to.equal(provider.address);
      await registry.settleSlotFor(account, offeringId, PAYMENT);
    }
    expect(await market.openJobs(provider)).to.equal(0);
    expect((await market.registry.providerOf(provider.address)).exposure).to.equal(0);
  });

  it("settles for nobody else, and then frees no slot", async () => {
    const parts = await loadFixture(lateMarket);
    const { registry, provider, stranger, market, take, offeringId } = parts;
    await take();
    const other = await market.provider();
    for (const account of [stranger, other.owner, other.operator]) {
      expect(await settling(parts, account)).to.equal(ethers.ZeroAddress);
      await expect(registry.settleSlotFor(account, offeringId, PAYMENT)).not.to.emit(registry, "SlotsChanged");
    }
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("follows a rotation of the operator at once, in both directions", async () => {
    const parts = await loadFixture(lateMarket);
    const { provider, market, take } = parts;
    await take();
    const next = market.account();
    await market.registry.connect(provider.owner).setOperator(next);
    expect(await settling(parts, next)).to.equal(provider.address);
    expect(await settling(parts, provider.operator)).to.equal(ethers.ZeroAddress);
    await market.registry.connect(provider.owner).setOperator(provider.operator);
    expect(await settling(parts, provider.operator)).to.equal(provider.address);
    expect(await settling(parts, next)).to.equal(ethers.ZeroAddress);
  });

  it("follows an operator that resigned", async () => {
    const parts = await loadFixture(lateMarket);
    await parts.take();
    await parts.market.registry.connect(parts.provider.operator).resignOperator();
    expect(await settling(parts, parts.provider.operator)).to.equal(ethers.ZeroAddress);
    expect(await settling(parts, parts.provider.owner)).to.equal(parts.provider.address);
  });

  it("can settle when it was forbidden since, but not when it never was one", async () => {
    const { registry, provider, market, late, stranger, take, offeringId } = await loadFixture(lateMarket);
    await take();
    await market.registry.setMarket(late, false);
    await expect(registry.settleSlotFor(provider.operator, offeringId, PAYMENT))
      .to.emit(registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    await expect(market.registry.connect(stranger).settleSlotFor(provider.operator, offeringId, PAYMENT))
      .to.be.revertedWithCustomError(registry, "NotMarket")
      .withArgs(stranger.address);
  });

  it("frees a slot only while one is taken", async () => {
    const { registry, provider, offeringId } = await loadFixture(lateMarket);
    await expect(registry.settleSlotFor(provider.operator, offeringId, PAYMENT))
      .to.be.revertedWithCustomError(registry, "SlotUnderflow")
      .withArgs(provider.address, 0, 1);
  });
});

describe("a market that was allowed before a provider registered", () => {
  it("settles for an operator exactly as long as it is one", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const next = market.account();
    const job = await market.post(client, provider);
    await market.registry.connect(provider.owner).setOperator(next);
    await expect(market.complete(job)).to.be.revertedWithCustomError(market.escrow, "NotJobProvider");
    await expect(market.complete(job, { as: next })).to.emit(market.escrow, "JobCompleted");
  });
});

describe("the terms of a record", () => {
  it("are shown to those who act for its provider, as one packed word", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    const { terms, provider: shown } = await market.registry.termsFor(provider.operator, 1);
    expect(shown).to.equal(provider.address);
    expect(terms & (2n ** 96n - 1n), "input price").to.equal(PRICE.input);
    expect((terms >> 96n) & (2n ** 96n - 1n), "output price").to.equal(PRICE.output);
    expect((terms >> 192n) & (2n ** 32n - 1n), "number of the provider").to.equal(1);
    expect(terms >> 224n, "context length").to.equal(131_072);
    for (const [account, offeringId] of [[stranger, 1] as const, [provider.operator, 2] as const]) {
      expect([...(await market.registry.termsFor(account, offeringId))]).to.deep.equal([0n, ethers.ZeroAddress]);
    }
  });
});

describe("the list of markets", () => {
  it("ends, because every appointment of an operator writes to each of them", async () => {
    const market = await deployMarket();
    const max = await market.registry.MAX_MARKETS();
    const addresses = await market.contracts(Number(max));
    for (const address of addresses.slice(1)) await market.registry.setMarket(address, true);
    await expect(market.registry.setMarket(addresses[0] ?? "", true))
      .to.be.revertedWithCustomError(market.registry, "TooManyMarkets")
      .withArgs(max);
    await market.registry.setMarket(addresses[1] ?? "", false);
    await market.registry.setMarket(addresses[1] ?? "", true);
  });
});
