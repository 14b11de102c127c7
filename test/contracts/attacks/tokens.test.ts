import { expect } from "chai";
import type { TestToken } from "../../../types/index.ts";
import { attack, attempt, parties } from "../support/attack.ts";
import { ethers, loadFixture, time } from "../support/chain.ts";
import { hostileTokenMarket, Mood, permitFor } from "../support/hostile.ts";
import { deployMarket, DURATION, PAYMENT } from "../support/market.ts";

async function rebasingMarket(deploy: typeof deployMarket) {
  const token = await ethers.deployContract("RebasingToken");
  return { market: await deploy({ token: token as unknown as TestToken }), token };
}

describe("attacks through a token that keeps no promise", () => {
  attack("being credited for more than a token with a fee delivers", ["credits what was sent"], async ({ deploy }) => {
    const token = await ethers.deployContract("FeeToken", [100]);
    const market = await deploy({ token });
    const client = await market.client(1_000n);
    return (await market.free(client)) > (await token.balanceOf(market.escrow));
  });

  attack("having more stake than a token with a fee delivers", ["credits what was sent"], async ({ deploy }) => {
    const token = await ethers.deployContract("FeeToken", [100]);
    const market = await deploy({ token });
    const { stake } = await market.registry.providerOf((await market.provider()).address);
    return stake > (await token.balanceOf(market.registry));
  });

  attack(
    "being credited by a token that says false and moves nothing",
    ["credits what was sent", "does not look at what a token says"],
    async (stage) => {
      const { market, token } = await hostileTokenMarket(stage);
      const client = await market.holder();
      await token.setMood(Mood.SaysFalse);
      await attempt(market.escrow.connect(client).deposit(PAYMENT));
      return (await market.free(client)) > 0n;
    },
  );

  attack(
    "losing a balance to a token that says false and pays nothing",
    ["expects an answer of every token"],
    async (stage) => {
      const { market, token } = await hostileTokenMarket(stage);
      const client = await market.client(PAYMENT);
      const before = await token.balanceOf(client);
      await token.setMood(Mood.SaysFalse);
      await attempt(market.escrow.connect(client).withdraw(PAYMENT, client));
      return (await market.free(client)) === 0n && (await token.balanceOf(client)) === before;
    },
  );

  attack(
    "locking balances in by a token that says nothing at all",
    ["expects an answer of every token"],
    async (stage) => {
      const { market, token } = await hostileTokenMarket(stage);
      await token.setMood(Mood.SaysNothing);
      const client = await market.client(PAYMENT);
      expect(await market.free(client)).to.equal(PAYMENT);
      return !(await attempt(market.escrow.connect(client).withdraw(PAYMENT, client)));
    },
  );

  attack(
    "taking what a rebasing token has added to everybody's deposit",
    ["credits all that lies there"],
    async ({ deploy }) => {
      const { market, token } = await rebasingMarket(deploy);
      await market.client(100n * PAYMENT);
      await token.setRate(11n * 10n ** 17n);
      const thief = await market.client(PAYMENT);
      return (await market.free(thief)) > PAYMENT;
    },
  );

  attack("taking tokens that somebody sent without a deposit", ["credits all that lies there"], async (stage) => {
    const { market, client } = await parties(stage);
    await market.token.mint(market.escrow, PAYMENT);
    const before = await market.free(client);
    await market.escrow.connect(client).deposit(1n);
    return (await market.free(client)) > before + 1n;
  });

  attack(
    "holding a slot by having the token block oneself",
    ["sends refunds instead of booking them"],
    async (stage) => {
      const { market, token } = await hostileTokenMarket(stage);
      const [provider, client] = [await market.provider({ cap: 1n }), await market.client()];
      const job = await market.post(client, provider);
      await token.setBlocked(client, true);
      await time.increase(DURATION);
      await attempt(market.escrow.connect(provider.operator).declineJob(job.jobId));
      await attempt(market.escrow.expireJobs([job.jobId]));
      return (await market.openJobs(provider)) > 0n;
    },
  );

  attack("holding all slots by pausing the token", ["sends refunds instead of booking them"], async (stage) => {
    const { market, token } = await hostileTokenMarket(stage);
    const [provider, client] = [await market.provider({ cap: 1n }), await market.client()];
    const job = await market.post(client, provider);
    await token.setMood(Mood.Paused);
    await time.increase(DURATION);
    await attempt(market.escrow.expireJobs([job.jobId]));
    return (await market.openJobs(provider)) > 0n;
  });

  attack("stopping a deposit by using its permit first", ["fails with a permit that is used"], async (stage) => {
    const { market } = await parties(stage);
    const [client, thief] = [market.account(), market.account()];
    await market.token.mint(client, PAYMENT);
    const deadline = (await time.latest()) + 1_000;
    const { v, r, s } = await permitFor(market, client, PAYMENT, deadline);
    await market.token.connect(thief).permit(client, market.escrow, PAYMENT, deadline, v, r, s);
    await attempt(market.escrow.connect(client).depositWithPermit(PAYMENT, deadline, v, r, s));
    return (await market.free(client)) === 0n;
  });

  attack(
    "stopping a withdrawal by a dust top-up just before it",
    ["lets a balance be taken only whole"],
    async (stage) => {
      const { market, client } = await parties(stage);
      const stranger = await market.holder();
      const all = await market.free(client);
      await market.escrow.connect(stranger).depositFor(client, 1n);
      return !(await attempt(market.escrow.connect(client).withdraw(all, client)));
    },
  );
});

