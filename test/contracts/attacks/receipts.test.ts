import { attack, attempt, parties } from "../support/attack.ts";
import { ethers, time } from "../support/chain.ts";
import { deployMarket, DURATION, JobStatus, PAYMENT, REQUEST_HASH, RESPONSE_HASH, USAGE } from "../support/market.ts";

const CHAIN_ID = 31_337;
const OTHER_CHAIN = 1;

describe("attacks by a signature that was given for something else", () => {
  attack("being paid for one job with the receipt of another", ["leaves the job out of the receipt"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const first = await market.post(client, provider);
    const jobId = stage.has("leaves the job out of the receipt") ? ethers.ZeroHash : first.jobId;
    const signature = await market.receipt(client, { jobId, provider: provider.address });
    await market.complete(first, { signature });
    const second = await market.post(client, provider);
    await attempt(market.complete(second, { signature }));
    return (await market.statusOf(second.jobId)) === JobStatus.Completed;
  });

  attack(
    "being paid with the receipt of the same job on another chain",
    ["leaves the chain out of the receipt"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const job = await market.post(client, provider);
      const chainId = stage.has("leaves the chain out of the receipt") ? 0 : OTHER_CHAIN;
      const message = { jobId: job.jobId, provider: provider.address };
      const signature = await market.receipt(client, message, { ...market.domain, chainId });
      await attempt(market.complete(job, { signature }));
      return (await market.statusOf(job.jobId)) === JobStatus.Completed;
    },
  );

  attack("being paid with a receipt for another escrow", ["leaves the escrow out of the receipt"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider);
    const other = await (await deployMarket()).escrow.getAddress();
    const verifyingContract = stage.has("leaves the escrow out of the receipt") ? ethers.ZeroAddress : other;
    const message = { jobId: job.jobId, provider: provider.address };
    const signature = await market.receipt(client, message, { ...market.domain, verifyingContract, chainId: CHAIN_ID });
    await attempt(market.complete(job, { signature }));
    return (await market.statusOf(job.jobId)) === JobStatus.Completed;
  });

  attack(
    "taking another provider's payment with the receipt that its client gave it",
    ["lets any provider act for a job", "leaves the provider out of the receipt"],
    async (stage) => {
      const { market, provider, client } = await parties(stage);
      const thief = await market.provider();
      const job = await market.post(client, provider);
      const named = stage.has("leaves the provider out of the receipt") ? ethers.ZeroAddress : provider.address;
      const signature = await market.receipt(client, { jobId: job.jobId, provider: named });
      // The thief holds a slot of its own, so that freeing one in its name finds one.
      await market.post(client, thief);
      await attempt(market.escrow.connect(thief.operator).completeJob(job.jobId, USAGE, RESPONSE_HASH, signature));
      return (await market.free(thief.address)) > 0n;
    },
  );

  attack("being paid twice for one job", ["keeps a completed job open"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    await market.registry.connect(provider.operator).setMaxConcurrentJobs(2);
    const job = await market.post(client, provider);
    await market.post(client, provider);
    await market.complete(job);
    const once = await market.free(provider.address);
    await attempt(market.complete(job));
    return (await market.free(provider.address)) > once;
  });

  attack("taking more than was locked with a receipt that says so", ["pays whatever is claimed"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider, { maxPayment: 1_000n });
    await market.complete(job, { usage: { inputTokens: 0n, outputTokens: 10n ** 7n } });
    return (await market.free(provider.address)) > 1_000n;
  });

  attack("taking more than the unsigned limit without a receipt", ["pays whatever is claimed"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const job = await market.post(client, provider, { unsignedLimit: 10n });
    await market.complete(job, { signature: "0x", usage: { inputTokens: 0n, outputTokens: 1_000n } });
    return (await market.free(provider.address)) > 10n;
  });

  attack("burning stake by the consent to another job", ["takes a consent for any job"], async (stage) => {
    const { market, provider, client } = await parties(stage);
    const first = await market.post(client, provider);
    await market.complete(first);
    const second = await market.post(client, provider);
    await time.increase(DURATION);
    const jobId = stage.has("takes a consent for any job") ? ethers.ZeroHash : first.jobId;
    const consent = await market.acknowledgement(provider.operator, { jobId, provider: provider.address });
    await attempt(market.escrow.connect(client).slashJob(second.jobId, REQUEST_HASH, consent));
    return (await market.registry.burntStake()) === PAYMENT;
  });
});
