import { expect } from "chai";
import { attack, attempt, parties, type Stage } from "../support/attack.ts";
import { time } from "../support/chain.ts";
import { DURATION, JobStatus, PAYMENT, registryDefaults } from "../support/market.ts";
import { Seller } from "../support/seller.ts";

const UNBONDING = registryDefaults.unbondingPeriod;
const STAKE = 100n * PAYMENT;

/** A provider with one open job of the escrow, and a market beside the escrow that is dishonest. */
async function beside(stage: Stage) {
  const parts = await parties(stage);
  const { market, provider, client } = parts;
  const thief = new Seller(market, await market.contractAccount());
  await market.allowMarket(thief.account);
  await market.registry.connect(provider.operator).heartbeat();
  return { ...parts, thief, job: await market.post(client, provider) };
}

describe("attacks of a dishonest market on jobs, views and stake that are not its own", () => {
  attack(
    "holding a client's money for good by freeing the slot of its job",
    ["needs the slot to end a job"],
    async (stage) => {
      const { market, provider, client, thief, job } = await beside(stage);
      await thief.release(provider, 1n, 0n);
      await time.increase(DURATION);
      await attempt(market.escrow.expireJobs([job.jobId]));
      return (await market.statusOf(job.jobId)) === JobStatus.Open && (await market.locked(client)) === PAYMENT;
    },
  );

  attack(
    "keeping a provider from its pay by freeing the slot of its job",
    ["needs the slot to end a job"],
    async (stage) => {
      const { market, provider, thief, job } = await beside(stage);
      await thief.release(provider, 1n, PAYMENT);
      await attempt(market.complete(job));
      return (await market.free(provider.address)) === 0n;
    },
  );

  attack(
    "stopping a batch of expiries by one job whose slot is gone",
    ["needs the slot to end a job"],
    async (stage) => {
      const { market, provider, client, thief, job } = await beside(stage);
      const other = await market.provider({ cap: 1n });
      const honest = await market.post(client, other);
      await thief.release(provider, 1n, PAYMENT);
      await time.increase(DURATION);
      await attempt(market.escrow.expireJobs([job.jobId, honest.jobId]));
      return (await market.statusOf(honest.jobId)) === JobStatus.Open;
    },
  );

  attack(
    "hiding a provider, and every page that it is on, by giving back more collateral than was taken",
    ["shows only a stake that holds its collateral"],
    async (stage) => {
      const { market, provider, thief } = await beside(stage);
      await thief.release(provider, 1n, 2n ** 100n);
      return !(await attempt(market.registry.providersPage(0, 10)));
    },
  );

  attack(
    "allowing a market while stake of a provider that looked in time is there, as it had begun to unbond a part before it looked",
    ["gives notice of two periods"],
    async (stage) => {
      const { market, provider } = await parties(stage);
      const own = market.registry.connect(provider.owner);
      const thief = new Seller(market, await market.contractAccount());
      await market.registry.proposeMarket(thief.account);
      const noticed = BigInt(await time.latest()) + UNBONDING;
      await time.setNextBlockTimestamp(noticed - 10n);
      await own.startUnbonding(1n);
      await own.deactivate();
      await time.setNextBlockTimestamp(noticed + UNBONDING - 10n);
      await own.withdrawStake();
      await own.startUnbonding(STAKE - 1n);
      // The last second before it can be withdrawn.
      await time.setNextBlockTimestamp((await market.registry.providerOf(provider.address)).unbondingAt - 1n);
      await attempt(market.registry.setMarket(thief.account, true));
      return await market.registry.isMarket(thief.account);
    },
  );

  attack(
    "making an address a dead end that nobody can leave, before the first provider",
    ["takes an address without code for a market"],
    async (stage) => {
      const market = await stage.deploy();
      const victim = market.account();
      await attempt(market.registry.setMarket(victim, true));
      expect(await market.registry.isDeadEnd(market.escrow)).to.equal(true);
      return await market.registry.isDeadEnd(victim);
    },
  );
});
