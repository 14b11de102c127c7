import {
  type Address,
  createPublicClient,
  createWalletClient,
  encodeFunctionData,
  type Hex,
  http,
  type PublicClient,
  parseEventLogs,
} from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../../chain/abi/provider-registry.ts";
import { testTokenAbi } from "../../../chain/abi/test-token.ts";
import type { Deployment } from "../../../chain/deployment.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { authorizationTypedData, type MessageDomain, receiptTypedData } from "../../../protocol/messages.ts";
import { modelKeyOf } from "../../../protocol/model-key.ts";
import type { Usage } from "../../../protocol/usage.ts";
import { encodeAuthorization, encodeDelivered, wireHeaders } from "../../../protocol/wire.ts";
import type { DeploymentParameters } from "../../../scripts/deploy.ts";
import { startHardhatChain, type TestChain } from "../../support/chain.ts";
import { deployForTest, fundAccount, sendUnlocked } from "../../support/deployment.ts";

/** Model of the provider tests. */
export const testModel = "acme/tiny";
/** Wei per million tokens, so that one token costs these. */
export const testPrices = { inputPrice: 2_000_000n, outputPrice: 6_000_000n };

/** A fresh chain with the contracts, and one client with money in the escrow. */
export interface Market {
  readonly chain: TestChain;
  readonly deployment: Deployment;
  readonly reader: PublicClient;
  readonly client: TestClient;
  /** A funded key for a provider, with tokens for its stake. */
  providerKey(): Promise<Hex>;
  /** Gives an account tokens of the market. */
  mint(to: Address, amount: bigint): Promise<void>;
  /** Another client with money in the escrow. */
  newClient(): Promise<TestClient>;
  stop(): Promise<void>;
}

/** Starts a Hardhat chain in a process of its own and deploys. */
export async function startMarket(parameters: Partial<DeploymentParameters> = {}): Promise<Market> {
  const chain = await startHardhatChain();
  const deployment = await deployForTest(chain, parameters);
  const reader = createPublicClient({ transport: http(chain.rpcUrl), pollingInterval: 10, cacheTime: 0 });
  const mint = async (to: Address, amount: bigint): Promise<void> => {
    const data = encodeFunctionData({ abi: testTokenAbi, functionName: "mint", args: [to, amount] });
    await sendUnlocked(chain, chain.account(0).address, deployment.token, data);
  };
  const newClient = async (): Promise<TestClient> => {
    const account = privateKeyToAccount(generatePrivateKey());
    await fundAccount(chain, account.address);
    await mint(account.address, 10n ** 12n);
    const client = new TestClient(account, chain.rpcUrl, deployment, reader);
    await client.deposit(10n ** 12n);
    return client;
  };
  return {
    chain,
    deployment,
    reader,
    client: await newClient(),
    providerKey: async () => {
      const key = generatePrivateKey();
      const { address } = privateKeyToAccount(key);
      await fundAccount(chain, address);
      await mint(address, 10n ** 12n);
      return key;
    },
    mint,
    newClient,
    stop: async () => await chain.stop(),
  };
}

/** Terms of a test job; each has a default. */
export interface TestTerms {
  readonly model?: string;
  readonly maxPayment?: bigint;
  readonly unsignedLimit?: bigint;
  /** Seconds from the chain's now. */
  readonly duration?: number;
}

/** A job that a test posted. */
export interface PostedJob {
  readonly jobId: Hex;
  readonly blockNumber: bigint;
}

/** What a gateway does, by hand. */
export class TestClient {
  readonly account: PrivateKeyAccount;
  readonly domain: MessageDomain;
  readonly #deployment: Deployment;
  readonly #reader: PublicClient;
  readonly #wallet;
  #nonce = 0n;
  #lane: Promise<unknown> = Promise.resolve();

  constructor(account: PrivateKeyAccount, rpcUrl: string, deployment: Deployment, reader: PublicClient) {
    this.account = account;
    this.domain = { chainId: deployment.chainId, escrow: deployment.escrow };
    this.#deployment = deployment;
    this.#reader = reader;
    this.#wallet = createWalletClient({ account, transport: http(rpcUrl) });
  }

  async deposit(amount: bigint): Promise<void> {
    const { token, escrow } = this.#deployment;
    await this.send(token, encodeFunctionData({ abi: testTokenAbi, functionName: "approve", args: [escrow, amount] }));
    await this.send(escrow, encodeFunctionData({ abi: jobEscrowAbi, functionName: "deposit", args: [amount] }));
  }

