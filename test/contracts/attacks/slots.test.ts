import { expect } from "chai";
import { attack, attempt, parties } from "../support/attack.ts";
import { inOneBlock, loadFixture, time } from "../support/chain.ts";
import { smallMarket } from "../support/fixtures.ts";
import { DURATION, escrowDefaults, JobStatus, MAX_UINT96, MODEL, PAYMENT, PRICE } from "../support/market.ts";

describe("attacks on a provider's slots", () => {
  attack("taking the last slot twice in one block", ["has no cap"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const other = await market.client();
    const terms = [await market.terms(), await market.terms()] as const;
    const gasLimit = 1_000_000;
    await inOneBlock(async () => [
      await market.escrow.connect(client).postJob(provider.address, terms[0], { gasLimit }),
      await market.escrow.connect(other).postJob(provider.address, terms[1], { gasLimit }),
    ]);
    return (await market.openJobs(provider)) > 1n;
  });

  attack("posting on a cap that was lowered between quote and post", ["has no cap"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(3);
    await market.post(client, provider);
    const terms = await market.terms();
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(1);
    await attempt(market.escrow.connect(client).postJob(provider.address, terms));
    return (await market.openJobs(provider)) > 1n;
  });

  attack("having a client pay a price that was raised between quote and post", ["takes any price"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const terms = await market.terms();
    await market.registry.connect(provider.operator).setOffering(MODEL, 10n * PRICE.input, PRICE.output, 1n);
    await attempt(market.escrow.connect(client).postJob(provider.address, terms));
    return (await market.locked(client)) > 0n;
  });

  attack(
    "leaving between quote and post and keeping the client's money for a while",
    ["gives jobs to a provider that left"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const terms = await market.terms();
      await market.registry.connect(provider.owner).deactivate();
      await attempt(market.escrow.connect(client).postJob(provider.address, terms));
      return (await market.locked(client)) > 0n;
    },
  );

  attack(
    "holding a client's money without a sign of life",
    ["gives jobs to a provider that is silent"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      await time.increase(601);
      await attempt(market.post(client, provider));
      return (await market.locked(client)) > 0n;
    },
  );

  attack("taking a slot for a payment of nothing", ["takes any payment"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await attempt(market.post(client, provider, { maxPayment: 0n, unsignedLimit: 0n }));
    return (await market.openJobs(provider)) > 0n;
  });

  attack("taking a slot for a payment of one unit", ["takes any payment"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await attempt(market.post(client, provider, { maxPayment: 1n, unsignedLimit: 0n }));
    return (await market.openJobs(provider)) > 0n;
  });

  attack(
    "posting the greatest payment there is, which no stake covers",
    ["gives jobs that no stake covers"],
    async (stage) => {
      const { market, provider } = await parties(stage);
      const rich = await market.holder(MAX_UINT96);
      await market.escrow.connect(rich).deposit(MAX_UINT96);
      await attempt(market.post(rich, provider, { maxPayment: MAX_UINT96, unsignedLimit: MAX_UINT96 }));
      return (await market.locked(rich)) === MAX_UINT96;
    },
  );

  attack("holding a slot for months with one post", ["takes any deadline"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await attempt(market.post(client, provider, { duration: 100 * 86_400 }));
    return (await market.openJobs(provider)) > 0n;
  });

  attack("losing a slot for ever by posting one nonce twice", ["takes a nonce again"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    const job = await market.post(client, provider);
    await attempt(market.escrow.connect(client).postJob(provider.address, job.terms));
    await market.escrow.connect(provider.operator).declineJob(job.jobId);
    return (await market.openJobs(provider)) > 0n;
  });

  attack("holding a slot by never fetching the answer", ["lets a provider decline only late"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    await attempt(market.escrow.connect(provider.operator).declineJob(job.jobId));
    return (await market.openJobs(provider)) > 0n;
  });

  attack(
    "freeing a competitor's slot, and its client, by declining in its name",
    ["lets anybody decline"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const competitor = await market.provider();
      const job = await market.post(client, provider);
      await attempt(market.escrow.connect(competitor.operator).declineJob(job.jobId));
      return (await market.statusOf(job.jobId)) === JobStatus.Declined;
    },
  );
});

describe("a last slot that was sniped", () => {
  it("costs the one that came too late nothing but gas, and its next candidate has the job in the same call", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const [first, second] = [await market.provider({ cap: 1n }), await market.provider({ cap: 1n })];
    const sniper = await market.client();
    const terms = await market.terms();
    await market.post(sniper, first);
    await market.escrow.connect(client).postJobAny([first.address, second.address], terms);
    expect(await market.openJobs(first)).to.equal(1);
    expect(await market.openJobs(second)).to.equal(1);
    expect(await market.locked(client)).to.equal(PAYMENT);
  });
});

describe("blocking a provider's slots", () => {
  it("costs the attacker more gas than the answer costs the provider, and holds a slot only until the provider declines", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(1);
    // Warm both sides, as in the steady state of an attack.
    await market.escrow.connect(provider.operator).declineJob((await market.post(client, provider)).jobId);
    const terms = await market.terms({ maxPayment: 1_000n, unsignedLimit: 0n });
    const post = await (await market.escrow.connect(client).postJob(provider.address, terms)).wait();
    const jobId = await market.escrow.jobIdOf(client, terms.nonce);
    const decline = await (await market.escrow.connect(provider.operator).declineJob(jobId)).wait();
    expect(Number(post?.gasUsed)).to.be.greaterThan(1.5 * Number(decline?.gasUsed));
    expect(await market.openJobs(provider)).to.equal(0);
  });

  it("needs capital of the smallest payment for every slot held at a time", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const least = escrowDefaults.minPayment;
    const attacker = await market.client(3n * least);
    const change = { maxPayment: least, unsignedLimit: 0n };
    for (let slot = 0; slot < 3; slot += 1) await market.post(attacker, provider, change);
    await expect(market.post(attacker, provider, change)).to.be.revertedWithCustomError(
      market.escrow,
      "InsufficientBalance",
    );
    await time.increase(DURATION);
    expect(await market.openJobs(provider)).to.equal(3);
  });

  it("costs the unsigned limit each time where the client leaves one: the provider claims it for a job that nobody fetches", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const job = await market.post(client, provider, { maxPayment: 1_000n, unsignedLimit: 1_000n });
    await market.complete(job, { signature: "0x", usage: { inputTokens: 10n ** 9n, outputTokens: 0n } });
    expect(await market.free(provider.address)).to.equal(1_000n);
  });
});

describe("self-dealing", () => {
  it("moves money in a circle and costs gas: a provider that is its own client ends where it began", async () => {
    const { market } = await loadFixture(smallMarket);
    const provider = await market.provider();
    await market.escrow.connect(provider.owner).deposit(PAYMENT);
    const job = await market.post(provider.owner, provider);
    const gas = (await (await market.complete(job)).wait())?.gasUsed ?? 0n;
    expect(await market.escrow.accountOf(provider.owner)).to.deep.equal([PAYMENT, 0n]);
    expect(gas).to.be.greaterThan(50_000n);
  });
});
