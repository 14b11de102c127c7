import { expect } from "chai";
import { loadFixture, time } from "./support/chain.ts";
import { emptyMarket, openJob, smallMarket } from "./support/fixtures.ts";
import { JobStatus } from "./support/market.ts";

const MAX_BALANCE = 2n ** 112n - 1n;
const MAX_DELTA = 2 ** 24 - 1;

describe("a balance", () => {
  it("goes up to 2^112 - 1 and not one unit further, so that free and locked never run into each other", async () => {
    const { market } = await loadFixture(emptyMarket);
    const rich = await market.holder(MAX_BALANCE + 10n);
    const escrow = market.escrow.connect(rich);
    const tooLarge = async (deposit: Promise<unknown>, amount: bigint): Promise<void> => {
      await expect(deposit)
        .to.be.revertedWithCustomError(escrow, "BalanceTooLarge")
        .withArgs(rich.address, amount, MAX_BALANCE);
    };
    await tooLarge(escrow.deposit(MAX_BALANCE + 1n), MAX_BALANCE + 1n);
    await escrow.deposit(MAX_BALANCE);
    expect(await market.free(rich)).to.equal(MAX_BALANCE);
    await tooLarge(escrow.deposit(1n), 1n);
    await escrow.withdraw(MAX_BALANCE, rich);
    expect(await market.free(rich)).to.equal(0);
  });

  it("counts what open jobs have locked: it too must fit, or their refunds would not", async () => {
    const { market, client, job } = await loadFixture(openJob);
    const { free, locked } = await market.escrow.accountOf(client);
    const room = MAX_BALANCE - free - locked;
    await market.token.mint(client, room);
    const escrow = market.escrow.connect(client);
    await expect(escrow.deposit(room + 1n))
      .to.be.revertedWithCustomError(escrow, "BalanceTooLarge")
      .withArgs(client, room + 1n, MAX_BALANCE);
    await escrow.deposit(room);
    await time.increaseTo(job.terms.deadline);
    await escrow.expireJobs([job.jobId]);
    expect(await market.free(client)).to.equal(MAX_BALANCE);
  });
});

describe("a job that nobody has ended for months", () => {
  it("keeps its deadline and its parties when it is acknowledged after the longest time that its state can hold", async () => {
    const { market, job, provider } = await loadFixture(openJob);
    const before = await market.escrow.jobOf(job.jobId);
    await time.increase(MAX_DELTA + 1_000);
    await market.escrow.connect(provider.operator).ackJob(job.jobId);
    const after = await market.escrow.jobOf(job.jobId);
    expect(after.status).to.equal(JobStatus.Acknowledged);
    expect(after.since).to.equal(before.since + BigInt(MAX_DELTA));
    expect([after.deadline, after.client, after.provider, after.maxPayment]).to.deep.equal([
      before.deadline,
      before.client,
      before.provider,
      before.maxPayment,
    ]);
    await market.escrow.expireJobs([job.jobId]);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Expired);
    expect(await market.locked(job.client)).to.equal(0);
  });
});

describe("a job of a far future", () => {
  it("keeps its times up to the last second that 36 bits count", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const postedAt = 2n ** 36n - 1n;
    await time.setNextBlockTimestamp(postedAt - 1n);
    await market.registry.connect(provider.operator).heartbeat();
    await time.setNextBlockTimestamp(postedAt);
    const job = await market.post(client, provider, { deadline: postedAt + 60n });
    const { since, deadline } = await market.escrow.jobOf(job.jobId);
    expect([since, deadline]).to.deep.equal([postedAt, postedAt + 60n]);
  });
});
