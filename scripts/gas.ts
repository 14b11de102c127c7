/**
 * npm run gas [-- --json | --check | --update]
 *
 * Measures what each function costs as a full transaction on a market deployed with the defaults of the Ignition module, in steady
 * state: every storage slot that an earlier job can have filled is filled. Prints the table; --json adds a last line of JSON;
 * --check fails when a figure is more than 2 % above gas-snapshot.json; --update writes that file.
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import type { ContractTransactionResponse, Signer } from "ethers";
import hre from "hardhat";
import T4TWithTestToken from "../ignition/modules/T4TWithTestToken.ts";
import { messageTypes, typedDataDomain } from "../protocol/messages.ts";
import type { JobEscrow, ProviderRegistry, TestToken } from "../types/index.ts";

const snapshotFile = new URL("../gas-snapshot.json", import.meta.url);
const tolerance = 0.02;
const batchSize = 20;

interface Row {
  readonly key: string;
  readonly what: string;
  readonly target?: number;
}

const rows: readonly Row[] = [
  { key: "register", what: "register, with stake" },
  { key: "setMaxConcurrentJobs", what: "setMaxConcurrentJobs" },
  { key: "setOfferingChanged", what: "setOffering, another price" },
  { key: "heartbeat", what: "heartbeat", target: 30_000 },
  { key: "deposit", what: "deposit" },
  { key: "withdraw", what: "withdraw" },
  { key: "postJob", what: "postJob", target: 95_000 },
  { key: "postJobAny4First", what: "postJobAny, 4 candidates, the first is free" },
  { key: "postJobAny4", what: "postJobAny, 4 candidates, three are full" },
  { key: "completeJob", what: "completeJob, with receipt", target: 60_000 },
  { key: "completeJobSeen", what: "completeJob, with receipt, refreshing lastSeen" },
  { key: "completeJobUnsigned", what: "completeJob, without receipt", target: 60_000 },
  { key: "completeJobsPerItem", what: `completeJobs, per item of ${batchSize}`, target: 30_000 },
  {
    key: "completeJobsPerItemManyClients",
    what: `completeJobs, per item of ${batchSize}, each another client`,
    target: 30_000,
  },
  { key: "ackJob", what: "ackJob" },
  { key: "declineJob", what: "declineJob" },
  { key: "requestCancel", what: "requestCancel" },
  { key: "finalizeCancel", what: "finalizeCancel" },
  { key: "expireJobsPerItem", what: `expireJobs, per item of ${batchSize}`, target: 45_000 },
  {
    key: "expireJobsPerItemManyParties",
    what: `expireJobs, per item of ${batchSize}, each another client and provider`,
    target: 45_000,
  },
  { key: "slashJob", what: "slashJob" },
  { key: "wholeJob", what: "whole job: postJob + completeJob", target: 155_000 },
];

/** Figures that others publish for the same steps. */
const published: readonly (readonly [what: string, gas: string])[] = [
  ["posting a job, other inference markets", "208,000-259,000"],
  ["acknowledging on chain", "36,000"],
  ["settling", "87,000-100,000"],
  ["whole job, three transactions", "334,000-395,000"],
  ["commerce-payments authorize", "156,000"],
  ["commerce-payments capture", "70,000"],
];

type Figures = Record<string, number>;

const { values: flags } = parseArgs({
  options: { json: { type: "boolean" }, check: { type: "boolean" }, update: { type: "boolean" } },
});
await hre.tasks.getTask("build").run({ quiet: true });
const figures = await measure();
print(figures);
if (flags.update === true) await writeFile(snapshotFile, `${JSON.stringify(figures, null, 2)}\n`);
if (flags.check === true) await check(figures);
if (flags.json === true) console.log(JSON.stringify(figures));

async function gasOf(sent: Promise<ContractTransactionResponse>): Promise<number> {
  const receipt = await (await sent).wait();
  if (receipt === null) throw new Error("a transaction has no receipt");
  return Number(receipt.gasUsed);
}

async function measure(): Promise<Figures> {
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
    const gas = await gasOf(escrow.connect(client).postJob(provider.owner, asked));
    return { jobId: await escrow.jobIdOf(client, asked.nonce), gas, deadline: asked.deadline };
  }
  async function receiptFor(client: Signer, provider: { readonly owner: Signer }, jobId: string): Promise<string> {
    const message = { jobId, provider: await provider.owner.getAddress(), ...usage, responseHash };
    return client.signTypedData(domain, { Receipt: [...messageTypes.Receipt] }, message);
  }
  async function complete(client: Signer, provider: Provider, jobId: string): Promise<number> {
    const receipt = await receiptFor(client, provider, jobId);
    return gasOf(escrow.connect(provider.operator).completeJob(jobId, usage, responseHash, receipt));
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
  const out: Figures = { register: (await newProvider()).register };

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
  out.completeJob = await complete(client, provider, job.jobId);

  const unsigned = await post(client, provider);
  out.completeJobUnsigned = await gasOf(
    escrow.connect(provider.operator).completeJob(unsigned.jobId, usage, responseHash, "0x"),
  );
  const seen = await post(client, provider);
  await time.increase(400);
  out.completeJobSeen = await complete(client, provider, seen.jobId);

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
  return Object.fromEntries(rows.map(({ key }) => [key, figureOf(out, key)]));
}

function figureOf(all: Figures, key: string): number {
  const figure = all[key];
  if (figure === undefined) throw new Error(`nothing measured ${key}`);
  return figure;
}

function print(all: Figures): void {
  const width = Math.max(...rows.map(({ what }) => what.length), ...published.map(([what]) => what.length));
  const line = (what: string, gas: string, target: string): void => {
    console.log(`${what.padEnd(width)}  ${gas.padStart(15)}  ${target}`);
  };
  line("full transaction, steady state", "gas", "target");
  for (const { key, what, target } of rows) {
    const gas = figureOf(all, key);
    const verdict = target === undefined ? "" : `<= ${target.toLocaleString("en")}${gas > target ? "  MISSED" : ""}`;
    line(what, gas.toLocaleString("en"), verdict);
  }
  console.log("");
  line("published elsewhere", "gas", "");
  for (const [what, gas] of published) line(what, gas, "");
}

async function check(all: Figures): Promise<void> {
  const snapshot = JSON.parse(await readFile(snapshotFile, "utf8")) as Figures;
  const faults = rows.flatMap(({ key }) => {
    const before = snapshot[key];
    const now = figureOf(all, key);
    if (before === undefined) return [`${key}: not in the snapshot`];
    return now > before * (1 + tolerance) ? [`${key}: ${before} -> ${now}`] : [];
  });
  for (const fault of faults) console.error(`gas rose: ${fault}`);
  if (faults.length !== 0) {
    console.error("explain the rise and run npm run gas -- --update");
    process.exitCode = 1;
  }
}
