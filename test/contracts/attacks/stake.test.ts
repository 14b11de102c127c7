import { attack, attempt, parties } from "../support/attack.ts";
import { time } from "../support/chain.ts";
import { type Account, DURATION, type Market, PAYMENT, type Posted, REQUEST_HASH } from "../support/market.ts";

const LONGEST = 86_400;
const UNBONDING = 604_800;

async function slash(market: Market, job: Posted, signer: Account): Promise<boolean> {
  const { jobId, provider, client } = job;
  const consent = await market.acknowledgement(signer, { jobId, provider: provider.address });
  return await attempt(market.escrow.connect(client).slashJob(jobId, REQUEST_HASH, consent));
}

describe("attacks on a provider's stake", () => {
  attack(
    "burning the stake of a provider that has consented to nothing",
    ["slashes without consent"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const job = await market.post(client, provider);
      await time.increase(DURATION);
      await slash(market, job, client);
      return (await market.registry.burntStake()) > 0n;
    },
  );

  attack(
    "burning the stake of a provider that still has time to answer",
    ["slashes before the deadline"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      await slash(market, await market.post(client, provider), provider.operator);
      return (await market.registry.burntStake()) > 0n;
    },
  );

  attack("burning more stake than the job was worth", ["burns all stake"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    await slash(market, job, provider.operator);
    return (await market.registry.burntStake()) > PAYMENT;
  });

  attack("earning by a provider's failure", ["gives the client what is burnt"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const before = await market.free(client);
    const job = await market.post(client, provider);
    await time.increase(DURATION);
    await slash(market, job, provider.operator);
    return (await market.free(client)) > before;
  });

  attack("saving stake from the slash of a long job by unbonding it", ["lets stake leave unburnt"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider, { duration: LONGEST - 60 });
    await market.registry.connect(provider.owner).deactivate();
    await market.registry.connect(provider.owner).startUnbonding(100n * PAYMENT);
    await time.increase(LONGEST - 60);
    await slash(market, job, provider.operator);
    return (await market.registry.burntStake()) < PAYMENT;
  });

  attack(
    "holding a provider's stake for good by having a job open whenever it could leave",
    ["holds stake while a job is open"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      await market.registry.connect(provider.owner).startUnbonding(PAYMENT);
      await time.increase(UNBONDING);
      await market.registry.connect(provider.operator).heartbeat();
      await market.post(client, provider);
      return !(await attempt(market.registry.connect(provider.owner).withdrawStake()));
    },
  );
});
