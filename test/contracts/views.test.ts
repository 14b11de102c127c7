import { expect } from "chai";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import {
  deployMarket,
  escrowDefaults,
  JobStatus,
  MODEL,
  MODEL_KEY,
  PAYMENT,
  PRICE,
  Refusal,
  USAGE,
  USAGE_PRICE,
} from "./support/market.ts";

async function manyProviders() {
  const market = await deployMarket();
  const providers = [];
  for (let count = 0; count < 5; count++) {
    providers.push(await market.provider({ models: count % 2 === 0 ? [MODEL, "other/model"] : [MODEL] }));
  }
  return { market, addresses: providers.map(({ address }) => address), providers };
}

describe("pages", () => {
  it("of providers come in order of registration, cut where the list ends", async () => {
    const { market, addresses } = await loadFixture(manyProviders);
    const page = async (offset: number, limit: number): Promise<readonly string[]> =>
      (await market.registry.providersPage(offset, limit)).map(({ owner }) => owner);
    expect(await market.registry.providerCount()).to.equal(5);
    expect(await page(0, 100)).to.deep.equal(addresses);
    expect(await page(1, 2)).to.deep.equal(addresses.slice(1, 3));
    expect(await page(3, 100)).to.deep.equal(addresses.slice(3));
    expect(await page(4, 1)).to.deep.equal(addresses.slice(4));
    expect(await page(0, 0)).to.deep.equal([]);
    for (const offset of [5, 6, 1_000_000]) expect(await page(offset, 100)).to.deep.equal([]);
  });

  it("of providers say what the single view says", async () => {
    const { market, addresses } = await loadFixture(manyProviders);
    const page = await market.registry.providersPage(0, 100);
    for (const [index, address] of addresses.entries()) {
      expect(page[index]).to.deep.equal(await market.registry.providerOf(address));
    }
  });

  it("of a model's providers and of a provider's offerings are complete over any step", async () => {
    const { market, addresses, providers } = await loadFixture(manyProviders);
    for (const step of [1, 2, 3, 100]) {
      const found = new Set<string>();
      for (let offset = 0; offset < 6; offset += step) {
        for (const owner of await market.registry.modelProvidersPage(MODEL_KEY, offset, step)) found.add(owner);
      }
      expect([...found]).to.have.members(addresses);
    }
    const [first] = providers;
    const offerings = await market.registry.offeringsPage(first?.address ?? "", 0, 100);
    expect(offerings.map(({ modelId }) => modelId)).to.have.members([MODEL, "other/model"]);
    const [second] = await market.registry.offeringsPage(first?.address ?? "", 1, 1);
    expect(second).to.deep.equal(offerings[1]);
    expect(await market.registry.modelProviderCount(ethers.id("other/model"))).to.equal(3);
  });

  it("stay complete after a removal from the middle", async () => {
    const { market, addresses, providers } = await loadFixture(manyProviders);
    const [, , third] = providers;
    if (third === undefined) throw new Error("five");
    await market.registry.connect(third.operator).removeOffering(MODEL);
    const left = await market.registry.modelProvidersPage(MODEL_KEY, 0, 100);
    expect([...left]).to.have.members(addresses.filter((address) => address !== third.address));
  });

  it("are bounded at 100, so that no call can be made to fail by others' growth", async () => {
    const { market, addresses } = await loadFixture(manyProviders);
    const { registry } = market;
    for (const call of [
      () => registry.providersPage(0, 101),
      () => registry.offeringsPage(addresses[0] ?? "", 0, 101),
      () => registry.modelProvidersPage(MODEL_KEY, 0, 101),
    ]) {
      await expect(call()).to.be.revertedWithCustomError(registry, "PageTooLarge").withArgs(101, 100);
    }
    expect(await registry.MAX_PAGE()).to.equal(100);
  });

  it("of somebody unknown are empty", async () => {
    const { market } = await loadFixture(manyProviders);
    expect(await market.registry.offeringsPage(market.admin, 0, 100)).to.deep.equal([]);
    expect(await market.registry.modelProvidersPage(ethers.ZeroHash, 0, 100)).to.deep.equal([]);
  });
});

