import { type BaseContract, getAddress, type Interface } from "ethers";
import hre from "hardhat";
import { decodeFunctionResult, encodeFunctionData, type Hex, parseAbi } from "viem";
import type { JobEscrow, ProviderRegistry, TestToken } from "../../../types/index.ts";
import { messageTypes, typedDataDomain } from "../../../protocol/messages.ts";
import { isLive } from "./escrow-model.ts";
import { brokenInvariant } from "./invariants.ts";
import { MarketModel, type Outcome } from "./market-model.ts";
import { type Call, callOf, type Operation, type World } from "./operations.ts";
import { Random } from "./random.ts";
import { BURN_ADDRESS } from "./registry-model.ts";
import { type ModelParameters, type ProviderRow, Refused, type State, Status, ZERO_ADDRESS } from "./state.ts";

const { ethers, provider: rpc } = await hre.network.create({
  // Steps of a history may share a second.
  override: { allowBlocksWithSameTimestamp: true },
});
const batchAbi = parseAbi(["function read(address[], bytes[]) view returns (bool[], bytes[])"]);
const GAS = "0xf42400";
const FIRST_TOKENS = 1_000_000n;
const ZERO_HASH = ethers.ZeroHash;

/** The chain and the model do not agree, or the model breaks a rule. */
export class Disagreement extends Error {
  override readonly name = "Disagreement";
}

/** A read of one contract and what the model expects it to answer. */
interface Read {
  readonly target: string;
  readonly contract: Interface;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly expected: readonly unknown[] | Refused;
}

/** What is deployed once per set of parameters, and the snapshot to which every history returns. */
interface Deployment {
  readonly registry: ProviderRegistry;
  readonly escrow: JobEscrow;
  readonly token: TestToken;
  readonly addresses: Readonly<Record<"registry" | "escrow" | "token" | "batch", string>>;
  readonly accounts: readonly string[];
  readonly startsAt: bigint;
}

const MODELS = ["model/a", "model/b", "model/c"].map((id) => ({ id, key: ethers.id(id) }));
const PAYOUTS = ["0x1111111111111111111111111111111111111111", "0x2222222222222222222222222222222222222222"];

async function deploy(parameters: ModelParameters): Promise<Deployment> {
  const signers = (await ethers.getSigners()).slice(0, 11);
  const [admin] = signers;
  if (admin === undefined) throw new Error("the chain has no accounts");
  const token = await ethers.deployContract("TestToken", [6]);
  const { minStake, timeToLive, unbondingPeriod, collateralBps, ...forEscrow } = parameters;
  const forRegistry = { minStake, timeToLive, unbondingPeriod, collateralBps };
  const registry = await ethers.deployContract("ProviderRegistry", [token.target, admin.address, forRegistry]);
  const escrow = await ethers.deployContract("JobEscrow", [registry.target, admin.address, forEscrow]);
  const batch = await ethers.deployContract("ViewBatch");
  await registry.setMarket(escrow.target, true);
  for (const signer of signers) {
    await token.mint(signer.address, FIRST_TOKENS);
    for (const spender of [registry.target, escrow.target]) {
      await token.connect(signer).approve(spender, ethers.MaxUint256);
    }
  }
  const block = await ethers.provider.getBlock("latest");
  const addresses = {
    registry: await registry.getAddress(),
    escrow: await escrow.getAddress(),
    token: await token.getAddress(),
    batch: await batch.getAddress(),
  };
  const accounts = signers.map(({ address }) => address);
  return { registry, escrow, token, addresses, accounts, startsAt: BigInt(block?.timestamp ?? 0) };
}

/**
 * Runs a history on a fresh deployment and on the model, step by step; throws a `Disagreement` at the first difference.
 * @param deployed parameters of the contracts, if they shall differ from the model's.
 */
