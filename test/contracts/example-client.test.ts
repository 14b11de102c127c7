import { expect } from "chai";
import { ethers, loadFixture, networkHelpers, time } from "./support/chain.ts";
import { smallMarket } from "./support/fixtures.ts";
import {
  type Account,
  ENDPOINT,
  JobStatus,
  MODEL,
  PRICE,
  PAYMENT,
  REQUEST_HASH,
  RESPONSE_HASH,
  USAGE,
  USAGE_PRICE,
} from "./support/market.ts";

const BALANCE = 10n * PAYMENT;

async function contractClient() {
  const parts = await smallMarket();
  const { market, provider } = parts;
  const [owner, signer] = [await market.holder(), market.account()];
  const args = [await market.escrow.getAddress(), owner.address, signer.address];
  const wallet = await ethers.deployContract("ExampleClient", args, owner);
  await market.token.connect(owner).approve(wallet, ethers.MaxUint256);
  await wallet.fund(BALANCE);
  const terms = await market.terms();
  await wallet.post([provider.address], terms);
  const jobId = await market.escrow.jobIdOf(wallet, terms.nonce);
  const settle = async (by: Account) =>
    market.escrow
      .connect(provider.operator)
      .completeJob(jobId, USAGE, RESPONSE_HASH, await market.receipt(by, { jobId, provider: provider.address }));
  return { ...parts, owner, signer, wallet, jobId, settle };
}

describe("a contract as client", () => {
  it("pays what its key has signed a receipt for, and takes the rest out", async () => {
    const { market, provider, owner, signer, wallet, settle } = await loadFixture(contractClient);
    await settle(signer);
    expect(await market.free(provider.owner)).to.equal(USAGE_PRICE);
    expect(await market.locked(wallet)).to.equal(0);
    const rest = BALANCE - USAGE_PRICE;
    await expect(wallet.withdraw(rest)).to.changeTokenBalance(ethers, market.token, owner, rest);
  });

  it("pays nothing for a receipt of any other key, its owner's and a replaced one included", async () => {
    const { market, owner, signer, stranger, wallet, jobId, settle } = await loadFixture(contractClient);
    await expect(settle(owner)).to.be.revertedWithCustomError(market.escrow, "InvalidClientSignature");
    await wallet.setSigner(stranger);
    await expect(settle(signer)).to.be.revertedWithCustomError(market.escrow, "InvalidClientSignature");
    expect(await market.statusOf(jobId)).to.equal(JobStatus.Open);
    await settle(stranger);
    expect(await market.statusOf(jobId)).to.equal(JobStatus.Completed);
  });

  it("takes no garbage for a signature when it has no key", async () => {
    const { wallet } = await loadFixture(contractClient);
    await wallet.setSigner(ethers.ZeroAddress);
    expect(await wallet.isValidSignature(RESPONSE_HASH, `0x${"00".repeat(65)}`)).to.equal("0xffffffff");
  });

  it("gets its money back when nobody takes the job up", async () => {
    const { market, wallet, jobId } = await loadFixture(contractClient);
    await time.increase(30);
    await wallet.cancel(jobId);
    await time.increase(60);
    await market.escrow.finalizeCancel(jobId);
    expect(await market.free(wallet)).to.equal(BALANCE);
  });

  it("obeys its owner only", async () => {
    const { wallet, stranger, market } = await loadFixture(contractClient);
    const other = wallet.connect(stranger);
    const terms = await market.terms();
    const attempts = [
      () => other.fund(1n),
      () => other.withdraw(1n),
      () => other.setSigner(stranger),
      () => other.cancel(RESPONSE_HASH),
      () => other.post([], terms),
    ];
    for (const attempt of attempts) {
      await expect(attempt()).to.be.revertedWithCustomError(wallet, "OwnableUnauthorizedAccount");
    }
  });
});

describe("a contract as provider", () => {
  it("consents to a slash as owner by its key's signature, and by no other", async () => {
    const { market, client, owner, signer, stranger, wallet } = await loadFixture(contractClient);
    const address = await wallet.getAddress();
    await networkHelpers.setBalance(address, 10n ** 18n);
    await networkHelpers.impersonateAccount(address);
    const registry = market.registry.connect(await ethers.getSigner(address));
    await market.token.mint(address, 100n * PAYMENT);
    await market.token.connect(await ethers.getSigner(address)).approve(registry, ethers.MaxUint256);
    await registry.register(market.account(), owner, ENDPOINT, 100n * PAYMENT);
    await registry.setOffering(MODEL, PRICE.input, PRICE.output, 131_072);

    const terms = await market.terms();
    await market.escrow.connect(client).postJob(address, terms);
    const jobId = await market.escrow.jobIdOf(client, terms.nonce);
    await time.increaseTo(terms.deadline);
    const slash = async (by: Account) =>
      market.escrow
        .connect(client)
        .slashJob(jobId, REQUEST_HASH, await market.acknowledgement(by, { jobId, provider: address }));
    await expect(slash(stranger)).to.be.revertedWithCustomError(market.escrow, "InvalidAcknowledgement");
    await expect(slash(signer)).to.emit(market.escrow, "JobSlashed").withArgs(jobId, address, PAYMENT);
  });

  it("consents to nothing as operator: replaced, it could not be asked any more, and the consent would be void", async () => {
    const { market, provider, client, signer, wallet } = await loadFixture(contractClient);
    await market.registry.connect(provider.owner).setOperator(wallet);
    const { jobId, terms } = await market.post(client, provider);
    await time.increaseTo(terms.deadline);
    const slash = async (by: Account) =>
      market.escrow
        .connect(client)
        .slashJob(jobId, REQUEST_HASH, await market.acknowledgement(by, { jobId, provider: provider.address }));
    await expect(slash(signer)).to.be.revertedWithCustomError(market.escrow, "InvalidAcknowledgement");
    await expect(slash(provider.owner)).to.emit(market.escrow, "JobSlashed").withArgs(jobId, provider.address, PAYMENT);
  });
});
