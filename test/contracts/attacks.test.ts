import { expect } from "chai";
import { Signature } from "ethers";
import type { TestToken } from "../../types/index.ts";
import { ethers, inOneBlock, loadFixture, time } from "./support/chain.ts";
import { openJob, smallMarket } from "./support/fixtures.ts";
import {
  deployMarket,
  DURATION,
  JobStatus,
  type Market,
  MODEL,
  PAYMENT,
  PRICE,
  REQUEST_HASH,
  RESPONSE_HASH,
  USAGE,
} from "./support/market.ts";
import { weakenedMarket } from "./support/weakened.ts";

type Deploy = typeof deployMarket;

const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** Numbers of `HostileClient.Wallet`. */
const Wallet = { Accepts: 0, Refuses: 1, Reverts: 2, BurnsGas: 3, ReturnsBomb: 4, ReturnsShort: 5 } as const;

async function withHookToken(deploy: Deploy) {
  const token = await ethers.deployContract("HookToken");
  return { market: await deploy({ token: token as unknown as TestToken }), token };
}

async function parties(deploy: Deploy) {
  const market = await deploy();
  return { market, provider: await market.provider({ cap: 1n }), client: await market.client() };
}

/** What an attack won or broke: 0 or false where the contract holds. Each is run on the real and on a weakened market. */
const attacks: Record<string, (deploy: Deploy) => Promise<boolean>> = {
  "taking a balance out several times from within the token's transfer": async (deploy) => {
    const { market, token } = await withHookToken(deploy);
    await market.client(10n * PAYMENT);
    const thief = await ethers.deployContract("HostileClient", [await market.escrow.getAddress()]);
    await token.mint(thief, PAYMENT);
    await thief.deposit(PAYMENT);
    await thief.drain(PAYMENT, 3);
    return (await token.balanceOf(thief)) > PAYMENT;
  },
  "being credited for more than a token with a fee delivers": async (deploy) => {
    const token = await ethers.deployContract("FeeToken", [100]);
    const market = await deploy({ token });
    const client = await market.client(1_000n);
    return (await market.free(client)) > (await token.balanceOf(market.escrow));
  },
  "being credited by a token that says false and moves nothing": async (deploy) => {
    const { market, token } = await withHookToken(deploy);
    const client = await market.holder();
    await token.setMood(1);
    await market.escrow
      .connect(client)
      .deposit(PAYMENT)
      .catch(() => undefined);
    return (await market.free(client)) > 0n;
  },
  "stopping a deposit by using its permit first": async (deploy) => {
    const { market } = await parties(deploy);
    const [client, thief] = [market.account(), market.account()];
    await market.token.mint(client, PAYMENT);
    const deadline = (await time.latest()) + 1_000;
    const { name, version, chainId, verifyingContract } = await market.token.eip712Domain();
    const fields = ["owner:address", "spender:address", "value:uint256", "nonce:uint256", "deadline:uint256"];
    const spender = await market.escrow.getAddress();
    const signed = await client.signTypedData(
      { name, version, chainId, verifyingContract },
      { Permit: fields.map((field) => ({ name: field.split(":")[0] ?? "", type: field.split(":")[1] ?? "" })) },
      { owner: client.address, spender, value: PAYMENT, nonce: 0n, deadline },
    );
    const { v, r, s } = Signature.from(signed);
    await market.token.connect(thief).permit(client, spender, PAYMENT, deadline, v, r, s);
    await market.escrow
      .connect(client)
      .depositWithPermit(PAYMENT, deadline, v, r, s)
      .catch(() => undefined);
    return (await market.free(client)) === 0n;
  },
  "taking a slot for a payment of nothing": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    await market.post(client, provider, { maxPayment: 0n, unsignedLimit: 0n }).catch(() => undefined);
    return (await market.openJobs(provider)) > 0n;
  },
  "cancelling while the provider may still answer": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const job = await market.post(client, provider);
    await time.increase(30);
    await market.escrow.connect(client).requestCancel(job.jobId);
    await market.escrow
      .connect(client)
      .finalizeCancel(job.jobId)
      .catch(() => undefined);
    return (await market.statusOf(job.jobId)) === JobStatus.Cancelled;
  },
  "stopping a batch of expiries by an item that is poison": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    await market.escrow.expireJobs([ethers.id("poison"), job.jobId]).catch(() => undefined);
    return (await market.openJobs(provider)) > 0n;
  },
  "burning the stake of a provider that has consented to nothing": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    const signature = await market.acknowledgement(client, { jobId: job.jobId, provider: provider.address });
    await market.escrow
      .connect(client)
      .slashJob(job.jobId, REQUEST_HASH, signature)
      .catch(() => undefined);
    return (await market.registry.burntStake()) > 0n;
  },
  "a second valid form of one signature": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const job = await market.post(client, provider);
    const { r, s, v } = Signature.from(await market.receipt(client, { jobId: job.jobId, provider: provider.address }));
    const high = ethers.toBeHex(ORDER - BigInt(s), 32);
    expect(BigInt(high) > HALF_ORDER).to.equal(true);
    const signature = ethers.concat([r, high, ethers.toBeHex(v === 27 ? 28 : 27)]);
    await market.complete(job, { signature }).catch(() => undefined);
    return (await market.statusOf(job.jobId)) === JobStatus.Completed;
  },
  "burning a provider's batch by a wallet that burns all gas": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    const hostile = await walletJob(market, provider, Wallet.BurnsGas);
    const good = await market.post(client, provider);
    const item = { usage: USAGE, responseHash: RESPONSE_HASH };
    await market.escrow
      .connect(provider.operator)
      .completeJobs(
        [
          { ...item, jobId: hostile.jobId, clientSignature: "0x01" },
          { ...item, jobId: good.jobId, clientSignature: "0x" },
        ],
        { gasLimit: 700_000 },
      )
      .catch(() => undefined);
    return (await market.statusOf(good.jobId)) !== JobStatus.Completed;
  },
  "taking the last slot twice": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const other = await market.client();
    const terms = [await market.terms(), await market.terms()] as const;
    const gasLimit = 1_000_000;
    await inOneBlock(async () => [
      await market.escrow.connect(client).postJob(provider.address, terms[0], { gasLimit }),
      await market.escrow.connect(other).postJob(provider.address, terms[1], { gasLimit }),
    ]);
    return (await market.openJobs(provider)) > 1n;
  },
  "raising the price between quote and post": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const terms = await market.terms();
    await market.registry.connect(provider.operator).setOffering(MODEL, 10n * PRICE.input, PRICE.output, 1n);
    await market.escrow
      .connect(client)
      .postJob(provider.address, terms)
      .catch(() => undefined);
    return (await market.locked(client)) > 0n;
  },
  "saving stake from a slash by unbonding it": async (deploy) => {
    const { market, provider, client } = await parties(deploy);
    const job = await market.post(client, provider, { duration: 80_000 });
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.owner).startUnbonding(100n * PAYMENT);
    await time.increase(80_000);
    const signature = await market.acknowledgement(provider.operator, { jobId: job.jobId, provider: provider.address });
    await market.escrow.connect(client).slashJob(job.jobId, REQUEST_HASH, signature);
    return (await market.registry.burntStake()) < PAYMENT;
  },
};

