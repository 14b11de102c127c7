import { expect } from "chai";
import { Signature, type TypedDataDomain } from "ethers";
import { ethers, loadFixture, time } from "./support/chain.ts";
import { emptyMarket, openJob, smallMarket } from "./support/fixtures.ts";
import { type Account, type Market, PAYMENT, USAGE_PRICE } from "./support/market.ts";

async function permitOf(market: Market, owner: Account, value: bigint, deadline: bigint): Promise<Signature> {
  const domain = await market.token.eip712Domain();
  const fields: TypedDataDomain = {
    name: domain.name,
    version: domain.version,
    chainId: domain.chainId,
    verifyingContract: domain.verifyingContract,
  };
  const types = {
    Permit: [
      { name: "owner", type: "address" },
      { name: "spender", type: "address" },
      { name: "value", type: "uint256" },
      { name: "nonce", type: "uint256" },
      { name: "deadline", type: "uint256" },
    ],
  };
  const message = {
    owner: owner.address,
    spender: await market.escrow.getAddress(),
    value,
    nonce: await market.token.nonces(owner),
    deadline,
  };
  return Signature.from(await owner.signTypedData(fields, types, message));
}

describe("depositing", () => {
  it("credits the caller, moves the tokens and says so", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = await market.holder();
    const call = market.escrow.connect(client).deposit(PAYMENT);
    await expect(call).to.emit(market.escrow, "Deposited").withArgs(client, client, PAYMENT);
    await expect(call).to.changeTokenBalances(ethers, market.token, [client, market.escrow], [-PAYMENT, PAYMENT]);
    expect(await market.escrow.accountOf(client)).to.deep.equal([PAYMENT, 0n]);
  });

  it("adds up, and keeps the balances of others apart", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [first, second] = [await market.client(5n), await market.client(7n)];
    await market.escrow.connect(first).deposit(6n);
    expect(await market.free(first)).to.equal(11n);
    expect(await market.free(second)).to.equal(7n);
  });

  it("credits another account out of the caller's tokens", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [payer, client] = [await market.holder(), market.account()];
    await expect(market.escrow.connect(payer).depositFor(client, 9n))
      .to.emit(market.escrow, "Deposited")
      .withArgs(client, payer, 9n);
    expect(await market.free(client)).to.equal(9n);
    expect(await market.free(payer)).to.equal(0n);
  });

  it("refuses to credit nobody", async () => {
    const { market } = await loadFixture(emptyMarket);
    const payer = await market.holder();
    await expect(market.escrow.connect(payer).depositFor(ethers.ZeroAddress, 9n)).to.be.revertedWithCustomError(
      market.escrow,
      "ZeroAddress",
    );
  });

  it("refuses to credit a contract of the market, which could never withdraw", async () => {
    const { market } = await loadFixture(emptyMarket);
    const payer = await market.holder();
    for (const deadEnd of await market.deadEnds()) {
      await expect(market.escrow.connect(payer).depositFor(deadEnd, 9n))
        .to.be.revertedWithCustomError(market.escrow, "InvalidRecipient")
        .withArgs(deadEnd);
    }
  });

  it("refuses a deposit of nothing", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = await market.holder();
    const escrow = market.escrow.connect(client);
    for (const call of [
      () => escrow.deposit(0),
      () => escrow.depositFor(client, 0),
      () => escrow.depositWithPermit(0, 0, 27, ethers.ZeroHash, ethers.ZeroHash),
    ]) {
      await expect(call()).to.be.revertedWithCustomError(escrow, "InvalidAmount").withArgs(0);
    }
  });

  it("refuses tokens that the caller has not got, or has not allowed", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = await market.holder(5n);
    await expect(market.escrow.connect(client).deposit(6n))
      .to.be.revertedWithCustomError(market.token, "ERC20InsufficientBalance")
      .withArgs(client, 5n, 6n);
    await market.token.connect(client).approve(market.escrow, 1n);
    await expect(market.escrow.connect(client).deposit(2n))
      .to.be.revertedWithCustomError(market.token, "ERC20InsufficientAllowance")
      .withArgs(market.escrow, 1n, 2n);
  });

  it("does not credit tokens that were sent without a deposit", async () => {
    const { market } = await loadFixture(emptyMarket);
    const [client, lost] = [await market.client(5n), await market.holder()];
    await market.token.connect(lost).transfer(market.escrow, 100n);
    await market.escrow.connect(client).deposit(1n);
    expect(await market.free(client)).to.equal(6n);
    expect(await market.free(lost)).to.equal(0n);
  });
});

describe("depositing with a permit", () => {
  it("takes the tokens in one transaction without an approval before", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = market.account();
    await market.token.mint(client, PAYMENT);
    const deadline = BigInt((await time.latest()) + 100);
    const { v, r, s } = await permitOf(market, client, PAYMENT, deadline);
    await expect(market.escrow.connect(client).depositWithPermit(PAYMENT, deadline, v, r, s))
      .to.emit(market.escrow, "Deposited")
      .withArgs(client, client, PAYMENT);
    expect(await market.token.allowance(client, market.escrow)).to.equal(0);
  });

  it("fails with the token's own error when the permit is worthless and nothing is allowed", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = market.account();
    await market.token.mint(client, PAYMENT);
    const deadline = BigInt((await time.latest()) + 100);
    const { v, r, s } = await permitOf(market, client, PAYMENT, deadline);
    await expect(market.escrow.connect(client).depositWithPermit(PAYMENT, deadline + 1n, v, r, s))
      .to.be.revertedWithCustomError(market.token, "ERC20InsufficientAllowance")
      .withArgs(market.escrow, 0, PAYMENT);
  });
});

