import { expect } from "chai";
import { ethers, fieldsOf, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import { MODEL, MODEL_KEY, PRICE, USAGE, USAGE_PRICE } from "./support/market.ts";

const OTHER = "qwen/Qwen3-32B";
const OTHER_KEY = ethers.id(OTHER);

describe("setting an offering", () => {
  it("makes a record under a new id, announces it and lists the provider under the model", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const call = market.registry.connect(provider.operator).setOffering(OTHER, 1n, 2n, 4_096n);
    await expect(call)
      .to.emit(market.registry, "OfferingSet")
      .withArgs(provider.address, OTHER_KEY, 2, 1n, 2n, 4_096n, OTHER);
    expect(fieldsOf(await market.registry.offeringOf(2))).to.deep.equal({
      offeringId: 2n,
      provider: provider.address,
      modelKey: OTHER_KEY,
      inputPrice: 1n,
      outputPrice: 2n,
      contextLength: 4_096n,
      live: true,
      modelId: OTHER,
    });
    expect(await market.registry.currentOfferingId(provider.address, OTHER_KEY)).to.equal(2);
    expect(await market.registry.modelProviderCount(OTHER_KEY)).to.equal(1);
    expect(await market.registry.modelProvidersPage(OTHER_KEY, 0, 100)).to.deep.equal([provider.address]);
    expect((await market.registry.providerOf(provider.address)).offeringCount).to.equal(2);
  });

  it("makes another record for another price and leaves the old one as it was", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).setOffering(MODEL, 7n, 8n, 9n);
    const old = await market.registry.offeringOf(1);
    expect(old.live).to.equal(false);
    expect([old.inputPrice, old.outputPrice, old.contextLength]).to.deep.equal([PRICE.input, PRICE.output, 131_072n]);
    const current = await market.registry.offeringOf(2);
    expect(current.live).to.equal(true);
    expect([current.inputPrice, current.outputPrice, current.contextLength]).to.deep.equal([7n, 8n, 9n]);
    expect(await market.registry.offeringTerms(2)).to.deep.equal([provider.address, 7n, 8n]);
    expect((await market.registry.providerOf(provider.address)).offeringCount).to.equal(1);
    expect(await market.registry.modelProviderCount(MODEL_KEY)).to.equal(1);
  });

  it("settles an open job at the price at which it was posted", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.registry.connect(provider.operator).setOffering(MODEL, 100n * PRICE.input, 100n * PRICE.output, 1n);
    expect((await market.escrow.jobOf(job.jobId)).inputPrice).to.equal(PRICE.input);
    await market.complete(job, { usage: USAGE });
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });

  it("takes a model id of 1 to 128 bytes, counted in UTF-8", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.operator);
    await expect(registry.setOffering("", 1, 1, 1))
      .to.be.revertedWithCustomError(registry, "InvalidModelId")
      .withArgs(0, 128);
    await expect(registry.setOffering("é".repeat(65), 1, 1, 1))
      .to.be.revertedWithCustomError(registry, "InvalidModelId")
      .withArgs(130, 128);
    const id = "é".repeat(64);
    await registry.setOffering(id, 1, 1, 1);
    expect((await registry.offeringOf(2)).modelId).to.equal(id);
  });

  it("takes one price of zero but not two: a job that is free at any size is a mistake", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.operator);
    await expect(registry.setOffering(OTHER, 0, 0, 1))
      .to.be.revertedWithCustomError(registry, "InvalidPrice")
      .withArgs(0, 0);
    await registry.setOffering(OTHER, 0, 1, 1);
    await registry.setOffering(OTHER, 1, 0, 1);
  });

  it("refuses a context of no tokens", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await expect(market.registry.connect(provider.operator).setOffering(OTHER, 1, 1, 0))
      .to.be.revertedWithCustomError(market.registry, "InvalidContextLength")
      .withArgs(0);
  });

  it("bounds the live offerings of one provider at 64, and makes room again by removing one", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.operator);
    for (let index = 1; index < 64; index++) await registry.setOffering(`model-${index}`, 1, 1, 1);
    await expect(registry.setOffering("one-too-many", 1, 1, 1))
      .to.be.revertedWithCustomError(registry, "TooManyOfferings")
      .withArgs(64);
    await registry.setOffering("model-63", 2, 2, 2);
    await registry.removeOffering("model-1");
    await registry.setOffering("one-too-many", 1, 1, 1);
    expect((await registry.providerOf(provider.address)).offeringCount).to.equal(64);
    const page = await registry.offeringsPage(provider.address, 0, 100);
    expect(new Set(page.map(({ modelId }) => modelId)).size).to.equal(64);
    expect(page.every(({ live }) => live)).to.equal(true);
  });

  it("numbers records across providers, so that an id is never used twice", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await market.provider({ models: [MODEL, OTHER] });
    await market.registry.connect(provider.operator).setOffering(OTHER, 1, 1, 1);
    const owners = await Promise.all([1, 2, 3, 4].map(async (id) => (await market.registry.offeringOf(id)).provider));
    expect(owners.map((owner) => owner === provider.address)).to.deep.equal([true, false, false, true]);
  });
});

