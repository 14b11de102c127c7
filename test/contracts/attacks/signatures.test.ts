import { expect } from "chai";
import { Signature } from "ethers";
import { attack, attempt, parties, type Stage } from "../support/attack.ts";
import { ethers, loadFixture } from "../support/chain.ts";
import { openJob, smallMarket } from "../support/fixtures.ts";
import { Wallet, walletJob } from "../support/hostile.ts";
import { JobStatus, type Market, type Posted, RESPONSE_HASH, USAGE } from "../support/market.ts";

const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** Whether a job is completed by what somebody makes of its client's receipt. */
async function completesBy(stage: Stage, forge: (good: Signature) => string): Promise<boolean> {
  const { market, provider, client } = await parties(stage);
  const job = await market.post(client, provider);
  const { usage, good } = await receiptOfEvenY(market, job);
  await attempt(market.complete(job, { usage, signature: forge(good) }));
  return (await market.statusOf(job.jobId)) === JobStatus.Completed;
}

/** A receipt whose `v` is 27: what a reader that guesses takes it for. */
async function receiptOfEvenY(market: Market, job: Posted) {
  for (let inputTokens = 1n; ; inputTokens += 1n) {
    const usage = { ...USAGE, inputTokens };
    const message = { jobId: job.jobId, provider: job.provider.address, usage };
    const good = Signature.from(await market.receipt(job.client, message));
    if (good.v === 27) return { usage, good };
  }
}

describe("attacks by a signature in another form", () => {
  attack(
    "a second valid form of a receipt, from the other half of the curve",
    ["takes both halves of the curve"],
    async (stage) =>
      completesBy(stage, ({ r, s, v }) => {
        const high = ethers.toBeHex(ORDER - BigInt(s), 32);
        expect(BigInt(high) > HALF_ORDER).to.equal(true);
        return ethers.concat([r, high, ethers.toBeHex(v === 27 ? 28 : 27)]);
      }),
  );

  attack(
    "a second valid form of a receipt, compact as in ERC-2098",
    ["takes the compact form of a signature"],
    async (stage) => completesBy(stage, ({ compactSerialized }) => compactSerialized),
  );

  attack("a receipt that is cut short", ["reads beyond the end of a signature"], async (stage) =>
    completesBy(stage, ({ serialized }) => serialized.slice(0, -2)),
  );

  attack("a receipt with something behind it", ["does not look at a signature's tail"], async (stage) =>
    completesBy(stage, ({ serialized }) => `${serialized}00`),
  );

  attack("a signature that recovers to the zero address", ["takes nobody for the client"], async (stage) =>
    completesBy(stage, () => ethers.concat([ethers.ZeroHash, ethers.ZeroHash, "0x1b"])),
  );

  attack(
    "any bytes, for a client that has no code and so says nothing",
    ["takes any answer of a wallet"],
    async (stage) => completesBy(stage, () => "0x1234"),
  );

  attack("a receipt that the client's wallet refuses", ["takes any answer of a wallet"], async (stage) => {
    const { market, provider } = await parties(stage);
    const { jobId } = await walletJob(market, provider, Wallet.Refuses);
    await attempt(market.escrow.connect(provider.operator).completeJob(jobId, USAGE, RESPONSE_HASH, "0x01"));
    return (await market.statusOf(jobId)) === JobStatus.Completed;
  });

  attack("burning a provider's batch by a wallet that burns all gas", ["gives a wallet all gas"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    const hostile = await walletJob(market, provider, Wallet.BurnsGas);
    const good = await market.post(client, provider);
    const item = { usage: USAGE, responseHash: RESPONSE_HASH };
    const items = [
      { ...item, jobId: hostile.jobId, clientSignature: "0x01" },
      { ...item, jobId: good.jobId, clientSignature: "0x" },
    ];
    await attempt(market.escrow.connect(provider.operator).completeJobs(items, { gasLimit: 700_000 }));
    return (await market.statusOf(good.jobId)) !== JobStatus.Completed;
  });
});

describe("signatures that must not pass", () => {
  it("are refused with the job named, whatever is wrong with them, and the good one passes after all of them", async () => {
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
