import { expect } from "chai";
import { ethers, fieldsOf, loadFixture, time } from "./support/chain.ts";
import { emptyMarket, smallMarket } from "./support/fixtures.ts";
import {
  DURATION,
  deployMarket,
  escrowDefaults,
  JobStatus,
  MAX_UINT96,
  MODEL,
  MODEL_KEY,
  type MarketParameters,
  PAYMENT,
  PRICE,
  Refusal,
} from "./support/market.ts";

const MIN_DURATION = Number(escrowDefaults.minDuration);
const MAX_DURATION = Number(escrowDefaults.maxDuration);

async function fourProviders() {
  const market = await deployMarket();
  const providers = [];
  for (let count = 0; count < 4; count++) providers.push(await market.provider({ cap: 1n }));
  const client = await market.client();
  return { market, providers, client };
}

describe("posting a job", () => {
  it("locks the payment, takes a slot, snapshots the price and says so", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const free = await market.free(client);
    const terms = await market.terms({ unsignedLimit: 77n });
    const jobId = await market.escrow.jobIdOf(client, terms.nonce);
    const call = market.escrow.connect(client).postJob(provider.address, terms);
    await expect(call)
      .to.emit(market.escrow, "JobPosted")
      .withArgs(jobId, client, provider.address, 1, PAYMENT, 77n, terms.deadline)
      .and.to.emit(market.registry, "SlotsChanged")
      .withArgs(provider.address, 1, 0);
    expect(fieldsOf(await market.escrow.jobOf(jobId))).to.deep.equal({
      jobId,
      status: JobStatus.Open,
      client: client.address,
      provider: provider.address,
      modelKey: MODEL_KEY,
      offeringId: 1n,
      maxPayment: PAYMENT,
      unsignedLimit: 77n,
      inputPrice: PRICE.input,
      outputPrice: PRICE.output,
      since: BigInt(await time.latest()),
      deadline: terms.deadline,
    });
    expect(await market.escrow.accountOf(client)).to.deep.equal([free - PAYMENT, PAYMENT]);
    expect(await market.openJobs(provider)).to.equal(1);
  });

  it("moves no tokens", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const terms = await market.terms();
    await expect(market.escrow.connect(client).postJob(provider.address, terms)).not.to.emit(market.token, "Transfer");
  });

  it("answers with the job id, which is a hash of chain, escrow, client and nonce", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const terms = await market.terms();
    const expected = ethers.keccak256(
      ethers.AbiCoder.defaultAbiCoder().encode(
        ["uint256", "address", "address", "uint256"],
        [31_337n, await market.escrow.getAddress(), client.address, terms.nonce],
      ),
    );
    expect(await market.escrow.jobIdOf(client, terms.nonce)).to.equal(expected);
    expect(await market.escrow.connect(client).postJob.staticCall(provider.address, terms)).to.equal(expected);
  });

  it("refuses the same nonce twice, while the job is open and after its end, and locks nothing", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const job = await market.post(client, provider);
    const escrow = market.escrow.connect(client);
    await expect(escrow.postJob(provider.address, job.terms))
      .to.be.revertedWithCustomError(escrow, "JobAlreadyPosted")
      .withArgs(job.jobId);
    await market.complete(job);
    await expect(escrow.postJob(provider.address, job.terms))
      .to.be.revertedWithCustomError(escrow, "JobAlreadyPosted")
      .withArgs(job.jobId);
    await expect(escrow.postJobAny([provider.address], job.terms))
      .to.be.revertedWithCustomError(escrow, "JobAlreadyPosted")
      .withArgs(job.jobId);
    expect(await market.locked(client)).to.equal(0);
  });

  it("gives two clients with one nonce two jobs", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const other = await market.client();
    const terms = await market.terms();
    await market.escrow.connect(client).postJob(provider.address, terms);
    await market.escrow.connect(other).postJob(provider.address, terms);
    expect(await market.openJobs(provider)).to.equal(2);
  });

  it("refuses a payment below the minimum, zero included", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    for (const maxPayment of [0n, escrowDefaults.minPayment - 1n]) {
      await expect(market.post(client, provider, { maxPayment }))
        .to.be.revertedWithCustomError(market.escrow, "PaymentBelowMinimum")
        .withArgs(maxPayment, escrowDefaults.minPayment);
    }
    await market.post(client, provider, { maxPayment: escrowDefaults.minPayment });
  });

  it("refuses an unsigned limit above the payment, and takes one equal to it", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await expect(market.post(client, provider, { unsignedLimit: PAYMENT + 1n }))
      .to.be.revertedWithCustomError(market.escrow, "UnsignedLimitAbovePayment")
      .withArgs(PAYMENT + 1n, PAYMENT);
    await market.post(client, provider, { unsignedLimit: PAYMENT });
    await market.post(client, provider, { unsignedLimit: 0n });
  });

  it("takes a deadline at its two bounds, and none outside", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const escrow = market.escrow.connect(client);
    let now = await time.latest();
    for (const duration of [MIN_DURATION, MAX_DURATION]) {
      now += 10;
      await time.setNextBlockTimestamp(now);
      await escrow.postJob(provider.address, await market.terms({ deadline: BigInt(now + duration) }));
    }
    for (const duration of [MIN_DURATION - 1, MAX_DURATION + 1, 0, -1]) {
      now += 10;
      await time.setNextBlockTimestamp(now);
      await expect(escrow.postJob(provider.address, await market.terms({ deadline: BigInt(now + duration) })))
        .to.be.revertedWithCustomError(escrow, "DeadlineOutOfBounds")
        .withArgs(now + duration, now + MIN_DURATION, now + MAX_DURATION);
    }
  });

  it("refuses what the client has not got, to the last unit", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const client = await market.client(PAYMENT - 1n);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(client, PAYMENT - 1n, PAYMENT);
    await market.escrow.connect(client).deposit(1n);
    await market.post(client, provider);
    await expect(market.post(client, provider, { maxPayment: 1_000n }))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(client, 0, 1_000n);
  });

  it("refuses a provider that nobody knows", async () => {
    const { market, client, stranger } = await loadFixture(smallMarket);
    for (const provider of [stranger.address, ethers.ZeroAddress, await market.escrow.getAddress()]) {
      await expect(market.escrow.connect(client).postJob(provider, await market.terms()))
        .to.be.revertedWithCustomError(market.registry, "ProviderNotRegistered")
        .withArgs(provider);
    }
  });

  it("refuses an operator's address: a provider is its owner", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    await expect(market.escrow.connect(client).postJob(provider.operator, await market.terms()))
      .to.be.revertedWithCustomError(market.registry, "ProviderNotRegistered")
      .withArgs(provider.operator);
  });

  it("refuses a model that is not offered", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const modelKey = ethers.id("nobody/has-this");
    await expect(market.post(client, provider, { modelKey }))
      .to.be.revertedWithCustomError(market.registry, "OfferingNotFound")
      .withArgs(provider.address, modelKey);
  });

  it("refuses either price above what the client accepts, and takes the equal one", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    for (const limits of [
      { maxInputPrice: PRICE.input - 1n, maxOutputPrice: MAX_UINT96 },
      { maxInputPrice: MAX_UINT96, maxOutputPrice: PRICE.output - 1n },
    ]) {
      await expect(market.post(client, provider, limits))
        .to.be.revertedWithCustomError(market.registry, "PriceAboveLimit")
        .withArgs(provider.address, PRICE.input, PRICE.output, limits.maxInputPrice, limits.maxOutputPrice);
    }
    await market.post(client, provider, { maxInputPrice: PRICE.input, maxOutputPrice: PRICE.output });
  });

  it("a failed post changes nothing", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const before = await market.escrow.accountOf(client);
    await market.registry.connect(provider.owner).deactivate();
    await expect(market.post(client, provider)).to.be.revertedWithCustomError(market.registry, "ProviderInactive");
    expect(await market.escrow.accountOf(client)).to.deep.equal(before);
    expect(await market.openJobs(provider)).to.equal(0);
  });
});

