import { expect } from "chai";
import { ethers, fieldsOf, loadFixture, time } from "./support/chain.ts";
import { emptyMarket, openJob, smallMarket } from "./support/fixtures.ts";
import {
  deployMarket,
  ENDPOINT,
  type MarketParameters,
  MODEL_KEY,
  PAYMENT,
  registryDefaults,
} from "./support/market.ts";

const STAKE = registryDefaults.minStake;

async function marketWithoutStake() {
  return { market: await deployMarket({ parameters: { minStake: 0n, collateralBps: 0n } }) };
}

describe("registering a provider", () => {
  it("stores what the caller says and announces it, with the cap unset and generation 1", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [owner, operator, payout] = [await market.holder(), market.account(), market.account()];
    const call = market.registry.connect(owner).register(operator, payout, ENDPOINT, STAKE);
    await expect(call)
      .to.emit(market.registry, "ProviderRegistered")
      .withArgs(owner, operator, payout, 1, 0, ENDPOINT)
      .and.to.emit(market.registry, "Staked")
      .withArgs(owner, STAKE, STAKE)
      .and.not.to.emit(market.registry, "OperatorChanged");
    expect(fieldsOf(await market.registry.providerOf(owner))).to.deep.equal({
      owner: owner.address,
      operator: operator.address,
      payout: payout.address,
      active: true,
      lastSeen: BigInt(await time.latest()),
      generation: 1n,
      maxConcurrentJobs: 0n,
      openJobs: 0n,
      exposure: 0n,
      stake: STAKE,
      unbonding: 0n,
      unbondingAt: 0n,
      offeringCount: 0n,
      endpoint: ENDPOINT,
    });
    expect(await market.registry.providerOfOperator(operator)).to.equal(owner.address);
    expect(await market.registry.providerCount()).to.equal(1);
  });

  it("moves exactly the stake from the caller to the registry", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [owner, operator] = [await market.holder(), market.account()];
    await expect(market.registry.connect(owner).register(operator, owner, ENDPOINT, STAKE)).to.changeTokenBalances(
      ethers,
      market.token,
      [owner, market.registry],
      [-STAKE, STAKE],
    );
  });

  it("takes no stake and says nothing of stake where none is asked for", async () => {
    const { market } = await loadFixture(marketWithoutStake);
    const owner = market.account();
    await expect(market.registry.connect(owner).register(owner, owner, ENDPOINT, 0)).not.to.emit(
      market.registry,
      "Staked",
    );
    expect((await market.registry.providerOf(owner)).stake).to.equal(0);
  });

  it("lets an owner be its own operator", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder();
    await market.registry.connect(owner).register(owner, owner, ENDPOINT, STAKE);
    expect(await market.registry.providerOfOperator(owner)).to.equal(owner.address);
    expect(await market.registry.isProviderAccount(owner, owner)).to.equal(true);
  });

  it("refuses a second registration of the same owner", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await expect(market.registry.connect(provider.owner).register(market.account(), provider.payout, ENDPOINT, STAKE))
      .to.be.revertedWithCustomError(market.registry, "ProviderAlreadyRegistered")
      .withArgs(provider.owner);
  });

  it("takes an operator out of its office, so that an account acts for one provider and nobody's naming it keeps it from registering", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const { owner, operator } = provider;
    await market.token.mint(operator, STAKE);
    await market.token.connect(operator).approve(market.registry, STAKE);
    const registering = market.registry.connect(operator).register(operator, provider.payout, ENDPOINT, STAKE);
    await expect(registering).to.emit(market.registry, "OperatorChanged").withArgs(owner, operator, owner);
    await expect(registering).to.emit(market.registry, "ProviderRegistered");
    expect((await market.registry.providerOf(owner)).operator).to.equal(owner.address);
    expect(await market.registry.isProviderAccount(owner, operator)).to.equal(false);
    expect(await market.registry.isProviderAccount(operator, operator)).to.equal(true);
  });

  it("waits for a first market, so that nobody can register ahead of it and put it under notice", async () => {
    const token = await ethers.deployContract("TestToken", [6]);
    const [admin, owner] = await ethers.getSigners();
    if (admin === undefined || owner === undefined) throw new Error("the chain has no accounts");
    const registry = await ethers.deployContract("ProviderRegistry", [
      token,
      admin,
      { ...registryDefaults, minStake: 0n },
    ]);
    await expect(registry.connect(owner).register(owner, owner, ENDPOINT, 0n)).to.be.revertedWithCustomError(
      registry,
      "NoMarket",
    );
    await registry.setMarket(token, true);
    await registry.setMarket(token, false);
    await registry.connect(owner).register(owner, owner, ENDPOINT, 0n);
  });

  it("refuses an operator that another provider uses", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    await expect(market.registry.connect(stranger).register(provider.operator, stranger, ENDPOINT, STAKE))
      .to.be.revertedWithCustomError(market.registry, "OperatorTaken")
      .withArgs(provider.operator, provider.owner);
  });

  it("refuses the owner of another provider as operator", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    await expect(market.registry.connect(stranger).register(provider.owner, stranger, ENDPOINT, STAKE))
      .to.be.revertedWithCustomError(market.registry, "OperatorTaken")
      .withArgs(provider.owner, provider.owner);
  });

  it("refuses a zero operator", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder();
    await expect(market.registry.connect(owner).register(ethers.ZeroAddress, owner, ENDPOINT, STAKE))
      .to.be.revertedWithCustomError(market.registry, "InvalidOperator")
      .withArgs(ethers.ZeroAddress);
  });

  it("refuses a payout address from which nobody could take the money out", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder();
    for (const payout of [ethers.ZeroAddress, ...(await market.deadEnds())]) {
      await expect(market.registry.connect(owner).register(owner, payout, ENDPOINT, STAKE))
        .to.be.revertedWithCustomError(market.registry, "InvalidPayout")
        .withArgs(payout);
    }
  });

  it("bounds the endpoint at 1 and 256 bytes", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder();
    const registry = market.registry.connect(owner);
    for (const length of [0, 257]) {
      await expect(registry.register(owner, owner, "x".repeat(length), STAKE))
        .to.be.revertedWithCustomError(registry, "InvalidEndpoint")
        .withArgs(length, 256);
    }
    await registry.register(owner, owner, "x".repeat(256), STAKE);
    expect((await registry.providerOf(owner)).endpoint).to.have.lengthOf(256);
  });

  it("refuses a stake below the minimum and takes none of it", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder();
    await expect(market.registry.connect(owner).register(owner, owner, ENDPOINT, STAKE - 1n))
      .to.be.revertedWithCustomError(market.registry, "InsufficientStake")
      .withArgs(owner, STAKE - 1n, STAKE);
    expect(await market.token.balanceOf(market.registry)).to.equal(0);
  });

  it("fails when the caller does not hold the stake", async () => {
    const { market } = await loadFixture(emptyMarket);
    const owner = await market.holder(STAKE - 1n);
    await expect(market.registry.connect(owner).register(owner, owner, ENDPOINT, STAKE))
      .to.be.revertedWithCustomError(market.token, "ERC20InsufficientBalance")
      .withArgs(owner, STAKE - 1n, STAKE);
  });
});