export async function runHistory(
  parameters: ModelParameters,
  history: readonly Operation[],
  deployed = parameters,
): Promise<Tally> {
  const snapshot: unknown = await rpc.request({ method: "evm_snapshot" });
  try {
    const run = new Run(await deploy(deployed), parameters);
    for (const [index, operation] of history.entries()) await run.step(operation, index);
    return run.tally;
  } finally {
    await rpc.request({ method: "evm_revert", params: [snapshot] });
  }
}

/** How often each call succeeded, and how often it was refused with which error: shows that a history reached something. */
export type Tally = ReadonlyMap<string, number>;

class Run {
  readonly tally = new Map<string, number>();
  readonly #deployment: Deployment;
  readonly #parameters: ModelParameters;
  readonly #model: MarketModel;
  readonly #jobIdOf: (client: string, nonce: bigint) => string;
  #now: bigint;

  constructor(deployment: Deployment, parameters: ModelParameters) {
    this.#deployment = deployment;
    this.#parameters = parameters;
    this.#now = deployment.startsAt;
    const { escrow, registry, token } = deployment.addresses;
    const coder = ethers.AbiCoder.defaultAbiCoder();
    this.#jobIdOf = (client, nonce) =>
      ethers.keccak256(coder.encode(["uint256", "address", "address", "uint256"], [31_337n, escrow, client, nonce]));
    const admin = deployment.accounts[0] ?? "";
    this.#model = new MarketModel(parameters, { registry, escrow, token, admin, jobIdOf: this.#jobIdOf });
    for (const account of deployment.accounts) this.#model.state.tokens.set(account, FIRST_TOKENS);
  }

  async step(operation: Operation, index: number): Promise<void> {
    this.#now += BigInt(operation.delay);
    const call = await callOf(operation, this.#world());
    const actual = await this.#send(call);
    const before = this.#model.state;
    const expected = this.#model.transact(this.#now, call.apply);
    const what = `step ${index}, ${call.from} calls ${call.method}(${show(call.args)}) at ${this.#now}`;
    differ(`${what}: outcome`, canonical(actual), canonical(expected));

    const outcome = "error" in expected ? expected.error : "ok";
    const entry = `${call.method} ${outcome}`;
    this.tally.set(entry, (this.tally.get(entry) ?? 0) + 1);

    const { state, registry } = this.#model;
    const broken = brokenInvariant(state, this.#deployment.addresses, (payment) => registry.collateralFor(payment));
    if (broken !== undefined) throw new Disagreement(`${what}: ${broken}`);
    await this.#compareViews(what, before, new Random(operation.seed ^ 0x5f5f5f5f));
  }

  async #send(call: Call): Promise<Outcome> {
    const { registry, escrow, addresses } = this.#deployment;
    const contract: Interface = call.contract === "registry" ? registry.interface : escrow.interface;
    const data = contract.encodeFunctionData(call.method, call.args);
    await rpc.request({ method: "evm_setNextBlockTimestamp", params: [`0x${this.#now.toString(16)}`] });
    const transaction = { from: call.from, to: addresses[call.contract], data, gas: GAS };
    let hash: unknown;
    try {
      hash = await rpc.request({ method: "eth_sendTransaction", params: [transaction] });
    } catch (error) {
      return this.#refusal(error);
    }
    const receipt = (await rpc.request({ method: "eth_getTransactionReceipt", params: [hash] })) as {
      readonly logs: readonly { readonly address: string; readonly topics: string[]; readonly data: string }[];
    };
    const events = receipt.logs.flatMap(({ address, topics, data: logData }) => {
      const emitter = getAddress(address);
      if (emitter === addresses.token) return [];
      const contract = emitter === addresses.registry ? registry.interface : escrow.interface;
      const parsed = contract.parseLog({ topics, data: logData });
      if (parsed === null) throw new Disagreement(`an event that the ABI does not know: ${String(topics[0])}`);
      const args = [...parsed.args] as readonly unknown[];
      return [{ name: parsed.name, args: parsed.name === "CompletionSkipped" ? this.#skipped(args) : args }];
    });
    return { events } as unknown as Outcome;
  }

  /** The reason of a skipped item, decoded. */
  #skipped(args: readonly unknown[]): readonly unknown[] {
    const [jobId, reason] = args;
    const error = this.#deployment.escrow.interface.parseError(String(reason));
    return [jobId, error?.name ?? reason, ...(error?.args ?? [])];
  }

  #refusal(error: unknown): Outcome {
    const data = (error as { readonly data?: unknown }).data;
    const hex = typeof data === "object" && data !== null && "data" in data ? data.data : data;
    if (typeof hex !== "string") throw error;
    const { registry, escrow, token } = this.#deployment;
    for (const contract of [escrow, registry, token]) {
      const parsed = contract.interface.parseError(hex);
      if (parsed !== null) return { error: parsed.name, args: [...parsed.args] as string[] };
    }
    return { error: hex, args: [] };
  }

  #world(): World {
    const { accounts, addresses } = this.#deployment;
    const { state } = this.#model;
    const domain = typedDataDomain({ chainId: 31_337, escrow: addresses.escrow as `0x${string}` });
    const sign = async (signer: string, types: Parameters<typeof signTyped>[2], message: Record<string, unknown>) =>
      signTyped(signer, domain, types, message);
    return {
      state,
      parameters: this.#parameters,
      now: this.#now,
      admin: accounts[0] ?? "",
      registry: addresses.registry,
      escrow: addresses.escrow,
      token: addresses.token,
      otherMarket: addresses.batch,
      owners: accounts.slice(1, 4),
      operators: accounts.slice(4, 7),
      // One owner is a client as well.
      clients: [...accounts.slice(7, 10), accounts[1] ?? ""],
      everybody: accounts,
      payouts: PAYOUTS,
      models: MODELS,
      jobIds: [...state.jobs.keys()],
      signReceipt: async (signer, { usage, ...receipt }) =>
        sign(signer, { Receipt: [...messageTypes.Receipt] }, { ...receipt, ...usage }),
      signAcknowledgement: async (signer, message) =>
        sign(signer, { Acknowledgement: [...messageTypes.Acknowledgement] }, message),
    };
  }

