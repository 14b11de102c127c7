import { expect } from "chai";
import type { ContractTransactionResponse } from "ethers";
import { ethers, fieldsOf, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import {
  DURATION,
  JobStatus,
  MAX_UINT96,
  MODEL,
  PAYMENT,
  RESPONSE_HASH,
  USAGE,
  USAGE_PRICE,
} from "./support/market.ts";

const LIMIT = PAYMENT / 2n;
const MAX_UINT64 = 2n ** 64n - 1n;
/** Costs 6 units at the usual price. */
const SMALL = { inputTokens: 0n, outputTokens: 10n };

describe("completing a job with the client's receipt", () => {
  it("pays the price of the usage, refunds the rest, frees the slot and says so", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const free = await market.free(client);
    const call = market.complete(job);
    await expect(call)
      .to.emit(market.escrow, "JobCompleted")
      .withArgs(job.jobId, provider.address, USAGE_PRICE, USAGE.inputTokens, USAGE.outputTokens, RESPONSE_HASH, true)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 0, 0);
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
    expect(await market.escrow.accountOf(client)).to.deep.equal([free + PAYMENT - USAGE_PRICE, 0n]);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("leaves a job that says Completed, with client and unsigned limit, and nothing else", async () => {
    const { market, client, job } = await loadFixture(openJob);
    await market.complete(job);
    expect(fieldsOf(await market.escrow.jobOf(job.jobId))).to.deep.equal({
      jobId: job.jobId,
      status: JobStatus.Completed,
      client: client.address,
      provider: ethers.ZeroAddress,
      modelKey: ethers.ZeroHash,
      offeringId: 0n,
      maxPayment: 0n,
      unsignedLimit: job.terms.unsignedLimit,
      inputPrice: 0n,
      outputPrice: 0n,
      since: 0n,
      deadline: 0n,
    });
  });

  it("rounds the payment down, against the claimant", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    // Each is a fraction of a unit more than the payment.
    for (const [usage, payment] of [
      [{ inputTokens: 6n, outputTokens: 0n }, 0n],
      [{ inputTokens: 7n, outputTokens: 0n }, 1n],
      [{ inputTokens: 0n, outputTokens: 1n }, 0n],
      [{ inputTokens: 3n, outputTokens: 1n }, 1n],
    ] as const) {
      const job = await market.post(client, provider);
      const before = await market.free(provider.address);
      await market.complete(job, { usage });
      expect((await market.free(provider.address)) - before).to.equal(payment);
    }
  });

  it("never pays more than was locked, whatever the receipt says", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    const usage = { inputTokens: MAX_UINT64, outputTokens: MAX_UINT64 };
    await expect(market.complete(job, { usage }))
      .to.emit(market.escrow, "JobCompleted")
      .withArgs(job.jobId, provider.address, PAYMENT, MAX_UINT64, MAX_UINT64, RESPONSE_HASH, true);
    expect(await market.free(provider.address)).to.equal(PAYMENT);
  });

  it("computes the largest price times the largest usage without overflow", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.connect(provider.operator).setOffering(MODEL, MAX_UINT96, MAX_UINT96, 1n);
    const job = await market.post(client, provider, { maxInputPrice: MAX_UINT96, maxOutputPrice: MAX_UINT96 });
    const usage = { inputTokens: MAX_UINT64, outputTokens: MAX_UINT64 };
    expect(await market.escrow.paymentFor(2, usage)).to.equal((2n * MAX_UINT64 * MAX_UINT96) / 1_000_000n);
    await market.complete(job, { usage });
    expect(await market.free(provider.address)).to.equal(PAYMENT);
  });

  it("pays nothing for no tokens and refunds all", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await market.complete(job, { usage: { inputTokens: 0n, outputTokens: 0n } });
    expect(await market.free(provider.address)).to.equal(0);
    expect(await market.locked(client)).to.equal(0);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("is not bounded by the unsigned limit", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const job = await market.post(client, provider, { unsignedLimit: 0n });
    await market.complete(job);
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });

  it("takes owner and operator, and nobody else, the client included", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    const other = await market.provider();
    for (const account of [client, stranger, market.admin, other.owner, other.operator]) {
      await expect(market.complete(job, { as: account }))
        .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
        .withArgs(job.jobId, account);
    }
    await market.complete(job, { as: provider.owner });
  });

  it("a client cannot settle its own job with a zero receipt", async () => {
    const { market, client, job } = await loadFixture(openJob);
    await expect(market.complete(job, { as: client, usage: { inputTokens: 0n, outputTokens: 0n } }))
      .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
      .withArgs(job.jobId, client);
  });

  it("follows the operator when the owner rotates the key", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    const next = market.account();
    await market.registry.connect(provider.owner).setOperator(next);
    await expect(market.complete(job))
      .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
      .withArgs(job.jobId, provider.operator);
    await market.complete(job, { as: next });
  });

  it("works while the provider is away, without an offering, without enough stake, and after the deadline", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.registry.connect(provider.operator).removeOffering(MODEL);
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.owner).startUnbonding(100n * PAYMENT);
    await time.increase(DURATION + 1);
    await market.complete(job);
    expect(await market.free(provider.address)).to.equal(USAGE_PRICE);
  });
});