describe("posting to the first of several candidates that can", () => {
  it("takes the first one when it is free", async () => {
    const { market, providers, client } = await loadFixture(fourProviders);
    const terms = await market.terms();
    const candidates = providers.map(({ address }) => address);
    const [first] = candidates;
    expect(await market.escrow.connect(client).postJobAny.staticCall(candidates, terms)).to.deep.equal([
      await market.escrow.jobIdOf(client, terms.nonce),
      first,
    ]);
    await expect(market.escrow.connect(client).postJobAny(candidates, terms))
      .to.emit(market.escrow, "JobPosted")
      .withArgs(
        await market.escrow.jobIdOf(client, terms.nonce),
        client,
        first,
        1,
        PAYMENT,
        PAYMENT / 2n,
        terms.deadline,
      );
  });

  it("passes over everyone who cannot, for whatever reason, and charges once", async () => {
    const { market, providers, client } = await loadFixture(fourProviders);
    const [full, away, dear, good] = providers;
    if (full === undefined || away === undefined || dear === undefined || good === undefined) throw new Error("four");
    await market.post(client, full);
    await market.registry.connect(away.owner).deactivate();
    await market.registry.connect(dear.operator).setOffering(MODEL, PRICE.input + 1n, PRICE.output, 1n);
    const candidates = [ethers.ZeroAddress, full.address, away.address, dear.address, good.address];
    const terms = await market.terms();
    await expect(market.escrow.connect(client).postJobAny(candidates, terms))
      .to.emit(market.registry, "SlotsChanged")
      .withArgs(good.address, 1, 1);
    const job = await market.escrow.jobOf(await market.escrow.jobIdOf(client, terms.nonce));
    expect(job.provider).to.equal(good.address);
    expect(await market.locked(client)).to.equal(2n * PAYMENT);
    for (const other of [away, dear]) expect(await market.openJobs(other)).to.equal(0);
  });

  it("reverts with one reason per candidate, in order, when none can, and moves no money", async () => {
    const { market, providers, client } = await loadFixture(fourProviders);
    const [full, away, dear, poor] = providers;
    if (full === undefined || away === undefined || dear === undefined || poor === undefined) throw new Error("four");
    const stale = await market.provider();
    const other = await market.provider({ models: ["another/model"] });
    await time.increase(601);
    for (const { operator } of [full, away, dear, poor, other]) await market.registry.connect(operator).heartbeat();
    await market.post(client, full);
    await market.registry.connect(away.owner).deactivate();
    await market.registry.connect(dear.operator).setOffering(MODEL, PRICE.input, PRICE.output + 1n, 1n);
    await market.registry.connect(poor.owner).startUnbonding(98n * PAYMENT);
    const candidates = [
      await market.token.getAddress(),
      away.address,
      stale.address,
      other.address,
      dear.address,
      full.address,
      poor.address,
    ];
    const terms = await market.terms({ maxPayment: 3n * PAYMENT });
    const before = await market.escrow.accountOf(client);
    await expect(market.escrow.connect(client).postJobAny(candidates, terms))
      .to.be.revertedWithCustomError(market.escrow, "NoProviderAvailable")
      .withArgs([
        Refusal.UnknownProvider,
        Refusal.Inactive,
        Refusal.Stale,
        Refusal.NoOffering,
        Refusal.PriceAboveLimit,
        Refusal.AtCapacity,
        Refusal.InsufficientStake,
      ]);
    expect(await market.escrow.accountOf(client)).to.deep.equal(before);
  });

  it("takes 1 to 8 candidates", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const escrow = market.escrow.connect(client);
    const terms = await market.terms();
    await expect(escrow.postJobAny([], terms)).to.be.revertedWithCustomError(escrow, "NoCandidates");
    const nine = Array.from({ length: 9 }, () => provider.address);
    await expect(escrow.postJobAny(nine, terms))
      .to.be.revertedWithCustomError(escrow, "TooManyCandidates")
      .withArgs(9, 8);
    await escrow.postJobAny(nine.slice(1), terms);
  });

  it("takes one slot of a candidate that is named twice", async () => {
    const { market, providers, client } = await loadFixture(fourProviders);
    const [first] = providers;
    if (first === undefined) throw new Error("four");
    await market.escrow.connect(client).postJobAny([first.address, first.address], await market.terms());
    expect(await market.openJobs(first)).to.equal(1);
    await expect(market.escrow.connect(client).postJobAny([first.address, first.address], await market.terms()))
      .to.be.revertedWithCustomError(market.escrow, "NoProviderAvailable")
      .withArgs([Refusal.AtCapacity, Refusal.AtCapacity]);
  });

  it("checks the terms as a single post does", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const escrow = market.escrow.connect(client);
    const post = async (changes: Parameters<typeof market.terms>[0]) =>
      escrow.postJobAny([provider.address], await market.terms(changes));
    await expect(post({ maxPayment: 1n })).to.be.revertedWithCustomError(escrow, "PaymentBelowMinimum");
    await expect(post({ unsignedLimit: PAYMENT + 1n })).to.be.revertedWithCustomError(
      escrow,
      "UnsignedLimitAbovePayment",
    );
    await expect(post({ duration: 1 })).to.be.revertedWithCustomError(escrow, "DeadlineOutOfBounds");
    await expect(post({ duration: MAX_DURATION + DURATION })).to.be.revertedWithCustomError(
      escrow,
      "DeadlineOutOfBounds",
    );
    await expect(post({ maxPayment: 10n ** 15n })).to.be.revertedWithCustomError(escrow, "InsufficientBalance");
  });
});

