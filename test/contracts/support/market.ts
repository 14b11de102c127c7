import type { AddressLike, BigNumberish, ContractTransactionResponse, Signer, TypedDataDomain } from "ethers";
import { messageTypes, typedDataDomain } from "../../../protocol/messages.ts";
import type { JobEscrow, ProviderRegistry, TestToken } from "../../../types/index.ts";
import { ethers, networkHelpers, time } from "./chain.ts";

/** A signer whose address is known without asking. */
export type Account = Signer & { readonly address: string };

export const registryDefaults = {
  minStake: 10_000_000n,
  timeToLive: 600n,
  unbondingPeriod: 604_800n,
  collateralBps: 10_000n,
};

export const escrowDefaults = {
  minPayment: 1_000n,
  minDuration: 60n,
  maxDuration: 86_400n,
  ackWindow: 30n,
  responseWindow: 60n,
};

export type MarketParameters = Partial<typeof registryDefaults & typeof escrowDefaults>;

export const MODEL = "meta-llama/Llama-3.3-70B-Instruct";
export const MODEL_KEY = ethers.id(MODEL);
export const ENDPOINT = "https://node.provider.example/v1";
export const PRICE = { input: 150_000n, output: 600_000n };
/** Costs 525 at `PRICE`: 1234 x 0.15 + 567 x 0.6, rounded down. */
export const USAGE = { inputTokens: 1_234n, outputTokens: 567n };
export const USAGE_PRICE = 525n;
export const RESPONSE_HASH = ethers.id("response");
export const REQUEST_HASH = ethers.id("request");
export const PAYMENT = 5_000_000n;
export const DURATION = 900;
export const MAX_UINT96 = 2n ** 96n - 1n;

/** Numbers of `IJobEscrow.JobStatus`. */
export const JobStatus = {
  None: 0n,
  Open: 1n,
  Acknowledged: 2n,
  CancelRequested: 3n,
  Completed: 4n,
  Declined: 5n,
  Cancelled: 6n,
  Expired: 7n,
  Slashed: 8n,
} as const;

/** Numbers of `IProviderRegistry.Refusal`. */
export const Refusal = {
  None: 0n,
  UnknownProvider: 1n,
  Inactive: 2n,
  Stale: 3n,
  NoOffering: 4n,
  PriceAboveLimit: 5n,
  AtCapacity: 6n,
  InsufficientStake: 7n,
} as const;

/** A registered provider and its keys. */
export interface Provider {
  readonly owner: Account;
  readonly operator: Account;
  readonly payout: string;
  /** The owner's address, which is the provider's identity. */
  readonly address: string;
}

export interface ProviderOptions {
  readonly cap?: bigint;
  readonly stake?: bigint;
  readonly models?: readonly string[];
  readonly inputPrice?: bigint;
  readonly outputPrice?: bigint;
  readonly operator?: Account;
}

/** `IJobEscrow.JobTerms`. */
export interface Terms {
  readonly nonce: bigint;
  readonly modelKey: string;
  readonly maxPayment: bigint;
  readonly unsignedLimit: bigint;
  readonly maxInputPrice: bigint;
  readonly maxOutputPrice: bigint;
  readonly deadline: bigint;
}

export interface Usage {
  readonly inputTokens: bigint;
  readonly outputTokens: bigint;
}

/** A job just posted. */
export interface Posted {
  readonly jobId: string;
  readonly client: Account;
  readonly provider: Provider;
  readonly terms: Terms;
}

/** Contracts of one market as deployed for a test; any of them can be a hostile or a weakened stand-in. */
export interface MarketContracts {
  readonly registry: ProviderRegistry;
  readonly escrow: JobEscrow;
  readonly token: TestToken;
}

/** The market under test, and short ways to have people act in it. */
export class Market {
  readonly registry: ProviderRegistry;
  readonly escrow: JobEscrow;
  readonly token: TestToken;
  /** Owns both contracts. */
  readonly admin: Account;
  readonly #accounts: readonly Account[];
  readonly #domain: TypedDataDomain;
  #taken = 1;
  #nonces = 0n;