describe("withdrawing", () => {
  it("pays free balance to the address that the account names", async () => {
    const { market, client, stranger } = await loadFixture(smallMarket);
    const before = await market.free(client);
    const call = market.escrow.connect(client).withdraw(7n, stranger);
    await expect(call).to.emit(market.escrow, "Withdrawn").withArgs(client, stranger, 7n);
    await expect(call).to.changeTokenBalances(ethers, market.token, [market.escrow, stranger], [-7n, 7n]);
    expect(await market.free(client)).to.equal(before - 7n);
  });

  it("pays to the last unit, and not one more", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const free = await market.free(client);
    await expect(market.escrow.connect(client).withdraw(free + 1n, client))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(client, free, free + 1n);
    await market.escrow.connect(client).withdraw(free, client);
    expect(await market.free(client)).to.equal(0);
  });

  it("refuses amounts of more than 128 bits instead of cutting them", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const free = await market.free(client);
    for (const amount of [2n ** 128n + 1n, 2n ** 256n - 1n]) {
      await expect(market.escrow.connect(client).withdraw(amount, client))
        .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
        .withArgs(client, free, amount);
    }
  });

  it("does not touch what open jobs have locked", async () => {
    const { market, client } = await loadFixture(openJob);
    const free = await market.free(client);
    await expect(market.escrow.connect(client).withdraw(free + 1n, client))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(client, free, free + 1n);
    expect(await market.locked(client)).to.equal(PAYMENT);
  });

  it("refuses nothing, nobody, and the contracts of the market, where the tokens would be stuck", async () => {
    const { market, client } = await loadFixture(smallMarket);
    const escrow = market.escrow.connect(client);
    await expect(escrow.withdraw(0, client)).to.be.revertedWithCustomError(escrow, "InvalidAmount").withArgs(0);
    await expect(escrow.withdraw(1, ethers.ZeroAddress)).to.be.revertedWithCustomError(escrow, "ZeroAddress");
    for (const deadEnd of await market.deadEnds()) {
      await expect(escrow.withdraw(1, deadEnd))
        .to.be.revertedWithCustomError(escrow, "InvalidRecipient")
        .withArgs(deadEnd);
    }
  });

  it("sends to the caller itself, also when that was made a market: it may know no other recipient", async () => {
    const { market } = await loadFixture(emptyMarket);
    const contract = await market.contractAccount();
    await market.token.mint(contract, 5n);
    await market.token.connect(contract).approve(market.escrow, 5n);
    await market.escrow.connect(contract).deposit(5n);
    await market.registry.setMarket(contract, true);
    await market.escrow.connect(contract).withdraw(5n, contract);
    expect(await market.token.balanceOf(contract)).to.equal(5n);
  });

  it("refuses any market of the registry, the forbidden ones too", async () => {
    const { market } = await loadFixture(emptyMarket);
    const client = await market.client();
    const other = await market.contractAccount();
    await market.registry.setMarket(other, true);
    await market.registry.setMarket(other, false);
    await expect(market.escrow.connect(client).withdraw(1, other))
      .to.be.revertedWithCustomError(market.escrow, "InvalidRecipient")
      .withArgs(other);
    await market.escrow.connect(client).withdraw(1, market.account());
  });
});

describe("withdrawing what a provider earned", () => {
  it("goes to the payout address, whichever of its accounts asks", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.complete(job);
    const call = market.escrow.connect(provider.operator).withdrawProvider(provider.address, 500n);
    await expect(call).to.emit(market.escrow, "Withdrawn").withArgs(provider.address, provider.payout, 500n);
    await expect(call).to.changeTokenBalances(ethers, market.token, [market.escrow, provider.payout], [-500n, 500n]);
    await market.escrow.connect(provider.owner).withdrawProvider(provider.address, USAGE_PRICE - 500n);
    expect(await market.token.balanceOf(provider.payout)).to.equal(USAGE_PRICE);
  });

  it("refuses strangers, clients, the contract's owner, and rotated operators", async () => {
    const { market, provider, client, stranger, job } = await loadFixture(openJob);
    await market.complete(job);
    await market.registry.connect(provider.owner).setOperator(market.account());
    for (const account of [stranger, client, market.admin, provider.operator]) {
      await expect(market.escrow.connect(account).withdrawProvider(provider.address, 1n))
        .to.be.revertedWithCustomError(market.escrow, "NotProviderAccount")
        .withArgs(provider.address, account);
    }
  });

  it("refuses more than there is", async () => {
    const { market, provider, job } = await loadFixture(openJob);
    await market.complete(job);
    await expect(market.escrow.connect(provider.operator).withdrawProvider(provider.address, USAGE_PRICE + 1n))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(provider.address, USAGE_PRICE, USAGE_PRICE + 1n);
  });

  it("follows a payout address that was changed", async () => {
    const { market, provider, stranger, job } = await loadFixture(openJob);
    await market.complete(job);
    await market.registry.connect(provider.owner).setPayout(stranger);
    await expect(market.escrow.connect(provider.operator).withdrawProvider(provider.address, 1n))
      .to.emit(market.escrow, "Withdrawn")
      .withArgs(provider.address, stranger, 1n);
  });

  it("a stolen operator key cannot send the earnings anywhere else", async () => {
    const { market, provider, job, stranger } = await loadFixture(openJob);
    await market.complete(job);
    await expect(market.escrow.connect(provider.operator).withdraw(1n, stranger))
      .to.be.revertedWithCustomError(market.escrow, "InsufficientBalance")
      .withArgs(provider.operator, 0, 1n);
  });
});