  async #compareViews(what: string, before: State, random: Random): Promise<void> {
    const reads = this.#reads(before, random);
    const calls = reads.map(({ contract, method, args }) =>
      encodedOnce(`${method} ${show(args)}`, () => contract.encodeFunctionData(method, args)),
    );
    const data = encodeFunctionData({ abi: batchAbi, args: [reads.map(({ target }) => target as Hex), calls] });
    const request = { to: this.#deployment.addresses.batch, data, gas: GAS };
    const answer = (await rpc.request({ method: "eth_call", params: [request, "latest"] })) as Hex;
    const [succeeded, results] = decodeFunctionResult({ abi: batchAbi, data: answer });
    for (const [index, { contract, method, args, expected }] of reads.entries()) {
      const refused = expected instanceof Refused;
      const wanted = encodedOnce(`${method}: ${refused ? expected.message : show(expected)}`, () =>
        refused
          ? contract.encodeErrorResult(expected.error, expected.args)
          : contract.encodeFunctionResult(method, expected),
      );
      const got = results[index] ?? "0x";
      if (got === wanted && succeeded[index] === !refused) continue;
      const shown = succeeded[index] === true ? show([...contract.decodeFunctionResult(method, got)]) : got;
      const hoped = refused ? expected.message : show(expected);
      throw new Disagreement(`${what}: ${method}(${show(args)}) is ${shown}, the model says ${hoped}`);
    }
  }

  /** Every view, of everything that a step can have changed and of something at random. */
  #reads(before: State, random: Random): readonly Read[] {
    const { registry, escrow, token, addresses, accounts } = this.#deployment;
    const { state, registry: model } = this.#model;
    const reads: Read[] = [];
    const reading =
      (target: string, contract: BaseContract) =>
      (method: string, args: readonly unknown[], ...expected: readonly unknown[]): void => {
        reads.push({ target, contract: contract.interface, method, args, expected });
      };
    const ofRegistry = reading(addresses.registry, registry);
    const ofEscrow = reading(addresses.escrow, escrow);
    const ofToken = reading(addresses.token, token);