describe("hostile tokens", () => {
  it("that block or pause hold money up, and nobody's job: every job still ends and the balances stay right", async () => {
    const { market, token } = await hostileTokenMarket({ deploy: deployMarket });
    const [provider, client] = [await market.provider(), await market.client()];
    const [first, second] = [await market.post(client, provider), await market.post(client, provider)];
    await token.setBlocked(client, true);
    await expect(market.escrow.connect(client).withdraw(1n, client)).to.be.revertedWithCustomError(token, "Blocked");
    await market.escrow.connect(client).withdraw(1n, market.account());
    await token.setMood(Mood.Paused);
    await market.complete(first);
    await market.escrow.connect(provider.operator).declineJob(second.jobId);
    await expect(
      market.escrow.connect(provider.operator).withdrawProvider(provider.address, 1n),
    ).to.be.revertedWithCustomError(token, "TokenPaused");
    await token.setMood(Mood.Honest);
    await market.escrow.connect(provider.operator).withdrawProvider(provider.address, 1n);
    expect(await market.locked(client)).to.equal(0);
  });

  it("that say nothing are taken: stake, deposit, job and both withdrawals", async () => {
    const { market, token } = await hostileTokenMarket({ deploy: deployMarket });
    await token.setMood(Mood.SaysNothing);
    const [provider, client] = [await market.provider(), await market.client()];
    await market.complete(await market.post(client, provider));
    await market.escrow
      .connect(provider.operator)
      .withdrawProvider(provider.address, await market.free(provider.address));
    await market.escrow.connect(client).withdraw(await market.free(client), client);
    expect(await token.balanceOf(market.escrow)).to.equal(0);
  });

  it("that shrink all balances take from the last withdrawals, and stop no job's end", async () => {
    const { market, token } = await loadFixture(shrinking);
    const [provider, early, late] = [
      await market.provider(),
      await market.client(PAYMENT),
      await market.client(PAYMENT),
    ];
    const job = await market.post(late, provider);
    await token.setRate(9n * 10n ** 17n);
    await market.escrow.connect(provider.operator).declineJob(job.jobId);
    await market.escrow.connect(early).withdraw(PAYMENT, early);
    await expect(market.escrow.connect(late).withdraw(PAYMENT, late)).to.be.revertedWithCustomError(
      token,
      "ERC20InsufficientBalance",
    );
    await market.escrow.connect(late).withdraw((8n * PAYMENT) / 10n, late);
  });

  async function shrinking() {
    return await rebasingMarket(deployMarket);
  }
});
