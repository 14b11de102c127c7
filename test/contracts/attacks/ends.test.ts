import { expect } from "chai";
import { attack, attempt, parties } from "../support/attack.ts";
import { ethers, inOneBlock, loadFixture, time } from "../support/chain.ts";
import { openJob } from "../support/fixtures.ts";
import { DURATION, JobStatus, RESPONSE_HASH, USAGE } from "../support/market.ts";

describe("attacks on the end of a job", () => {
  attack("taking the money back before the provider could begin", ["cancels at once"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    await attempt(market.escrow.connect(client).requestCancel(job.jobId));
    return (await market.statusOf(job.jobId)) === JobStatus.CancelRequested;
  });

  attack("cancelling while the provider may still answer", ["cancels without waiting for an answer"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(job.jobId);
    await attempt(market.escrow.connect(client).finalizeCancel(job.jobId));
    return (await market.statusOf(job.jobId)) === JobStatus.Cancelled;
  });

  attack(
    "taking the money back by expiring a job that the provider works on",
    ["expires before the deadline"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const job = await market.post(client, provider);
      await market.escrow.connect(provider.operator).ackJob(job.jobId);
      await market.escrow.connect(client).expireJobs([job.jobId]);
      return (await market.statusOf(job.jobId)) === JobStatus.Expired;
    },
  );

  attack(
    "keeping a client from cancelling by acknowledging in a provider's name",
    ["lets anybody acknowledge"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const competitor = await market.provider();
      const job = await market.post(client, provider);
      await attempt(market.escrow.connect(competitor.operator).ackJob(job.jobId));
      return (await market.statusOf(job.jobId)) === JobStatus.Acknowledged;
    },
  );

  attack(
    "stopping a batch of expiries by an item that is poison",
    ["stops at an item that is poison"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const job = await market.post(client, provider);
      await time.increase(DURATION);
      await attempt(market.escrow.expireJobs([ethers.id("poison"), job.jobId]));
      return (await market.openJobs(provider)) > 0n;
    },
  );
});

describe("races at equal timestamps", () => {
  attack("being paid for a job that is refunded in the same block", ["keeps a completed job open"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    const job = await market.post(client, provider);
    await market.post(client, provider);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(job.jobId);
    await time.increase(60);
    const signature = await market.receipt(client, { jobId: job.jobId, provider: provider.address });
    const gasLimit = 1_000_000;
    const sent = await inOneBlock(async () => [
      await market.escrow
        .connect(provider.operator)
        .completeJob(job.jobId, USAGE, RESPONSE_HASH, signature, { gasLimit, gasPrice: 10n ** 10n }),
      await market.escrow.connect(client).finalizeCancel(job.jobId, { gasLimit, gasPrice: 5n * 10n ** 9n }),
    ]);
    const receipts = await Promise.all(sent.map(({ hash }) => ethers.provider.getTransactionReceipt(hash)));
    return receipts.every((receipt) => receipt?.status === 1);
  });

  it("of acknowledgement and completion against a cancellation that is due: who comes first decides, once", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(job.jobId);
    await time.increase(60);
    const gasLimit = 500_000;
    const sent = await inOneBlock(async () => [
      await market.escrow.connect(provider.operator).ackJob(job.jobId, { gasLimit }),
      await market.escrow.connect(client).finalizeCancel(job.jobId, { gasLimit }),
      await market.escrow.connect(provider.operator).completeJob(job.jobId, USAGE, RESPONSE_HASH, "0x", { gasLimit }),
      await market.escrow.connect(client).expireJobs([job.jobId], { gasLimit }),
    ]);
    const receipts = await Promise.all(sent.map(({ hash }) => ethers.provider.getTransactionReceipt(hash)));
    // Sorted by whatever order the block took them in: the cancellation and the completion cannot both have succeeded.
    const ended = [receipts[1], receipts[2]].filter((receipt) => receipt?.status === 1);
    expect(ended).to.have.lengthOf(1);
    expect(await market.openJobs(provider)).to.equal(0);
    expect(await market.locked(client)).to.equal(0);
  });
});