describe("removing an offering", () => {
  it("announces it, stops posts, unlists the provider and keeps the record for open jobs", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await expect(market.registry.connect(provider.operator).removeOffering(MODEL))
      .to.emit(market.registry, "OfferingRemoved")
      .withArgs(provider.address, MODEL_KEY, 1);
    expect(await market.registry.currentOfferingId(provider.address, MODEL_KEY)).to.equal(0);
    expect(await market.registry.modelProviderCount(MODEL_KEY)).to.equal(0);
    expect((await market.registry.providerOf(provider.address)).offeringCount).to.equal(0);
    expect((await market.registry.offeringOf(1)).live).to.equal(false);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "OfferingNotFound")
      .withArgs(provider.address, MODEL_KEY);
    await market.complete(job, { usage: USAGE });
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });

  it("refuses what is not offered, also a second time", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await registry.removeOffering(MODEL);
    for (const [model, key] of [
      [MODEL, MODEL_KEY],
      [OTHER, OTHER_KEY],
    ] as const) {
      await expect(registry.removeOffering(model))
        .to.be.revertedWithCustomError(registry, "OfferingNotFound")
        .withArgs(provider.address, key);
    }
  });

  it("takes only the caller's offering away", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const other = await market.provider();
    await market.registry.connect(provider.operator).removeOffering(MODEL);
    expect(await market.registry.modelProvidersPage(MODEL_KEY, 0, 100)).to.deep.equal([other.address]);
  });

  it("lets the model be offered again, under a new id", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.operator);
    await registry.removeOffering(MODEL);
    await registry.setOffering(MODEL, PRICE.input, PRICE.output, 1n);
    expect(await registry.currentOfferingId(provider.address, MODEL_KEY)).to.equal(2);
    const { jobId } = await market.post(client, provider);
    expect((await market.escrow.jobOf(jobId)).offeringId).to.equal(2);
  });
});

describe("what a record says to a settlement", () => {
  it("names the provider only to its owner and its operator", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    const other = await market.provider();
    for (const account of [provider.owner, provider.operator]) {
      expect((await market.registry.termsFor(account, 1)).provider).to.equal(provider.address);
    }
    for (const account of [stranger, other.owner, other.operator, market.admin]) {
      expect(await market.registry.termsFor(account, 1)).to.deep.equal([0n, ethers.ZeroAddress]);
    }
  });

  it("holds the greatest prices there are, each apart from the other and from its id", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const most = 2n ** 96n - 1n;
    const prices = { maxInputPrice: most, maxOutputPrice: most };
    for (const [input, output] of [[most, 1n] as const, [1n, most] as const, [most, most] as const]) {
      await market.registry.connect(provider.operator).setOffering(MODEL, input, output, 1);
      const id = await market.registry.currentOfferingId(provider.address, MODEL_KEY);
      expect(await market.registry.offeringTerms(id)).to.deep.equal([provider.address, input, output]);
      const { jobId } = await market.post(client, provider, prices);
      const job = await market.escrow.jobOf(jobId);
      expect([job.offeringId, job.inputPrice, job.outputPrice]).to.deep.equal([id, input, output]);
      if (output === 1n) continue;
      await expect(market.post(client, provider, { ...prices, maxOutputPrice: most - 1n }))
        .to.be.revertedWithCustomError(market.registry, "PriceAboveLimit")
        .withArgs(provider.address, input, output, most, most - 1n);
    }
  });

  it("says nothing for a record that does not exist", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    for (const id of [0, 2, 2n ** 48n - 1n]) {
      expect(await market.registry.offeringTerms(id)).to.deep.equal([ethers.ZeroAddress, 0n, 0n]);
      for (const account of [stranger, provider.owner]) {
        expect(await market.registry.termsFor(account, id)).to.deep.equal([0n, ethers.ZeroAddress]);
      }
      const nothing = [0n, ethers.ZeroAddress, ethers.ZeroHash, 0n, 0n, 0n, false, ""];
      expect([...(await market.registry.offeringOf(id))]).to.deep.equal(nothing);
    }
  });
});

describe("an offering as a sign of life", () => {
  it("refreshes lastSeen when set and when removed", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.operator);
    await time.increase(100);
    await registry.setOffering(OTHER, 1, 1, 1);
    expect((await registry.providerOf(provider.address)).lastSeen).to.equal(await time.latest());
    await time.increase(100);
    await registry.removeOffering(OTHER);
    expect((await registry.providerOf(provider.address)).lastSeen).to.equal(await time.latest());
  });
});
