import type { ContractTransactionResponse, Signer } from "ethers";
import hre from "hardhat";
import { z } from "zod";
import T4TWithTestToken from "../../ignition/modules/T4TWithTestToken.ts";
import { messageTypes, typedDataDomain } from "../../protocol/messages.ts";
import type { JobEscrow, ProviderRegistry, TestToken } from "../../types/index.ts";
import type { TracedTransaction } from "./breakdown.ts";
import { batchSize, type Figures, figureOf, rows } from "./rows.ts";

const traceSchema = z.object({
  gas: z.coerce.number(),
  structLogs: z.array(
    z.object({ op: z.string(), gas: z.coerce.number(), gasCost: z.coerce.number(), depth: z.number() }),
  ),
});

/** Functions whose transactions are traced as well as measured. */
export type Traced = "postJob" | "completeJob";

export interface Measured {
  readonly figures: Figures;
  readonly traces: Readonly<Record<Traced, TracedTransaction>>;
}

async function receiptOf(sent: Promise<ContractTransactionResponse>) {
  const receipt = await (await sent).wait();
  if (receipt === null) throw new Error("a transaction has no receipt");
  return receipt;
}

async function gasOf(sent: Promise<ContractTransactionResponse>): Promise<number> {
  return Number((await receiptOf(sent)).gasUsed);
}

