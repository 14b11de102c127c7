import { expect } from "chai";
import { ethers, inOneBlock, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import {
  deployMarket,
  DURATION,
  JobStatus,
  type Market,
  PAYMENT,
  type Posted,
  REQUEST_HASH,
} from "./support/market.ts";

async function twoClients() {
  const market = await deployMarket();
  const provider = await market.provider({ cap: 1n });
  return { market, provider, clients: [await market.client(), await market.client()] as const };
}

describe("the published cap", () => {
  it("a new provider's cap is 0 until set", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    expect((await market.registry.providerOf(provider.address)).maxConcurrentJobs).to.equal(0);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    expect((await market.registry.providerOf(provider.address)).maxConcurrentJobs).to.equal(2);
  });

  it("the mutator stores, emits and refuses strangers", async () => {
    const { market, provider, stranger, client } = await loadFixture(openJob);
    await expect(market.registry.connect(provider.operator).setMaxConcurrentJobs(5))
      .to.emit(market.registry, "MaxConcurrentJobsUpdated")
      .withArgs(provider.address, 0, 5, 1);
    await expect(market.registry.connect(provider.owner).setMaxConcurrentJobs(2n ** 32n - 1n))
      .to.emit(market.registry, "MaxConcurrentJobsUpdated")
      .withArgs(provider.address, 5, 2n ** 32n - 1n, 1);
    for (const account of [stranger, client, market.admin]) {
      await expect(market.registry.connect(account).setMaxConcurrentJobs(1))
        .to.be.revertedWithCustomError(market.registry, "NotProvider")
        .withArgs(account);
    }
    expect((await market.registry.providerOf(provider.address)).maxConcurrentJobs).to.equal(2n ** 32n - 1n);
  });

  it("announces a cap that did not change as well, because it shows life", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await expect(market.registry.connect(provider.operator).setMaxConcurrentJobs(0))
      .to.emit(market.registry, "MaxConcurrentJobsUpdated")
      .withArgs(provider.address, 0, 0, 0);
  });

  it("can be set while the provider is away", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(4);
    expect((await market.registry.providerOf(provider.address)).maxConcurrentJobs).to.equal(4);
  });
});