describe("what a receipt binds", () => {
  it("refuses a receipt over another usage or another response", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const signature = await market.receipt(client, { jobId: job.jobId, provider: provider.address });
    const escrow = market.escrow.connect(provider.operator);
    for (const [usage, responseHash] of [
      [{ ...USAGE, inputTokens: USAGE.inputTokens + 1n }, RESPONSE_HASH],
      [{ ...USAGE, outputTokens: USAGE.outputTokens + 1n }, RESPONSE_HASH],
      [{ inputTokens: USAGE.outputTokens, outputTokens: USAGE.inputTokens }, RESPONSE_HASH],
      [USAGE, ethers.id("another response")],
    ] as const) {
      await expect(escrow.completeJob(job.jobId, usage, responseHash, signature))
        .to.be.revertedWithCustomError(escrow, "InvalidClientSignature")
        .withArgs(job.jobId);
    }
    await escrow.completeJob(job.jobId, USAGE, RESPONSE_HASH, signature);
  });

  it("refuses a receipt signed by anyone but the job's client", async () => {
    const { market, provider, stranger, job } = await loadFixture(openJob);
    for (const signer of [stranger, provider.owner, provider.operator, market.admin]) {
      const signature = await market.receipt(signer, { jobId: job.jobId, provider: provider.address });
      await expect(market.complete(job, { signature }))
        .to.be.revertedWithCustomError(market.escrow, "InvalidClientSignature")
        .withArgs(job.jobId);
    }
  });

  it("the types that the protocol signs are the ones that the escrow checks", async () => {
    const { market } = await loadFixture(smallMarket);
    expect(await market.escrow.RECEIPT_TYPEHASH()).to.equal(
      ethers.id("Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)"),
    );
    expect(await market.escrow.ACKNOWLEDGEMENT_TYPEHASH()).to.equal(
      ethers.id("Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)"),
    );
    const domain = await market.escrow.eip712Domain();
    expect([domain.name, domain.version, domain.chainId, domain.verifyingContract]).to.deep.equal([
      market.domain.name,
      market.domain.version,
      31_337n,
      market.domain.verifyingContract,
    ]);
    expect(await market.escrow.version()).to.equal("1");
  });
});