async function walletJob(market: Market, provider: Awaited<ReturnType<typeof parties>>["provider"], wallet: number) {
  const client = await ethers.deployContract("HostileClient", [await market.escrow.getAddress()]);
  await market.token.mint(client, PAYMENT);
  await client.deposit(PAYMENT);
  await client.setWallet(wallet);
  const terms = await market.terms();
  await client.postJob(provider.address, terms);
  return { jobId: await market.escrow.jobIdOf(client, terms.nonce), client };
}

describe("attacks", function () {
  // The first compiles the weakened contracts, unless that is done.
  this.timeout(180_000);
  for (const [name, attack] of Object.entries(attacks)) {
    it(`${name}: in vain, and not in vain where the protection is taken away`, async () => {
      const snapshot: unknown = await ethers.provider.send("evm_snapshot", []);
      expect(await attack(deployMarket), "the real contracts").to.equal(false);
      await ethers.provider.send("evm_revert", [snapshot]);
      expect(await attack(weakenedMarket), "the weakened contracts").to.equal(true);
    });
  }
});

describe("signatures that must not pass", () => {
  it("are refused when short, long, in ERC-2098 form, of the zero address, or of another chain, escrow or provider", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    const message = { jobId: job.jobId, provider: provider.address };
    const good = await market.receipt(client, message);
    const other = await market.provider();
    for (const signature of [
      good.slice(0, -2),
      `${good}00`,
      Signature.from(good).compactSerialized,
      ethers.concat([ethers.ZeroHash, ethers.ZeroHash, "0x1b"]),
      ethers.concat([good.slice(0, -2), "0x1d"]),
      await market.receipt(client, message, { ...market.domain, chainId: 1 }),
      await market.receipt(client, message, { ...market.domain, verifyingContract: other.address }),
      await market.receipt(client, message, { ...market.domain, version: "2" }),
      await market.receipt(client, { ...message, provider: other.address }),
      await market.receipt(client, { ...message, jobId: ethers.id("another job") }),
    ]) {
      await expect(market.complete(job, { signature }), signature)
        .to.be.revertedWithCustomError(market.escrow, "InvalidClientSignature")
        .withArgs(job.jobId);
    }
    await market.complete(job, { signature: good });
  });

  it("of contract wallets count when the wallet accepts, and never when it refuses, reverts, burns gas, or answers too much or too little", async () => {
    const { market, provider } = await loadFixture(smallMarket);
    for (const [name, wallet] of Object.entries(Wallet)) {
      const { jobId } = await walletJob(market, provider, wallet);
      const call = market.escrow
        .connect(provider.operator)
        .completeJob(jobId, USAGE, RESPONSE_HASH, "0x01", { gasLimit: 1_000_000 });
      if (name === "Accepts") await expect(call).to.emit(market.escrow, "JobCompleted");
      else
        await expect(call, name).to.be.revertedWithCustomError(market.escrow, "InvalidClientSignature").withArgs(jobId);
    }
  });
});