  constructor(contracts: MarketContracts, accounts: readonly Account[], domain: TypedDataDomain) {
    this.registry = contracts.registry;
    this.escrow = contracts.escrow;
    this.token = contracts.token;
    const [admin] = accounts;
    if (admin === undefined) throw new Error("the chain has no accounts");
    this.admin = admin;
    this.#accounts = accounts;
    this.#domain = domain;
  }

  /** EIP-712 domain of the escrow. */
  get domain(): TypedDataDomain {
    return this.#domain;
  }

  /** An account with ETH that nobody uses yet. */
  account(): Account {
    const account = this.#accounts[this.#taken++];
    if (account === undefined) throw new Error("the chain has no more accounts");
    return account;
  }

  /** An account with tokens, all of which both contracts may take. */
  async holder(tokens = 10n ** 12n): Promise<Account> {
    const account = this.account();
    await this.token.mint(account, tokens);
    await this.token.connect(account).approve(this.registry, ethers.MaxUint256);
    await this.token.connect(account).approve(this.escrow, ethers.MaxUint256);
    return account;
  }

  /** A client with free balance in the escrow. */
  async client(balance = 100n * PAYMENT): Promise<Account> {
    const client = await this.holder();
    await this.escrow.connect(client).deposit(balance);
    return client;
  }

  /** A live provider that offers `MODEL` at `PRICE`, staked for 100 jobs, with no cap unless one is asked for. */
  async provider(options: ProviderOptions = {}): Promise<Provider> {
    const owner = await this.holder();
    const operator = options.operator ?? this.account();
    const payout = ethers.Wallet.createRandom().address;
    await this.registry.connect(owner).register(operator, payout, ENDPOINT, options.stake ?? 100n * PAYMENT);
    for (const model of options.models ?? [MODEL]) {
      await this.registry
        .connect(operator)
        .setOffering(model, options.inputPrice ?? PRICE.input, options.outputPrice ?? PRICE.output, 131_072);
    }
    if (options.cap !== undefined) await this.registry.connect(operator).setMaxConcurrentJobs(options.cap);
    return { owner, operator, payout, address: owner.address };
  }

  /** Gives notice of a market and allows it when its time has come; providers then have to show themselves again. */
  async allowMarket(market: AddressLike): Promise<void> {
    await this.registry.proposeMarket(market);
    const { from } = await this.registry.marketProposal(market);
    await time.setNextBlockTimestamp(from);
    await this.registry.setMarket(market, true);
  }

  /** An account at which there is a contract, as a proposed market must be. */
  async contractAccount(): Promise<Account> {
    const address = await (await ethers.deployContract("ViewBatch")).getAddress();
    await networkHelpers.setBalance(address, 10n ** 18n);
    return await ethers.getImpersonatedSigner(address);
  }

  /** Addresses at each of which there is a contract. */
  async contracts(count: number): Promise<readonly string[]> {
    const deployed = Array.from({ length: count }, async () => {
      return await (await ethers.deployContract("ViewBatch")).getAddress();
    });
    return await Promise.all(deployed);
  }

  /** Addresses from which nobody could pass tokens on. */
  async deadEnds(): Promise<readonly string[]> {
    return await Promise.all([this.registry, this.token, this.escrow].map(async (one) => await one.getAddress()));
  }

  /** Terms that fit a provider made by `provider()`, with a nonce of their own. */
  async terms(changes: Partial<Terms> & { readonly duration?: number } = {}): Promise<Terms> {
    const { duration, ...rest } = changes;
    const maxPayment = changes.maxPayment ?? PAYMENT;
    return {
      nonce: ++this.#nonces,
      modelKey: MODEL_KEY,
      maxPayment,
      unsignedLimit: maxPayment / 2n,
      maxInputPrice: PRICE.input,
      maxOutputPrice: PRICE.output,
      deadline: BigInt((await time.latest()) + (duration ?? DURATION)),
      ...rest,
    };
  }

  async post(client: Account, provider: Provider, changes: Parameters<Market["terms"]>[0] = {}): Promise<Posted> {
    const terms = await this.terms(changes);
    await this.escrow.connect(client).postJob(provider.address, terms);
    return { jobId: await this.escrow.jobIdOf(client, terms.nonce), client, provider, terms };
  }