describe("rotating keys, endpoint and payout", () => {
  it("hands the office to the new operator and takes it from the old one at once", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const next = market.account();
    await expect(market.registry.connect(provider.owner).setOperator(next))
      .to.emit(market.registry, "OperatorChanged")
      .withArgs(provider.owner, provider.operator, next);
    expect((await market.registry.providerOf(provider.owner)).operator).to.equal(next.address);
    expect(await market.registry.providerOfOperator(next)).to.equal(provider.address);
    expect(await market.registry.providerOfOperator(provider.operator)).to.equal(ethers.ZeroAddress);
    await market.registry.connect(next).heartbeat();
    await expect(market.registry.connect(provider.operator).heartbeat())
      .to.be.revertedWithCustomError(market.registry, "NotProvider")
      .withArgs(provider.operator);
  });

  it("frees the old operator for another provider", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    await market.registry.connect(provider.owner).setOperator(provider.owner);
    await market.registry.connect(stranger).register(provider.operator, stranger, ENDPOINT, STAKE);
    expect(await market.registry.providerOfOperator(provider.operator)).to.equal(stranger.address);
  });

  it("lets the owner be the operator and appoint another again", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await registry.setOperator(provider.owner);
    expect(await registry.providerOfOperator(provider.owner)).to.equal(provider.address);
    await registry.setOperator(provider.operator);
    expect(await registry.providerOfOperator(provider.operator)).to.equal(provider.address);
    expect(await registry.isProviderAccount(provider.owner, provider.owner)).to.equal(true);
    await registry.heartbeat();
  });

  it("changes nothing but shows life when the operator stays the same", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const call = market.registry.connect(provider.owner).setOperator(provider.operator);
    await expect(call)
      .to.emit(market.registry, "OperatorChanged")
      .withArgs(provider.owner, provider.operator, provider.operator);
    await market.registry.connect(provider.operator).heartbeat();
  });

  it("refuses a zero operator, a taken one and another provider's owner", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const other = await market.provider();
    const registry = market.registry.connect(provider.owner);
    await expect(registry.setOperator(ethers.ZeroAddress))
      .to.be.revertedWithCustomError(registry, "InvalidOperator")
      .withArgs(ethers.ZeroAddress);
    for (const taken of [other.operator, other.owner]) {
      await expect(registry.setOperator(taken))
        .to.be.revertedWithCustomError(registry, "OperatorTaken")
        .withArgs(taken, other.owner);
    }
  });

  it("lets an operator that never agreed give the office back, and become a provider itself", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    await expect(market.registry.connect(provider.operator).resignOperator())
      .to.emit(market.registry, "OperatorChanged")
      .withArgs(provider.owner, provider.operator, provider.owner);
    expect((await market.registry.providerOf(provider.owner)).operator).to.equal(provider.address);
    expect(await market.registry.isProviderAccount(provider.address, provider.operator)).to.equal(false);
    await market.token.mint(provider.operator, STAKE);
    await market.token.connect(provider.operator).approve(market.registry, STAKE);
    await market.registry.connect(provider.operator).register(provider.operator, provider.operator, ENDPOINT, STAKE);
  });

  it("lets nobody resign who is not an appointed operator", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    await market.registry.connect(provider.operator).resignOperator();
    for (const account of [stranger, provider.operator, provider.owner]) {
      await expect(market.registry.connect(account).resignOperator())
        .to.be.revertedWithCustomError(market.registry, "NotProvider")
        .withArgs(account);
    }
  });

  it("changes the endpoint by owner or operator, within its bounds", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    for (const [index, account] of [provider.owner, provider.operator].entries()) {
      const endpoint = `https://new-${index}.example`;
      await expect(market.registry.connect(account).setEndpoint(endpoint))
        .to.emit(market.registry, "EndpointChanged")
        .withArgs(provider.owner, endpoint);
      expect((await market.registry.providerOf(provider.owner)).endpoint).to.equal(endpoint);
    }
    for (const length of [0, 257]) {
      await expect(market.registry.connect(provider.owner).setEndpoint("x".repeat(length)))
        .to.be.revertedWithCustomError(market.registry, "InvalidEndpoint")
        .withArgs(length, 256);
    }
  });

  it("changes the payout address, but not to one that loses the money", async () => {
    const { market, provider, stranger } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await expect(registry.setPayout(stranger)).to.emit(registry, "PayoutChanged").withArgs(provider.owner, stranger);
    expect((await registry.providerOf(provider.owner)).payout).to.equal(stranger.address);
    for (const payout of [ethers.ZeroAddress, ...(await market.deadEnds())]) {
      await expect(registry.setPayout(payout))
        .to.be.revertedWithCustomError(registry, "InvalidPayout")
        .withArgs(payout);
    }
  });
});

