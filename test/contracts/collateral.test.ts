import { expect } from "chai";
import { loadFixture, time } from "./support/chain.ts";
import { smallMarket } from "./support/fixtures.ts";
import { DURATION, type Market, PAYMENT, type Posted, REQUEST_HASH } from "./support/market.ts";

/** Jobs that hold collateral, and one that goes on: a view cannot show that too much came back once nothing is held. */
async function severalJobs() {
  const parts = await smallMarket();
  const { market, provider, client } = parts;
  const jobs = [
    await market.post(client, provider, { maxPayment: PAYMENT }),
    await market.post(client, provider, { maxPayment: 2n * PAYMENT }),
  ] as const;
  await market.post(client, provider, { maxPayment: 4n * PAYMENT, duration: 20 * DURATION });
  return { ...parts, jobs };
}

async function exposure(market: Market, { provider }: Posted): Promise<bigint> {
  return (await market.registry.providerOf(provider.address)).exposure;
}

describe("the collateral that comes back while another job goes on", () => {
  it("is the job's own after a completion and after a decline", async () => {
    const { market, provider, jobs } = await loadFixture(severalJobs);
    await market.complete(jobs[0]);
    expect(await exposure(market, jobs[0])).to.equal(6n * PAYMENT);
    await market.escrow.connect(provider.operator).declineJob(jobs[1].jobId);
    expect(await exposure(market, jobs[0])).to.equal(4n * PAYMENT);
  });

  it("is the sum of the jobs' own after a batch of completions", async () => {
    const { market, provider, jobs } = await loadFixture(severalJobs);
    const items = jobs.map(({ jobId }) => ({
      jobId,
      usage: { inputTokens: 0n, outputTokens: 0n },
      responseHash: REQUEST_HASH,
      clientSignature: "0x",
    }));
    await market.escrow.connect(provider.operator).completeJobs(items);
    expect(await exposure(market, jobs[0])).to.equal(4n * PAYMENT);
  });

  it("is the sum of the jobs' own after a batch of expiries", async () => {
    const { market, jobs } = await loadFixture(severalJobs);
    await time.increase(DURATION);
    await market.escrow.expireJobs(jobs.map(({ jobId }) => jobId));
    expect(await exposure(market, jobs[0])).to.equal(4n * PAYMENT);
  });

  it("is each provider's own after a batch of expiries of several, and so are the slots", async () => {
    const { market, client, jobs } = await loadFixture(severalJobs);
    const other = await market.provider();
    const beside = await market.post(client, other, { maxPayment: PAYMENT });
    const open = await market.post(client, other, { maxPayment: 2n * PAYMENT, duration: 20 * DURATION });
    await time.increase(DURATION);
    const batch = market.escrow.expireJobs([jobs[0].jobId, beside.jobId, jobs[1].jobId]);
    await expect(batch).not.to.emit(market.escrow, "SlotsMissing");
    for (const [job, held] of [[jobs[0], 4n * PAYMENT] as const, [open, 2n * PAYMENT] as const]) {
      expect(await exposure(market, job)).to.equal(held);
      expect(await market.openJobs(job.provider)).to.equal(1n);
    }
  });

  it("is the job's own after a cancel and after a slash", async () => {
    const { market, provider, client, jobs } = await loadFixture(severalJobs);
    await time.increase(await market.escrow.ackWindow());
    await market.escrow.connect(client).requestCancel(jobs[0].jobId);
    await time.increase(await market.escrow.responseWindow());
    await market.escrow.finalizeCancel(jobs[0].jobId);
    expect(await exposure(market, jobs[0])).to.equal(6n * PAYMENT);
    await time.increase(DURATION);
    const consent = await market.acknowledgement(provider.operator, { ...jobs[1], provider: provider.address });
    await market.escrow.connect(client).slashJob(jobs[1].jobId, REQUEST_HASH, consent);
    const { stake, exposure: held } = await market.registry.providerOf(provider.address);
    expect([stake, held]).to.deep.equal([98n * PAYMENT, 4n * PAYMENT]);
  });
});