  /** A client's receipt, signed. */
  async receipt(
    signer: Account,
    message: {
      readonly jobId: string;
      readonly provider: AddressLike;
      readonly usage?: Usage;
      readonly responseHash?: string;
    },
    domain: TypedDataDomain = this.#domain,
  ): Promise<string> {
    const { jobId, provider, usage = USAGE, responseHash = RESPONSE_HASH } = message;
    const fields = { jobId, provider: await ethers.resolveAddress(provider), ...usage, responseHash };
    return await signer.signTypedData(domain, { Receipt: [...messageTypes.Receipt] }, fields);
  }

  /** A provider's acknowledgement of a job, signed. */
  async acknowledgement(
    signer: Account,
    message: { readonly jobId: string; readonly provider: AddressLike; readonly requestHash?: string },
    domain: TypedDataDomain = this.#domain,
  ): Promise<string> {
    const { jobId, provider, requestHash = REQUEST_HASH } = message;
    const fields = { jobId, provider: await ethers.resolveAddress(provider), requestHash };
    return await signer.signTypedData(domain, { Acknowledgement: [...messageTypes.Acknowledgement] }, fields);
  }

  /** The provider's operator settles a job, with its client's receipt unless told otherwise. */
  async complete(
    job: Posted,
    options: { readonly usage?: Usage; readonly signature?: string; readonly as?: Account } = {},
  ): Promise<ContractTransactionResponse> {
    const usage = options.usage ?? USAGE;
    const signature =
      options.signature ??
      (await this.receipt(job.client, { jobId: job.jobId, provider: job.provider.address, usage }));
    return await this.escrow
      .connect(options.as ?? job.provider.operator)
      .completeJob(job.jobId, usage, RESPONSE_HASH, signature);
  }

  async free(account: AddressLike): Promise<bigint> {
    return (await this.escrow.accountOf(account)).free;
  }

  async locked(account: AddressLike): Promise<bigint> {
    return (await this.escrow.accountOf(account)).locked;
  }

  async openJobs(provider: Provider): Promise<bigint> {
    return (await this.registry.providerOf(provider.address)).openJobs;
  }

  async statusOf(jobId: string): Promise<bigint> {
    return (await this.escrow.jobOf(jobId)).status;
  }
}

/** How to deploy a market other than the usual one. */
export interface MarketOptions {
  readonly parameters?: MarketParameters;
  /** The payment token, a test token of 6 decimals when absent. */
  readonly token?: TestToken;
  /** Deploys another registry, say a weakened one. */
  readonly deployRegistry?: (args: readonly unknown[]) => Promise<ProviderRegistry>;
  readonly deployEscrow?: (args: readonly unknown[]) => Promise<JobEscrow>;
}

/** Deploys token, registry and escrow, and lets the escrow take slots. */
export async function deployMarket(options: MarketOptions = {}): Promise<Market> {
  const accounts = await ethers.getSigners();
  const [admin] = accounts;
  const token = options.token ?? (await ethers.deployContract("TestToken", [6]));
  const { registry: registryParameters, escrow: escrowParameters } = splitParameters(options.parameters ?? {});
  const registryArgs = [await token.getAddress(), admin?.address, registryParameters];
  const registry =
    (await options.deployRegistry?.(registryArgs)) ?? (await ethers.deployContract("ProviderRegistry", registryArgs));
  const escrowArgs = [await registry.getAddress(), admin?.address, escrowParameters];
  const escrow = (await options.deployEscrow?.(escrowArgs)) ?? (await ethers.deployContract("JobEscrow", escrowArgs));
  await registry.setMarket(escrow, true);
  const { chainId } = await ethers.provider.getNetwork();
  const verifyingContract = (await escrow.getAddress()) as `0x${string}`;
  return new Market(
    { registry, escrow, token },
    accounts,
    typedDataDomain({ chainId: Number(chainId), escrow: verifyingContract }),
  );
}

/** Parameters of both constructors from one list. */
export function splitParameters(changes: MarketParameters): {
  readonly registry: Record<keyof typeof registryDefaults, BigNumberish>;
  readonly escrow: Record<keyof typeof escrowDefaults, BigNumberish>;
} {
  const all = { ...registryDefaults, ...escrowDefaults, ...changes };
  const { minStake, timeToLive, unbondingPeriod, collateralBps, ...escrow } = all;
  return { registry: { minStake, timeToLive, unbondingPeriod, collateralBps }, escrow };
}