describe("leaving and coming back", () => {
  it("stops new jobs and lets open ones go on", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await expect(market.registry.connect(provider.owner).deactivate())
      .to.emit(market.registry, "ProviderDeactivated")
      .withArgs(provider.owner);
    expect((await market.registry.providerOf(provider.owner)).active).to.equal(false);
    await expect(market.post(client, provider))
      .to.be.revertedWithCustomError(market.registry, "ProviderInactive")
      .withArgs(provider.owner);
    await expect(market.complete(job)).to.emit(market.escrow, "JobCompleted");
  });

  it("comes back fresh and with another generation, offerings and cap kept", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await registry.setMaxConcurrentJobs(3);
    await registry.deactivate();
    await time.increase(10_000);
    await expect(registry.reactivate()).to.emit(registry, "ProviderReactivated").withArgs(provider.owner, 2);
    const view = await registry.providerOf(provider.owner);
    expect(view.active).to.equal(true);
    expect(view.generation).to.equal(2);
    expect(view.lastSeen).to.equal(await time.latest());
    expect(view.maxConcurrentJobs).to.equal(3);
    await market.post(client, provider);
  });

  it("refuses to leave twice or to come back while there", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await expect(registry.reactivate())
      .to.be.revertedWithCustomError(registry, "ProviderActive")
      .withArgs(provider.owner);
    await registry.deactivate();
    await expect(registry.deactivate())
      .to.be.revertedWithCustomError(registry, "ProviderInactive")
      .withArgs(provider.owner);
  });

  it("does not let a provider come back on stake that is leaving", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    const registry = market.registry.connect(provider.owner);
    await registry.deactivate();
    await registry.startUnbonding(100n * PAYMENT - STAKE + 1n);
    await expect(registry.reactivate())
      .to.be.revertedWithCustomError(registry, "InsufficientStake")
      .withArgs(provider.owner, STAKE - 1n, STAKE);
  });
});