    const owners = [...state.providers.keys()];
    ofRegistry("providerCount", [], BigInt(owners.length));
    ofRegistry("burntStake", [], state.burntStake);
    for (const market of [addresses.escrow, addresses.batch]) {
      const row = state.markets.get(market);
      ofRegistry("isMarket", [market], row?.allowed ?? false);
      ofRegistry("isMarketSuspended", [market], row?.suspended ?? false);
      ofRegistry("marketProposal", [market], ...model.proposal(market));
    }
    ofEscrow("paused", [], state.markets.get(addresses.escrow)?.suspended ?? false);
    ofRegistry(
      "markets",
      [],
      [...state.markets].flatMap(([market, { known }]) => (known ? [market] : [])),
    );
    for (const account of [...Object.values(addresses), random.of(accounts)]) {
      ofRegistry("isDeadEnd", [account], model.isDeadEnd(account));
    }
    const rows = [...state.providers].map(([owner, row]) => providerView(owner, row));
    ofRegistry("providersPage", [0, 100], rows);
    for (const [owner, row] of state.providers) {
      ofRegistry("providerOf", [owner], providerView(owner, row));
      const offerings = row.models.map((key) => this.#offeringView(state.current.get(`${owner} ${key}`) ?? 0n));
      ofRegistry("offeringsPage", [owner, 0, 100], offerings);
    }
    for (const { key } of MODELS) {
      const providers = state.modelProviders.get(key) ?? [];
      ofRegistry("modelProviderCount", [key], BigInt(providers.length));
      ofRegistry("modelProvidersPage", [key, 0, 100], providers);
      const owner = random.of(accounts);
      ofRegistry("currentOfferingId", [owner, key], state.current.get(`${owner} ${key}`) ?? 0n);
    }
    const unknown = accounts.find((account) => !state.providers.has(account));
    if (unknown !== undefined) {
      const expected = new Refused("ProviderNotRegistered", [unknown]);
      const contract: Interface = registry.interface;
      reads.push({ target: addresses.registry, contract, method: "providerOf", args: [unknown], expected });
    }
    for (const account of accounts) {
      const employer = state.actsFor.get(account) ?? ZERO_ADDRESS;
      const isOperator = state.providers.get(employer)?.operator === account;
      ofRegistry("providerOfOperator", [account], isOperator ? employer : ZERO_ADDRESS);
      const row = state.accounts.get(account) ?? { free: 0n, locked: 0n };
      ofEscrow("accountOf", [account], [row.free, row.locked]);
      ofToken("balanceOf", [account], state.tokens.get(account) ?? 0n);
    }
    for (const account of [...PAYOUTS, BURN_ADDRESS, addresses.registry, addresses.escrow]) {
      ofToken("balanceOf", [account], state.tokens.get(account) ?? 0n);
    }
    for (const [jobId, job] of state.jobs) {
      const changed = before.jobs.get(jobId)?.status !== job.status;
      if (isLive(job) || changed || random.chance(5)) ofEscrow("jobOf", [jobId], this.#jobView(jobId));
    }

    for (let count = 0; count < 3; count++) {
      const [owner, account] = [random.of(accounts), random.of(accounts)];
      ofRegistry("isProviderAccount", [owner, account], model.isAccountOf(owner, account));
      const time = this.#now - BigInt(random.of([0, 1, 60, 1_000]));
      ofRegistry("wasProviderAccount", [owner, account, time], model.wasAccountOf(owner, account, time));
      const id = BigInt(random.below(state.records.length + 2));
      ofRegistry("offeringOf", [id], this.#offeringView(id));
      const record = state.records[Number(id) - 1];
      const { provider = ZERO_ADDRESS, inputPrice = 0n, outputPrice = 0n } = record ?? {};
      ofRegistry("offeringTerms", [id], provider, inputPrice, outputPrice);
      const usage = { inputTokens: BigInt(random.next()), outputTokens: BigInt(random.next()) };
      const price = (usage.inputTokens * inputPrice + usage.outputTokens * outputPrice) / 1_000_000n;
      ofEscrow("paymentFor", [id, usage], price);
      const payment = BigInt(random.of([0, 1_000, 5_000, 50_000]));
      ofRegistry("collateralFor", [payment], model.collateralFor(payment));
      const { key: modelKey } = random.of(MODELS);
      const request = { modelKey, maxInputPrice: 10n ** 7n, maxOutputPrice: 10n ** 6n, payment };
      const args = [owner, modelKey, request.maxInputPrice, request.maxOutputPrice, 1, payment];
      ofRegistry("refusalOf", args, model.refusalOf(owner, request));
      const nonce = BigInt(random.next());
      ofEscrow("jobIdOf", [account, nonce], this.#jobIdOf(account, nonce));
    }
    return reads;
  }

  #offeringView(id: bigint): readonly unknown[] {
    const { records, current } = this.#model.state;
    const record = records[Number(id) - 1];
    if (record === undefined) return [0n, ZERO_ADDRESS, ZERO_HASH, 0n, 0n, 0n, false, ""];
    const { provider, modelKey, inputPrice, outputPrice, contextLength, modelId } = record;
    const live = current.get(`${provider} ${modelKey}`) === id;
    return [id, provider, modelKey, inputPrice, outputPrice, contextLength, live, modelId];
  }

  #jobView(jobId: string): readonly unknown[] {
    const { jobs, records } = this.#model.state;
    const job = jobs.get(jobId);
    const record = job === undefined ? undefined : records[Number(job.offeringId) - 1];
    if (job === undefined || record === undefined) throw new Error(`no job ${jobId}`);
    if (job.status === Status.Completed) {
      const gone = [ZERO_ADDRESS, ZERO_HASH, 0n, 0n] as const;
      return [jobId, job.status, job.client, ...gone, job.unsignedLimit, 0n, 0n, 0n, 0n];
    }
    return [
      jobId,
      job.status,
      job.client,
      job.provider,
      record.modelKey,
      job.offeringId,
      job.maxPayment,
      job.unsignedLimit,
      record.inputPrice,
      record.outputPrice,
      job.since,
      job.deadline,
    ];
  }
}

/** Most of what is read does not change from step to step, and encoding it is most of the work. */
const encodings = new Map<string, Hex>();

function encodedOnce(key: string, encode: () => string): Hex {
  let encoding = encodings.get(key);
  if (encoding === undefined) {
    encoding = encode() as Hex;
    encodings.set(key, encoding);
  }
  return encoding;
}

async function signTyped(
  signer: string,
  domain: ReturnType<typeof typedDataDomain>,
  types: Record<string, { name: string; type: string }[]>,
  message: Record<string, unknown>,
): Promise<string> {
  return await (await ethers.getSigner(signer)).signTypedData(domain, types, message);
}

function providerView(owner: string, row: ProviderRow): readonly unknown[] {
  return [
    owner,
    row.operator,
    row.payout,
    row.active,
    row.lastSeen,
    row.generation,
    row.cap,
    row.openJobs,
    row.exposure,
    row.stake,
    row.unbonding,
    row.unbondingAt,
    BigInt(row.models.length),
    row.endpoint,
  ];
}

/** Text by which outcomes compare: the order of events is not part of what the contracts promise. */
function canonical(outcome: Outcome): string {
  if ("error" in outcome) return `reverts with ${outcome.error}(${show(outcome.args)})`;
  return outcome.events
    .map(({ name, args }) => `${name}(${show(args)})`)
    .toSorted((a, b) => a.localeCompare(b))
    .join(" ");
}

function differ(what: string, actual: string, expected: string): void {
  if (actual !== expected) throw new Disagreement(`${what}:\n  chain: ${actual}\n  model: ${expected}`);
}

function show(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner));
}