describe("completing a job without a receipt", () => {
  it("pays the price while it is within the unsigned limit", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await expect(market.complete(job, { signature: "0x" }))
      .to.emit(market.escrow, "JobCompleted")
      .withArgs(job.jobId, provider.address, USAGE_PRICE, USAGE.inputTokens, USAGE.outputTokens, RESPONSE_HASH, false);
  });

  it("pays the unsigned limit at most", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const free = await market.free(client);
    const usage = { inputTokens: MAX_UINT64, outputTokens: MAX_UINT64 };
    await market.complete(job, { signature: "0x", usage });
    expect(await market.free(provider.address)).to.equal(LIMIT);
    expect(await market.free(client)).to.equal(free + PAYMENT - LIMIT);
  });

  it("pays nothing where the client set the limit to nothing, and still ends the job", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const job = await market.post(client, provider, { unsignedLimit: 0n });
    await market.complete(job, { signature: "0x" });
    expect(await market.free(provider.address)).to.equal(0);
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Completed);
  });

  it("takes nobody but owner and operator", async () => {
    const { market, client, stranger, job } = await loadFixture(openJob);
    for (const account of [client, stranger]) {
      await expect(market.complete(job, { signature: "0x", as: account }))
        .to.be.revertedWithCustomError(market.escrow, "NotJobProvider")
        .withArgs(job.jobId, account);
    }
  });
});