describe("single views", () => {
  it("of a provider that does not exist revert, so that nobody reads zeros as a provider", async () => {
    const { market, stranger, provider } = await loadFixture(smallMarket);
    for (const account of [stranger.address, provider.operator.address, ethers.ZeroAddress]) {
      await expect(market.registry.providerOf(account))
        .to.be.revertedWithCustomError(market.registry, "ProviderNotRegistered")
        .withArgs(account);
    }
  });

  it("of a job that does not exist say None", async () => {
    const { market } = await loadFixture(smallMarket);
    const job = await market.escrow.jobOf(ethers.id("no job"));
    expect(job.status).to.equal(JobStatus.None);
    expect(job.jobId).to.equal(ethers.ZeroHash);
    expect(await market.escrow.accountOf(ethers.ZeroAddress)).to.deep.equal([0n, 0n]);
  });

  it("tell who acts for whom", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    const { registry } = market;
    expect(await registry.isProviderAccount(provider.address, provider.owner)).to.equal(true);
    expect(await registry.isProviderAccount(provider.address, provider.operator)).to.equal(true);
    expect(await registry.isProviderAccount(provider.address, stranger)).to.equal(false);
    expect(await registry.isProviderAccount(ethers.ZeroAddress, stranger)).to.equal(false);
    expect(await registry.isProviderAccount(ethers.ZeroAddress, ethers.ZeroAddress)).to.equal(false);
    expect(await registry.providerOfOperator(provider.operator)).to.equal(provider.address);
    // The owner acts, but is not the operator.
    expect(await registry.providerOfOperator(provider.owner)).to.equal(ethers.ZeroAddress);
    expect(await registry.providerOfOperator(stranger)).to.equal(ethers.ZeroAddress);
    expect(await registry.providerOfOperator(ethers.ZeroAddress)).to.equal(ethers.ZeroAddress);
  });

  it("price a usage before the cap of a job, rounded down", async () => {
    const { market } = await loadFixture(smallMarket);
    expect(await market.escrow.paymentFor(1, USAGE)).to.equal(USAGE_PRICE);
    expect(await market.escrow.paymentFor(1, { inputTokens: 6n, outputTokens: 0n })).to.equal(0);
    expect(await market.escrow.paymentFor(1, { inputTokens: 10n ** 12n, outputTokens: 0n })).to.equal(150_000_000_000n);
    expect(await market.escrow.paymentFor(99, USAGE)).to.equal(0);
  });

  it("publish the parameters and bounds of the escrow", async () => {
    const { market } = await loadFixture(smallMarket);
    const { escrow } = market;
    expect(await escrow.token()).to.equal(await market.token.getAddress());
    expect(await escrow.registry()).to.equal(await market.registry.getAddress());
    expect(await escrow.minPayment()).to.equal(escrowDefaults.minPayment);
    expect(await escrow.minDuration()).to.equal(escrowDefaults.minDuration);
    expect(await escrow.maxDuration()).to.equal(escrowDefaults.maxDuration);
    expect(await escrow.ackWindow()).to.equal(escrowDefaults.ackWindow);
    expect(await escrow.responseWindow()).to.equal(escrowDefaults.responseWindow);
    expect(await escrow.MAX_CANDIDATES()).to.equal(8);
    expect(await escrow.MAX_BATCH()).to.equal(50);
    expect(await escrow.paused()).to.equal(false);
    expect([
      await market.registry.MAX_ENDPOINT_BYTES(),
      await market.registry.MAX_MODEL_ID_BYTES(),
      await market.registry.MAX_LIVE_OFFERINGS(),
      await market.registry.BURN_ADDRESS(),
    ]).to.deep.equal([256n, 128n, 64n, "0x000000000000000000000000000000000000dEaD"]);
    expect(await market.registry.isMarket(escrow)).to.equal(true);
    expect(await market.registry.isMarketSuspended(escrow)).to.equal(false);
  });
});

describe("the refusal that a post would meet", () => {
  const ask = async (
    { registry }: Awaited<ReturnType<typeof smallMarket>>["market"],
    address: string,
    changes: {
      maxInputPrice?: bigint;
      maxOutputPrice?: bigint;
      count?: bigint;
      payment?: bigint;
      modelKey?: string;
    } = {},
  ) =>
    registry.refusalOf(
      address,
      changes.modelKey ?? MODEL_KEY,
      changes.maxInputPrice ?? PRICE.input,
      changes.maxOutputPrice ?? PRICE.output,
      changes.count ?? 1n,
      changes.payment ?? PAYMENT,
    );

  it("is told without posting, and is the first in the order of the errors", async () => {
    const { market, provider } = await loadFixture(openJob);
    const { address } = provider;
    const registry = market.registry.connect(provider.owner);
    expect(await ask(market, address)).to.equal(Refusal.None);
    expect(await ask(market, provider.operator.address)).to.equal(Refusal.UnknownProvider);
    expect(await ask(market, address, { payment: 99n * PAYMENT + 1n })).to.equal(Refusal.InsufficientStake);
    expect(await ask(market, address, { payment: 99n * PAYMENT })).to.equal(Refusal.None);
    await registry.setMaxConcurrentJobs(1);
    expect(await ask(market, address, { payment: 100n * PAYMENT })).to.equal(Refusal.AtCapacity);
    expect(await ask(market, address, { maxInputPrice: PRICE.input - 1n })).to.equal(Refusal.PriceAboveLimit);
    expect(await ask(market, address, { maxOutputPrice: PRICE.output - 1n })).to.equal(Refusal.PriceAboveLimit);
    expect(await ask(market, address, { modelKey: ethers.ZeroHash, maxInputPrice: 0n })).to.equal(Refusal.NoOffering);
    await time.increase(601);
    expect(await ask(market, address, { modelKey: ethers.ZeroHash })).to.equal(Refusal.Stale);
    await registry.deactivate();
    expect(await ask(market, address)).to.equal(Refusal.Inactive);
  });

  it("counts the slots asked for", async () => {
    const { market, provider } = await loadFixture(openJob);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(4);
    expect(await ask(market, provider.address, { count: 3n })).to.equal(Refusal.None);
    expect(await ask(market, provider.address, { count: 4n })).to.equal(Refusal.AtCapacity);
    expect(await ask(market, provider.address, { count: 2n ** 32n - 1n })).to.equal(Refusal.AtCapacity);
  });
});