describe("who may act for a provider", () => {
  const asOwnerOnly = {
    setOperator: async () => [ethers.Wallet.createRandom().address],
    setPayout: async () => [ethers.Wallet.createRandom().address],
    deactivate: async () => [],
    reactivate: async () => [],
    addStake: async () => [1n],
    startUnbonding: async () => [1n],
    withdrawStake: async () => [],
  } as const;
  const asOwnerOrOperator = {
    setEndpoint: async () => ["https://elsewhere.example"],
    setMaxConcurrentJobs: async () => [7n],
    setOffering: async () => ["another/model", 1n, 1n, 4096n],
    removeOffering: async () => ["another/model"],
    heartbeat: async () => [],
  } as const;

  for (const name of Object.keys(asOwnerOnly) as (keyof typeof asOwnerOnly)[]) {
    it(`refuses ${name} of the operator and of strangers`, async () => {
      const { market, provider, stranger, client } = await loadFixture(smallMarket);
      for (const account of [provider.operator, stranger, client, market.admin]) {
        await expect(market.registry.connect(account).getFunction(name)(...(await asOwnerOnly[name]())))
          .to.be.revertedWithCustomError(market.registry, "NotProvider")
          .withArgs(account);
      }
    });
  }

  for (const name of Object.keys(asOwnerOrOperator) as (keyof typeof asOwnerOrOperator)[]) {
    it(`refuses ${name} of strangers and takes it of owner and operator`, async () => {
      const { market, provider, stranger, client } = await loadFixture(smallMarket);
      const args = await asOwnerOrOperator[name]();
      for (const account of [stranger, client, market.admin]) {
        await expect(market.registry.connect(account).getFunction(name)(...args))
          .to.be.revertedWithCustomError(market.registry, "NotProvider")
          .withArgs(account);
      }
      for (const account of [provider.operator, provider.owner]) {
        if (name === "removeOffering") await market.registry.connect(account).setOffering("another/model", 1, 1, 1);
        await market.registry.connect(account).getFunction(name)(...args);
      }
    });
  }
});

describe("deploying a registry", () => {
  const refusals: readonly (readonly [string, string, MarketParameters])[] = [
    ["a minimum stake that no job's money can express", "minStake", { minStake: 2n ** 96n }],
    ["a zero time to live", "timeToLive", { timeToLive: 0n }],
    ["a time to live of more than 32 bits", "timeToLive", { timeToLive: 2n ** 32n }],
    ["stake that is free at once", "unbondingPeriod", { unbondingPeriod: 0n }],
    ["stake that is locked for more than a year", "unbondingPeriod", { unbondingPeriod: 365n * 86_400n + 1n }],
    ["collateral above the payment", "collateralBps", { collateralBps: 10_001n }],
  ];
  for (const [what, parameter, parameters] of refusals) {
    it(`refuses ${what}`, async () => {
      const { market } = await loadFixture(emptyMarket);
      // Without an escrow, which checks the unbonding period too.
      const args = [market.token, market.admin, { ...registryDefaults, ...parameters }];
      await expect(ethers.deployContract("ProviderRegistry", args))
        .to.be.revertedWithCustomError(market.registry, "InvalidParameter")
        .withArgs(ethers.encodeBytes32String(parameter));
    });
  }

  it("takes each parameter at its bounds", async () => {
    const parameters = {
      minStake: 2n ** 96n - 1n,
      timeToLive: 2n ** 32n - 1n,
      unbondingPeriod: 365n * 86_400n,
      collateralBps: 10_000n,
    };
    const { registry } = await deployMarket({ parameters });
    expect(await registry.minStake()).to.equal(parameters.minStake);
    expect(await registry.timeToLive()).to.equal(parameters.timeToLive);
    expect(await registry.unbondingPeriod()).to.equal(parameters.unbondingPeriod);
    expect(await registry.collateralBps()).to.equal(parameters.collateralBps);
  });

  it("refuses a token without code, and an owner that is nobody", async () => {
    const { market } = await loadFixture(emptyMarket);
    const factory = await ethers.getContractFactory("ProviderRegistry");
    await expect(factory.deploy(market.account().address, market.admin, registryDefaults))
      .to.be.revertedWithCustomError(factory, "InvalidParameter")
      .withArgs(ethers.encodeBytes32String("token"));
    await expect(factory.deploy(market.token, ethers.ZeroAddress, registryDefaults))
      .to.be.revertedWithCustomError(factory, "OwnableInvalidOwner")
      .withArgs(ethers.ZeroAddress);
  });

  it("publishes what it was deployed with", async () => {
    const { market } = await loadFixture(emptyMarket);
    expect(await market.registry.token()).to.equal(await market.token.getAddress());
    expect(await market.registry.owner()).to.equal(market.admin.address);
    expect(await market.registry.minStake()).to.equal(registryDefaults.minStake);
    expect(await market.registry.timeToLive()).to.equal(registryDefaults.timeToLive);
    expect(await market.registry.unbondingPeriod()).to.equal(registryDefaults.unbondingPeriod);
    expect(await market.registry.collateralBps()).to.equal(registryDefaults.collateralBps);
    expect(await market.registry.modelProviderCount(MODEL_KEY)).to.equal(0);
  });
});
