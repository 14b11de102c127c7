import { expect } from "chai";
import { loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import { DURATION, type Market, MODEL, type Provider, REQUEST_HASH } from "./support/market.ts";

const TTL = 600;
/** The market refreshes `lastSeen` when it is older than an eighth of the time to live. */
const REFRESH_AFTER = TTL / 8;

const lastSeenOf = async (market: Market, provider: Provider): Promise<bigint> =>
  (await market.registry.providerOf(provider.address)).lastSeen;

describe("a provider's life sign", () => {
  it("counts as live up to and including the time to live after its last transaction, and no longer", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const lastSeen = await lastSeenOf(market, provider);
    const terms = await market.terms({ duration: TTL + DURATION });
    await time.setNextBlockTimestamp(lastSeen + BigInt(TTL));
    await market.escrow.connect(client).postJob(provider.address, terms);
    await time.setNextBlockTimestamp(lastSeen + BigInt(TTL) + 1n);
    await expect(
      market.escrow.connect(client).postJob(provider.address, await market.terms({ duration: TTL + DURATION })),
    )
      .to.be.revertedWithCustomError(market.registry, "ProviderStale")
      .withArgs(provider.address, lastSeen, TTL);
  });

  it("a heartbeat of owner or operator makes a stale provider live again", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    for (const account of [provider.owner, provider.operator]) {
      await time.increase(TTL + 1);
      await expect(market.registry.connect(account).heartbeat())
        .to.emit(market.registry, "Heartbeat")
        .withArgs(provider.address);
      expect(await lastSeenOf(market, provider)).to.equal(await time.latest());
      await market.post(client, provider);
    }
  });

  it("refuses the heartbeat of a provider that is away: it comes back by reactivate", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).deactivate();
    await expect(market.registry.connect(provider.operator).heartbeat())
      .to.be.revertedWithCustomError(market.registry, "ProviderInactive")
      .withArgs(provider.address);
  });

  const signs: Record<string, (market: Market, provider: Provider) => Promise<unknown>> = {
    setOperator: async ({ registry }, { owner, operator }) => registry.connect(owner).setOperator(operator),
    resignOperator: async ({ registry }, { operator }) => registry.connect(operator).resignOperator(),
    setEndpoint: async ({ registry }, { operator }) => registry.connect(operator).setEndpoint("https://x.example"),
    setPayout: async ({ registry }, { owner, payout }) => registry.connect(owner).setPayout(payout),
    setMaxConcurrentJobs: async ({ registry }, { operator }) => registry.connect(operator).setMaxConcurrentJobs(2),
    setOffering: async ({ registry }, { operator }) => registry.connect(operator).setOffering(MODEL, 1, 1, 1),
    removeOffering: async ({ registry }, { operator }) => registry.connect(operator).removeOffering(MODEL),
    addStake: async ({ registry }, { owner }) => registry.connect(owner).addStake(1),
    startUnbonding: async ({ registry }, { owner }) => registry.connect(owner).startUnbonding(1),
  };
  for (const [name, act] of Object.entries(signs)) {
    it(`is given by ${name}`, async () => {
      const { market, provider } = await loadFixture(smallMarket);
      await time.increase(300);
      await act(market, provider);
      expect(await lastSeenOf(market, provider)).to.equal(await time.latest());
    });

    it(`is not given by ${name} while the provider is away, so that coming back is always explicit`, async () => {
      const { market, provider } = await loadFixture(smallMarket);
      await market.registry.connect(provider.owner).deactivate();
      const before = await lastSeenOf(market, provider);
      await time.increase(300);
      await act(market, provider);
      expect(await lastSeenOf(market, provider)).to.equal(before);
      expect((await market.registry.providerOf(provider.address)).active).to.equal(false);
    });
  }

  it("is given by withdrawStake", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).startUnbonding(1);
    await time.increase(604_800);
    await market.registry.connect(provider.owner).withdrawStake();
    expect(await lastSeenOf(market, provider)).to.equal(await time.latest());
  });

  it("is not given by anything that others do: posting, cancelling, expiring, slashing", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const before = await lastSeenOf(market, provider);
    await time.increase(REFRESH_AFTER + 1);
    const [slashed, cancelled] = [await market.post(client, provider), await market.post(client, provider)];
    await time.increase(60);
    await market.escrow.connect(client).requestCancel(cancelled.jobId);
    await time.increase(60);
    await market.escrow.connect(client).finalizeCancel(cancelled.jobId);
    await time.increase(DURATION);
    await market.escrow.connect(stranger).expireJobs([job.jobId]);
    const signature = await market.acknowledgement(provider.operator, { ...slashed, provider: provider.address });
    await market.escrow.connect(client).slashJob(slashed.jobId, REQUEST_HASH, signature);
    expect(await lastSeenOf(market, provider)).to.equal(before);
  });
});

describe("a busy provider's life sign", () => {
  const acts: Record<string, (market: Market, jobId: string, provider: Provider) => Promise<unknown>> = {
    ackJob: async ({ escrow }, jobId, { operator }) => escrow.connect(operator).ackJob(jobId),
    declineJob: async ({ escrow }, jobId, { operator }) => escrow.connect(operator).declineJob(jobId),
    completeJob: async ({ escrow }, jobId, { operator }) =>
      escrow.connect(operator).completeJob(jobId, { inputTokens: 1, outputTokens: 1 }, jobId, "0x"),
    completeJobs: async ({ escrow }, jobId, { operator }) =>
      escrow
        .connect(operator)
        .completeJobs([
          { jobId, usage: { inputTokens: 1, outputTokens: 1 }, responseHash: jobId, clientSignature: "0x" },
        ]),
  };
  for (const [name, act] of Object.entries(acts)) {
    it(`is refreshed and announced by ${name} once it is an eighth of the time to live old, and costs nothing before`, async () => {
      const { market, provider, client, job } = await loadFixture(openJob);
      const seen = await lastSeenOf(market, provider);
      const later = await market.post(client, provider);
      await time.setNextBlockTimestamp(seen + BigInt(REFRESH_AFTER) - 1n);
      await expect(act(market, job.jobId, provider)).not.to.emit(market.registry, "Heartbeat");
      expect(await lastSeenOf(market, provider)).to.equal(seen);
      await time.setNextBlockTimestamp(seen + BigInt(REFRESH_AFTER));
      await expect(act(market, later.jobId, provider))
        .to.emit(market.registry, "Heartbeat")
        .withArgs(provider.address);
      expect(await lastSeenOf(market, provider)).to.equal(seen + BigInt(REFRESH_AFTER));
    });

    it(`is not refreshed by ${name} while the provider is away`, async () => {
      const { market, provider, job } = await loadFixture(openJob);
      await market.registry.connect(provider.owner).deactivate();
      const seen = await lastSeenOf(market, provider);
      await time.increase(REFRESH_AFTER + 1);
      await expect(act(market, job.jobId, provider)).not.to.emit(market.registry, "Heartbeat");
      expect(await lastSeenOf(market, provider)).to.equal(seen);
    });
  }
});