  /** Sends a transaction and waits for it; throws when it reverts. */
  async send(to: Address, data: Hex) {
    const run = this.#lane.then(async () => {
      const hash = await this.#wallet.sendTransaction({ chain: null, to, data, gas: 1_000_000n });
      const receipt = await this.#reader.waitForTransactionReceipt({ hash });
      if (receipt.status !== "success") throw new Error(`transaction ${hash} reverted`);
      return receipt;
    });
    this.#lane = run.catch(() => undefined);
    return await run;
  }

  /** Posts a job to one provider. */
  async post(provider: Address, terms: TestTerms = {}): Promise<PostedJob> {
    const { timestamp } = await this.#reader.getBlock();
    const now = Math.max(Number(timestamp), Math.floor(Date.now() / 1000));
    this.#nonce += 1n;
    const maxPayment = terms.maxPayment ?? 1_000_000n;
    const data = encodeFunctionData({
      abi: jobEscrowAbi,
      functionName: "postJob",
      args: [
        provider,
        {
          nonce: this.#nonce,
          modelKey: modelKeyOf(terms.model ?? testModel),
          maxPayment,
          unsignedLimit: terms.unsignedLimit ?? 0n,
          maxInputPrice: 2n ** 95n,
          maxOutputPrice: 2n ** 95n,
          deadline: now + (terms.duration ?? 600),
        },
      ],
    });
    const receipt = await this.send(this.#deployment.escrow, data);
    const [posted] = parseEventLogs({ abi: jobEscrowAbi, eventName: "JobPosted", logs: receipt.logs });
    if (posted === undefined) throw new Error("no JobPosted event");
    return { jobId: posted.args.jobId, blockNumber: receipt.blockNumber };
  }

  /** Id of the job that `post` posts next. */
  async nextJobId(): Promise<Hex> {
    return await this.#reader.readContract({
      address: this.#deployment.escrow,
      abi: jobEscrowAbi,
      functionName: "jobIdOf",
      args: [this.account.address, this.#nonce + 1n],
    });
  }

  async requestCancel(jobId: Hex): Promise<void> {
    await this.send(
      this.#deployment.escrow,
      encodeFunctionData({ abi: jobEscrowAbi, functionName: "requestCancel", args: [jobId] }),
    );
  }

  /** Headers of a request for a job. */
  async headers(job: PostedJob, body: string, expiresInSeconds = 300): Promise<Record<string, string>> {
    const expiresAt = Math.floor(Date.now() / 1000) + expiresInSeconds;
    const message = { jobId: job.jobId, requestHash: bodyHash(body), expiresAt };
    const signature = await this.account.signTypedData(authorizationTypedData(this.domain, message));
    return {
      "content-type": "application/json",
      [wireHeaders.jobId]: job.jobId,
      [wireHeaders.authorization]: encodeAuthorization({ expiresAt, signature }),
      [wireHeaders.blockNumber]: String(job.blockNumber),
    };
  }

  /** Sends a completion request for a job. */
  async request(url: string, job: PostedJob, body: string, signal?: AbortSignal): Promise<Response> {
    const headers = await this.headers(job, body);
    return await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** JSON of a signed receipt. */
  async receipt(provider: Address, jobId: Hex, usage: Usage, responseHash: Hex): Promise<string> {
    const data = receiptTypedData(this.domain, { jobId, provider, usage, responseHash });
    return encodeDelivered(usage, responseHash, await this.account.signTypedData(data));
  }

  /** Sends a receipt. */
  async sendReceipt(url: string, provider: Address, jobId: Hex, usage: Usage, responseHash: Hex): Promise<Response> {
    const body = await this.receipt(provider, jobId, usage, responseHash);
    return await fetch(`${url}/v1/jobs/${jobId}/receipt`, { method: "POST", body });
  }
}

/** A job as the escrow has it. */
export async function jobOnChain(market: Market, jobId: Hex) {
  return await market.reader.readContract({
    address: market.deployment.escrow,
    abi: jobEscrowAbi,
    functionName: "jobOf",
    args: [jobId],
  });
}

/** The provider as the registry has it. */
export async function providerOnChain(market: Market, provider: Address) {
  return await market.reader.readContract({
    address: market.deployment.registry,
    abi: providerRegistryAbi,
    functionName: "providerOf",
    args: [provider],
  });
}

/** Names of all registry and escrow events, in order, with their arguments. */
export async function eventsOf(market: Market) {
  const { registry, escrow, deployedAtBlock } = market.deployment;
  const range = { fromBlock: BigInt(deployedAtBlock), toBlock: "latest" } as const;
  const [ofRegistry, ofEscrow] = await Promise.all([
    market.reader.getContractEvents({ address: registry, abi: providerRegistryAbi, ...range }),
    market.reader.getContractEvents({ address: escrow, abi: jobEscrowAbi, ...range }),
  ]);
  return { registry: ofRegistry, escrow: ofEscrow };
}