describe("deploying an escrow", () => {
  const refusals: readonly (readonly [string, string, MarketParameters])[] = [
    ["a minimum payment of nothing, with which slots could be blocked for free", "minPayment", { minPayment: 0n }],
    ["jobs that can expire at once", "minDuration", { minDuration: 0n }],
    ["a longest job shorter than the shortest", "maxDuration", { minDuration: 61n, maxDuration: 60n }],
    [
      "a longest job longer than times are kept",
      "maxDuration",
      { maxDuration: 2n ** 24n, unbondingPeriod: 31_536_000n },
    ],
    ["no acknowledgement window", "ackWindow", { ackWindow: 0n }],
    ["an acknowledgement window longer than any job", "ackWindow", { ackWindow: 86_401n }],
    ["no response window", "responseWindow", { responseWindow: 0n }],
    ["a response window longer than any job", "responseWindow", { responseWindow: 86_401n }],
    ["stake that could leave before the longest job ends", "unbondingPeriod", { unbondingPeriod: 86_490n }],
  ];
  for (const [what, parameter, parameters] of refusals) {
    it(`refuses ${what}`, async () => {
      const { market } = await loadFixture(emptyMarket);
      await expect(deployMarket({ parameters }))
        .to.be.revertedWithCustomError(market.escrow, "InvalidParameter")
        .withArgs(ethers.encodeBytes32String(parameter));
    });
  }

  it("takes each parameter at its bounds", async () => {
    const parameters = {
      minPayment: MAX_UINT96,
      minDuration: 1n,
      maxDuration: 1n,
      ackWindow: 1n,
      responseWindow: 1n,
      unbondingPeriod: 4n,
    };
    const { escrow } = await deployMarket({ parameters });
    expect([
      await escrow.minPayment(),
      await escrow.minDuration(),
      await escrow.maxDuration(),
      await escrow.ackWindow(),
      await escrow.responseWindow(),
    ]).to.deep.equal([MAX_UINT96, 1n, 1n, 1n, 1n]);
    await deployMarket({ parameters: { maxDuration: 2n ** 24n - 1n, unbondingPeriod: 31_536_000n } });
  });

  it("refuses a registry without code", async () => {
    const { market } = await loadFixture(emptyMarket);
    const factory = await ethers.getContractFactory("JobEscrow");
    await expect(factory.deploy(market.account().address, market.admin, escrowDefaults))
      .to.be.revertedWithCustomError(factory, "InvalidParameter")
      .withArgs(ethers.encodeBytes32String("registry"));
  });
});