describe("the last slot", () => {
  it("the last slot goes to one of two posts, the other reverts ProviderAtCapacity with the figures and moves no money", async () => {
    const { market, provider, clients } = await loadFixture(twoClients);
    const [first, second] = clients;
    const terms = [await market.terms(), await market.terms()] as const;
    await market.escrow.connect(first).postJob(provider.address, terms[0]);
    const before = await market.escrow.accountOf(second);
    await expect(market.escrow.connect(second).postJob(provider.address, terms[1]))
      .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
      .withArgs(provider.address, 1, 1);
    expect(await market.escrow.accountOf(second)).to.deep.equal(before);
    expect(await market.statusOf(await market.escrow.jobIdOf(second, terms[1].nonce))).to.equal(JobStatus.None);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("goes to exactly one of two posts in the same block", async () => {
    const { market, provider, clients } = await loadFixture(twoClients);
    const terms = [await market.terms(), await market.terms()] as const;
    const gas = { gasLimit: 500_000 };
    const sent = await inOneBlock(async () => [
      await market.escrow.connect(clients[0]).postJob(provider.address, terms[0], gas),
      await market.escrow.connect(clients[1]).postJob(provider.address, terms[1], gas),
    ]);
    const receipts = await Promise.all(sent.map(({ hash }) => ethers.provider.getTransactionReceipt(hash)));
    expect(new Set(receipts.map((receipt) => receipt?.blockNumber)).size).to.equal(1);
    expect(receipts.map((receipt) => receipt?.status)).to.have.members([0, 1]);
    expect(await market.openJobs(provider)).to.equal(1);
    const locked = await Promise.all(clients.map(async (client) => market.locked(client)));
    expect(locked).to.have.members([0n, PAYMENT]);
  });

  it("the refused nonce is not spent: the same terms can be posted when a slot is free", async () => {
    const { market, provider, clients } = await loadFixture(twoClients);
    const [first, second] = clients;
    const job = await market.post(first, provider);
    const terms = await market.terms();
    await expect(market.escrow.connect(second).postJob(provider.address, terms)).to.be.revertedWithCustomError(
      market.registry,
      "ProviderAtCapacity",
    );
    await market.complete(job);
    await expect(market.escrow.connect(second).postJob(provider.address, terms)).to.emit(market.escrow, "JobPosted");
  });
});

describe("openJobs against the cap", () => {
  it("lowering the cap below openJobs stops new jobs and cancels none", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const jobs = [await market.post(client, provider), await market.post(client, provider)];
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(1);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
      .withArgs(provider.address, 2, 1);
    for (const { jobId } of jobs) expect(await market.statusOf(jobId)).to.equal(JobStatus.Open);
    const [first, second] = jobs;
    if (first !== undefined) await market.complete(first);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
      .withArgs(provider.address, 1, 1);
    if (second !== undefined) await market.complete(second);
    await market.post(client, provider);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("0 means no cap", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    for (let open = 1n; open <= 20n; open++) {
      await market.post(client, provider);
      expect(await market.openJobs(provider)).to.equal(open);
    }
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(3);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "ProviderAtCapacity")
      .withArgs(provider.address, 20, 3);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(0);
    await market.post(client, provider);
  });

  it("says the new openJobs and the cap with every slot taken and freed, so that an index reads nothing", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(9);
    const terms = await market.terms();
    await expect(market.escrow.connect(client).postJob(provider.address, terms))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 1, 9);
    const jobId = await market.escrow.jobIdOf(client, terms.nonce);
    await expect(market.escrow.connect(provider.operator).declineJob(jobId))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 9);
  });

  it("raising the cap opens slots at once", async () => {
    const { market, provider, clients } = await loadFixture(twoClients);
    await market.post(clients[0], provider);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    await market.post(clients[1], provider);
    expect(await market.openJobs(provider)).to.equal(2);
  });

  it("counts each provider by itself", async () => {
    const { market, provider, clients } = await loadFixture(twoClients);
    const other = await market.provider({ cap: 1n });
    await market.post(clients[0], provider);
    await market.post(clients[1], other);
    expect(await market.openJobs(provider)).to.equal(1);
    expect(await market.openJobs(other)).to.equal(1);
  });
});

describe("a slot is freed exactly once", () => {
  type End = (market: Market, job: Posted) => Promise<unknown>;
  const ends: Record<string, End> = {
    "completed with a receipt": async (market, job) => market.complete(job),
    "completed without one": async (market, job) => market.complete(job, { signature: "0x" }),
    "completed in a batch": async (market, { jobId, provider }) =>
      market.escrow
        .connect(provider.operator)
        .completeJobs([
          { jobId, usage: { inputTokens: 1, outputTokens: 1 }, responseHash: jobId, clientSignature: "0x" },
        ]),
    declined: async (market, { jobId, provider }) => market.escrow.connect(provider.owner).declineJob(jobId),
    cancelled: async (market, { jobId, client }) => {
      await time.increase(30);
      await market.escrow.connect(client).requestCancel(jobId);
      await time.increase(60);
      await market.escrow.finalizeCancel(jobId);
    },
    expired: async (market, { jobId }) => {
      await time.increase(DURATION);
      await market.escrow.expireJobs([jobId]);
    },
    slashed: async (market, { jobId, client, provider }) => {
      await time.increase(DURATION);
      const signature = await market.acknowledgement(provider.operator, { jobId, provider: provider.address });
      await market.escrow.connect(client).slashJob(jobId, REQUEST_HASH, signature);
    },
  };

  for (const [end, finish] of Object.entries(ends)) {
    it(`when the job is ${end}, and no other way of ending it frees another`, async () => {
      const { market, provider, client, job } = await loadFixture(openJob);
      await market.post(client, provider, { duration: 80_000 });
      expect(await market.openJobs(provider)).to.equal(2);
      await finish(market, job);
      expect(await market.openJobs(provider)).to.equal(1);
      const money = await market.escrow.accountOf(client);
      for (const again of Object.values(ends)) {
        // Each either reverts or, in a batch, skips the job.
        await again(market, job).catch(() => undefined);
        expect(await market.openJobs(provider)).to.equal(1);
        expect(await market.escrow.accountOf(client)).to.deep.equal(money);
      }
    });
  }
});