/** Runs every function of `rows` on a chain of its own. */
export async function measure(): Promise<Measured> {
  const { ethers, ignition, networkHelpers } = await hre.network.create();
  const { time } = networkHelpers;
  // A round start makes the bytes of timestamps in call data, and so their price, the same in every run.
  await time.setNextBlockTimestamp(2_000_000_000);
  const deployed = await ignition.deploy(T4TWithTestToken);
  const registry = deployed.registry as unknown as ProviderRegistry;
  const escrow = deployed.escrow as unknown as JobEscrow;
  const token = deployed.token as unknown as TestToken;
  const [registryAddress, escrowAddress] = await Promise.all([registry.getAddress(), escrow.getAddress()]);
  const { chainId } = await ethers.provider.getNetwork();
  const domain = typedDataDomain({ chainId: Number(chainId), escrow: escrowAddress as `0x${string}` });
  const minStake = await registry.minStake();

  const model = "meta-llama/Llama-3.3-70B-Instruct";
  const modelKey = ethers.id(model);
  const price = { input: 150_000n, output: 600_000n };
  const payment = 5_000_000n;
  const usage = { inputTokens: 1_234n, outputTokens: 567n };
  const responseHash = ethers.id("response");
  const requestHash = ethers.id("request");

  const signers = await ethers.getSigners();
  let nextSigner = 1;
  function takeSigner() {
    const signer = signers[nextSigner++];
    if (signer === undefined) throw new Error("not enough accounts");
    return signer;
  }
  async function newWallet() {
    const wallet = new ethers.Wallet(ethers.id(`wallet ${nextSigner++}`), ethers.provider);
    await networkHelpers.setBalance(wallet.address, 10n ** 20n);
    return wallet;
  }
  async function fund(account: Signer, spender: string): Promise<void> {
    await token.mint(account, 10n ** 15n);
    await token.connect(account).approve(spender, ethers.MaxUint256);
  }
  async function newProvider() {
    const [owner, operator, payout] = [await newWallet(), await newWallet(), await newWallet()];
    await fund(owner, registryAddress);
    const registering = registry
      .connect(owner)
      .register(operator, payout, "https://node-17.provider.example/v1", minStake + 1_000_000_000n);
    const register = await gasOf(registering);
    await registry.connect(operator).setOffering(model, price.input, price.output, 131_072);
    await registry.connect(operator).setMaxConcurrentJobs(100);
    return { owner, operator, register };
  }
  async function newClient(): Promise<Signer> {
    const client = takeSigner();
    await fund(client, escrowAddress);
    await escrow.connect(client).deposit(10n ** 12n);
    return client;
  }

  let nonce = 0;
  async function terms() {
    return {
      nonce: BigInt(ethers.id(`nonce ${nonce++}`)),
      modelKey,
      maxPayment: payment,
      unsignedLimit: payment / 2n,
      maxInputPrice: price.input,
      maxOutputPrice: price.output,
      deadline: (await time.latest()) + 900,
    };
  }
  async function post(client: Signer, provider: { readonly owner: Signer }) {
    const asked = await terms();
    const { gasUsed, hash } = await receiptOf(escrow.connect(client).postJob(provider.owner, asked));
    return { jobId: await escrow.jobIdOf(client, asked.nonce), gas: Number(gasUsed), hash };
  }
  async function receiptFor(client: Signer, provider: { readonly owner: Signer }, jobId: string): Promise<string> {
    const message = { jobId, provider: await provider.owner.getAddress(), ...usage, responseHash };
    return client.signTypedData(domain, { Receipt: [...messageTypes.Receipt] }, message);
  }
  async function complete(client: Signer, provider: Provider, jobId: string) {
    const receipt = await receiptFor(client, provider, jobId);
    const sent = escrow.connect(provider.operator).completeJob(jobId, usage, responseHash, receipt);
    const { gasUsed, hash } = await receiptOf(sent);
    return { gas: Number(gasUsed), hash };
  }
  async function traceOf(hash: string): Promise<TracedTransaction> {
    const options = { disableMemory: true, disableStack: true, disableStorage: true };
    const transaction = await ethers.provider.getTransaction(hash);
    if (transaction === null) throw new Error(`no transaction ${hash}`);
    const { gas, structLogs } = traceSchema.parse(
      await ethers.provider.send("debug_traceTransaction", [hash, options]),
    );
    return { gasUsed: gas, input: transaction.data, steps: structLogs };
  }
  async function completeBatch(
    provider: Provider,
    jobs: readonly { client: Signer; jobId: string }[],
  ): Promise<number> {
    const items = await Promise.all(
      jobs.map(async ({ client, jobId }) => {
        return { jobId, usage, responseHash, clientSignature: await receiptFor(client, provider, jobId) };
      }),
    );
    return Math.ceil((await gasOf(escrow.connect(provider.operator).completeJobs(items))) / jobs.length);
  }
  async function keepAlive(of: readonly Provider[]): Promise<void> {
    for (const { operator } of of) await registry.connect(operator).heartbeat();
  }

  type Provider = Awaited<ReturnType<typeof newProvider>>;
  const provider = await newProvider();
  const client = await newClient();
  const out: Record<string, number> = { register: (await newProvider()).register };

  // One whole job and one that stays open: what comes after finds every slot filled.
  await complete(client, provider, (await post(client, provider)).jobId);
  await post(client, provider);

  out.setMaxConcurrentJobs = await gasOf(registry.connect(provider.operator).setMaxConcurrentJobs(64));
  out.setOfferingChanged = await gasOf(
    registry.connect(provider.operator).setOffering(model, price.input - 1n, price.output, 131_072),
  );
  out.heartbeat = await gasOf(registry.connect(provider.operator).heartbeat());
  out.deposit = await gasOf(escrow.connect(client).deposit(5_000_000n));
  out.withdraw = await gasOf(escrow.connect(client).withdraw(1_000_000n, client));

  const job = await post(client, provider);
  out.postJob = job.gas;
  const completed = await complete(client, provider, job.jobId);
  out.completeJob = completed.gas;
  const traces = { postJob: await traceOf(job.hash), completeJob: await traceOf(completed.hash) };

  const unsigned = await post(client, provider);
  out.completeJobUnsigned = await gasOf(
    escrow.connect(provider.operator).completeJob(unsigned.jobId, usage, responseHash, "0x"),
  );
  const seen = await post(client, provider);
  await time.increase(400);
  out.completeJobSeen = (await complete(client, provider, seen.jobId)).gas;

  const full = [await newProvider(), await newProvider(), await newProvider()];
  for (const one of full) {
    await post(client, one);
    await registry.connect(one.operator).setMaxConcurrentJobs(1);
  }
  const candidates = [...full, provider].map(({ owner }) => owner);
  out.postJobAny4 = await gasOf(escrow.connect(client).postJobAny(candidates, await terms()));
  out.postJobAny4First = await gasOf(escrow.connect(client).postJobAny(candidates.toReversed(), await terms()));

  await keepAlive([provider]);
  const own: { client: Signer; jobId: string }[] = [];
  for (let i = 0; i < batchSize; i++) own.push({ client, jobId: (await post(client, provider)).jobId });
  out.completeJobsPerItem = await completeBatch(provider, own);

  const clients: Signer[] = [];
  for (let i = 0; i < batchSize; i++) {
    clients.push(await newWallet());
  }
  const others: { client: Signer; jobId: string }[] = [];
  for (const one of clients) {
    await fund(one, escrowAddress);
    await escrow.connect(one).deposit(10n ** 12n);
    await keepAlive([provider]);
    others.push({ client: one, jobId: (await post(one, provider)).jobId });
  }
  await keepAlive([provider]);
  out.completeJobsPerItemManyClients = await completeBatch(provider, others);

  const acked = await post(client, provider);
  out.ackJob = await gasOf(escrow.connect(provider.operator).ackJob(acked.jobId));
  out.declineJob = await gasOf(escrow.connect(provider.operator).declineJob((await post(client, provider)).jobId));

  const cancelled = await post(client, provider);
  await time.increase(31);
  out.requestCancel = await gasOf(escrow.connect(client).requestCancel(cancelled.jobId));
  await time.increase(61);
  out.finalizeCancel = await gasOf(escrow.connect(client).finalizeCancel(cancelled.jobId));

  await keepAlive([provider]);
  const stale: string[] = [];
  for (let i = 0; i < batchSize; i++) stale.push((await post(client, provider)).jobId);
  await time.increase(1000);
  out.expireJobsPerItem = Math.ceil((await gasOf(escrow.connect(client).expireJobs(stale))) / batchSize);

  const scattered: string[] = [];
  for (const one of clients) {
    const another = await newProvider();
    await post(one, another);
    scattered.push((await post(one, another)).jobId);
  }
  await time.increase(1000);
  out.expireJobsPerItemManyParties = Math.ceil((await gasOf(escrow.connect(client).expireJobs(scattered))) / batchSize);

  await keepAlive([provider]);
  const slashed = await post(client, provider);
  const acknowledgement = await provider.operator.signTypedData(
    domain,
    { Acknowledgement: [...messageTypes.Acknowledgement] },
    { jobId: slashed.jobId, provider: provider.owner.address, requestHash },
  );
  await time.increase(1000);
  out.slashJob = await gasOf(escrow.connect(client).slashJob(slashed.jobId, requestHash, acknowledgement));

  out.wholeJob = out.postJob + out.completeJob;
  return { figures: Object.fromEntries(rows.map(({ key }) => [key, figureOf(out, key)])), traces };
}