describe("hostile tokens", () => {
  it("that block or pause hold money up, and nobody's job: every job still ends and the balances stay right", async () => {
    const { market, token } = await withHookToken(deployMarket);
    const [provider, client] = [await market.provider(), await market.client()];
    const [first, second] = [await market.post(client, provider), await market.post(client, provider)];
    await token.setBlocked(client, true);
    await expect(market.escrow.connect(client).withdraw(1n, client)).to.be.revertedWithCustomError(token, "Blocked");
    await market.escrow.connect(client).withdraw(1n, market.account());
    await token.setMood(2);
    await market.complete(first);
    await market.escrow.connect(provider.operator).declineJob(second.jobId);
    await expect(
      market.escrow.connect(provider.operator).withdrawProvider(provider.address, 1n),
    ).to.be.revertedWithCustomError(token, "TokenPaused");
    await token.setMood(0);
    await market.escrow.connect(provider.operator).withdrawProvider(provider.address, 1n);
    expect(await market.locked(client)).to.equal(0);
  });

  it("that say false instead of paying cannot make a balance vanish", async () => {
    const { market, token } = await withHookToken(deployMarket);
    const client = await market.client(PAYMENT);
    await token.setMood(1);
    await expect(market.escrow.connect(client).withdraw(PAYMENT, client)).to.be.revertedWithCustomError(
      market.escrow,
      "SafeERC20FailedOperation",
    );
    expect(await market.free(client)).to.equal(PAYMENT);
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

  it("costs the unsigned limit each time where the client leaves one: the provider claims it for a job that nobody fetches", async () => {
    const { market, provider, client } = await loadFixture(smallMarket);
    const job = await market.post(client, provider, { maxPayment: 1_000n, unsignedLimit: 1_000n });
    await market.complete(job, { signature: "0x", usage: { inputTokens: 10n ** 9n, outputTokens: 0n } });
    expect(await market.free(provider.address)).to.equal(1_000n);
  });
});

describe("races at equal timestamps", () => {
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

describe("a stolen key of the contracts' owner", () => {
  it("can stop new posts and bring in another market, and cannot touch deposits, jobs or a withdrawal of stake", async () => {
    const { market, provider, client, job } = await loadFixture(openJob);
    await market.escrow.pause();
    await market.registry.setMarket(market.escrow, false);
    await market.complete(job);
    await market.escrow.connect(client).withdraw(await market.free(client), client);
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.owner).startUnbonding(100n * PAYMENT);
    await time.increase(604_800);
    await market.registry.connect(provider.owner).withdrawStake();
    expect(await market.token.balanceOf(market.registry)).to.equal(0);
  });
});

describe("self-dealing", () => {
  it("moves money in a circle and costs gas: a provider that is its own client ends where it began", async () => {
    const { market } = await loadFixture(smallMarket);
    const provider = await market.provider();
    await market.escrow.connect(provider.owner).deposit(PAYMENT);
    const job = await market.post(provider.owner, provider);
    await market.complete(job);
    expect(await market.escrow.accountOf(provider.owner)).to.deep.equal([PAYMENT, 0n]);
  });
});
