import { expect } from "chai";
import { attack, attempt, parties } from "../support/attack.ts";
import { loadFixture, time } from "../support/chain.ts";
import { openJob } from "../support/fixtures.ts";
import { JobStatus, MODEL_KEY, PAYMENT, PRICE } from "../support/market.ts";

describe("attacks with a stolen key of the contracts' owner", () => {
  attack("locking balances in by a pause", ["stops exits in a pause"], async (stage) => {
    const { market, client } = await parties(stage);
    await market.escrow.pause();
    return !(await attempt(market.escrow.connect(client).withdraw(PAYMENT, client)));
  });

  attack("holding the money of open jobs by a pause", ["stops exits in a pause"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    await market.escrow.pause();
    await attempt(market.escrow.connect(provider.operator).declineJob(job.jobId));
    return (await market.statusOf(job.jobId)) === JobStatus.Open;
  });

  attack(
    "burning everybody's stake at once through a market of the thief's own",
    ["allows a market without notice"],
    async (stage) => {
      const { market, provider } = await parties(stage);
      const thief = await market.contractAccount();
      if (!(await attempt(market.registry.setMarket(thief, true)))) return false;
      const registry = market.registry.connect(thief);
      await registry.acquireSlots(provider.address, PRICE.input, PRICE.output, PAYMENT, 1, MODEL_KEY);
      await registry.releaseSlotsAndSlash(provider.address, 1, 100n * PAYMENT);
      return (await market.registry.burntStake()) > PAYMENT;
    },
  );
});

describe("a stolen key of the contracts' owner", () => {
  it("can stop new posts and forbid the market, and cannot touch deposits, jobs or a withdrawal of stake", async () => {
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