describe("completing several jobs at once", () => {
  it("pays each as a single completion would, and frees all slots", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const other = await market.client();
    const jobs = [
      await market.post(client, provider),
      await market.post(other, provider),
      await market.post(client, provider),
    ];
    const items = [];
    for (const { jobId, client: signer } of jobs) {
      const clientSignature = await market.receipt(signer, { jobId, provider: provider.address });
      items.push({ jobId, usage: USAGE, responseHash: RESPONSE_HASH, clientSignature });
    }
    const call = market.escrow.connect(provider.operator).completeJobs(items);
    for (const { jobId } of jobs) {
      await expect(call)
        .to.emit(market.escrow, "JobCompleted")
        .withArgs(jobId, provider.address, USAGE_PRICE, USAGE.inputTokens, USAGE.outputTokens, RESPONSE_HASH, true);
    }
    await expect(call).to.emit(market.registry, "SlotsChanged").withArgs(provider.address, 0, 0);
    expect(await market.free(provider.address)).to.equal(3n * USAGE_PRICE);
    expect(await market.locked(client)).to.equal(0);
    expect(await market.locked(other)).to.equal(0);
  });

  it("one bad item does not revert the others, and says the error that it alone would have reverted with", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const other = await market.provider();
    const [good, ended, foreign, unsigned] = [
      await market.post(client, provider),
      await market.post(client, provider),
      await market.post(client, other),
      await market.post(client, provider),
    ];
    await market.complete(ended);
    const item = (jobId: string, clientSignature: string) => ({
      jobId,
      usage: SMALL,
      responseHash: RESPONSE_HASH,
      clientSignature,
    });
    const unknown = ethers.id("no job");
    const call = market.escrow
      .connect(provider.operator)
      .completeJobs([
        item(unknown, "0x"),
        item(ended.jobId, "0x"),
        item(foreign.jobId, "0x"),
        item(unsigned.jobId, "0x1234"),
        item(good.jobId, "0x"),
        item(good.jobId, "0x"),
      ]);
    const encode = (
      name: "JobNotFound" | "JobStatusMismatch" | "NotJobProvider" | "InvalidClientSignature",
      args: readonly unknown[],
    ) => market.escrow.interface.encodeErrorResult(name, args);
    for (const [jobId, reason] of [
      [unknown, encode("JobNotFound", [unknown])],
      [ended.jobId, encode("JobStatusMismatch", [ended.jobId, JobStatus.Completed])],
      [foreign.jobId, encode("NotJobProvider", [foreign.jobId, provider.operator.address])],
      [unsigned.jobId, encode("InvalidClientSignature", [unsigned.jobId])],
      [good.jobId, encode("JobStatusMismatch", [good.jobId, JobStatus.Completed])],
    ] as const) {
      await expect(call).to.emit(market.escrow, "CompletionSkipped").withArgs(jobId, reason);
    }
    await expect(call)
      .to.emit(market.escrow, "JobCompleted")
      .withArgs(good.jobId, provider.address, 6n, 0n, 10n, RESPONSE_HASH, false);
    expect(await market.openJobs(provider)).to.equal(1);
    expect(await market.openJobs(other)).to.equal(1);
    expect(await market.statusOf(unsigned.jobId)).to.equal(JobStatus.Open);
  });

  it("takes jobs of several offerings and prices in any order, and frees each slot once", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const cheap = await market.post(client, provider);
    await market.registry.connect(provider.operator).setOffering(MODEL, 0n, 1_000_000n, 1n);
    const changes = { maxOutputPrice: 1_000_000n };
    const [dear, dearer] = [await market.post(client, provider, changes), await market.post(client, provider, changes)];
    const cheapAgain = await (async () => {
      await market.registry.connect(provider.operator).setOffering(MODEL, 0n, 600_000n, 1n);
      return market.post(client, provider);
    })();
    const items = [dear, cheap, dearer, cheapAgain].map(({ jobId }) => ({
      jobId,
      usage: SMALL,
      responseHash: RESPONSE_HASH,
      clientSignature: "0x",
    }));
    await market.escrow.connect(provider.operator).completeJobs(items);
    expect(await market.free(provider.address)).to.equal(6n + 10n + 10n + 6n);
    const view = await market.registry.providerOf(provider.address);
    expect([view.openJobs, view.exposure]).to.deep.equal([0n, 0n]);
  });

  it("tells the slots once, after the last, also when neighbours have other offerings; and not at all when none was completed", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const provider = await market.provider({ models: [MODEL, "another"] });
    const jobs = [
      await market.post(client, provider),
      await market.post(client, provider, { modelKey: ethers.id("another") }),
      await market.post(client, provider),
    ];
    const items = jobs.map(({ jobId }) => ({
      jobId,
      usage: SMALL,
      responseHash: RESPONSE_HASH,
      clientSignature: "0x",
    }));
    const escrow = market.escrow.connect(provider.operator);
    const changes = async (sent: ContractTransactionResponse) =>
      await market.registry.queryFilter(market.registry.filters.SlotsChanged(), sent.blockNumber ?? undefined);
    const told = await changes(await escrow.completeJobs(items));
    expect(told.map(({ args }) => [args.provider, args.openJobs])).to.deep.equal([[provider.address, 0n]]);
    expect(await changes(await escrow.completeJobs(items))).to.deep.equal([]);
  });

  it("takes none, 50, and not 51", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const escrow = market.escrow.connect(provider.operator);
    await escrow.completeJobs([]);
    const items = [];
    for (let count = 0; count < 50; count++) {
      const { jobId } = await market.post(client, provider, { maxPayment: 10_000n });
      items.push({ jobId, usage: SMALL, responseHash: RESPONSE_HASH, clientSignature: "0x" });
    }
    await expect(escrow.completeJobs([...items, ...items.slice(0, 1)]))
      .to.be.revertedWithCustomError(escrow, "TooManyItems")
      .withArgs(51, 50);
    await escrow.completeJobs(items);
    expect(await market.free(provider.address)).to.equal(50n * 6n);
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("is nothing to a stranger: every item is skipped", async () => {
    const { market, client, stranger, job } = await loadFixture(openJob);
    for (const account of [client, stranger]) {
      const call = market.escrow
        .connect(account)
        .completeJobs([{ jobId: job.jobId, usage: SMALL, responseHash: RESPONSE_HASH, clientSignature: "0x" }]);
      await expect(call).to.emit(market.escrow, "CompletionSkipped");
      await expect(call).not.to.emit(market.escrow, "JobCompleted");
    }
    expect(await market.statusOf(job.jobId)).to.equal(JobStatus.Open);
  });
});
