import {
  type Abi,
  type Address,
  type ContractFunctionArgs,
  type ContractFunctionName,
  createPublicClient,
  type EncodeFunctionDataParameters,
  encodeFunctionData,
  getAddress,
  type Hex,
  http,
  keccak256,
  numberToHex,
  type PublicClient,
  toHex,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { testTokenAbi } from "../../chain/abi/test-token.ts";
import type { Deployment } from "../../chain/deployment.ts";
import { acknowledgementTypedData, receiptTypedData } from "../../protocol/messages.ts";
import { modelKeyOf } from "../../protocol/model-key.ts";
import type { Usage } from "../../protocol/usage.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import type { TestChain } from "./chain.ts";
import { deployForTest } from "./deployment.ts";

/** Terms of a test job; the rest is chosen so that it fits. */
export interface TestJob {
  readonly client: Actor;
  readonly provider: Address;
  readonly model: string;
  readonly maxPayment?: bigint;
  readonly unsignedLimit?: bigint;
  /** Seconds from the chain's time. */
  readonly duration?: number;
}

/** Somebody with a key, ETH and tokens, whose transactions the node signs. */
export interface Actor {
  readonly address: Address;
  readonly key: Hex;
}

interface Receipt {
  readonly status: Hex;
  readonly blockNumber: Hex;
}

const gas = "0x7a1200";
const tokens = 10n ** 24n;

/** Contracts on a test chain, and people who use them directly, without any of the code under test. */
export class TestMarket {
  readonly chain: TestChain;
  readonly deployment: Deployment;
  readonly client: PublicClient;
  #actors = 0;
  #jobs = 0n;

  private constructor(chain: TestChain, deployment: Deployment) {
    this.chain = chain;
    this.deployment = deployment;
    this.client = createPublicClient({ transport: http(chain.rpcUrl), pollingInterval: 10, cacheTime: 0 });
  }

  static async open(chain: TestChain, parameters: Parameters<typeof deployForTest>[1] = {}): Promise<TestMarket> {
    return new TestMarket(chain, await deployForTest(chain, parameters));
  }

  /** A new account with ETH, that the node signs for. No two markets of one test file share one. */
  async actor(): Promise<Actor> {
    this.#actors += 1;
    const key = keccak256(toHex(`actor ${this.#actors} of ${this.deployment.registry}`));
    const { address } = privateKeyToAccount(key);
    await this.chain.rpc(`${this.chain.kind}_setBalance`, address, numberToHex(10n ** 20n));
    await this.chain.rpc(`${this.chain.kind}_impersonateAccount`, address);
    return { address, key };
  }

  /** A call of a contract as a transaction; resolves with the block in which it succeeded. */
  async send<const A extends Abi, N extends ContractFunctionName<A, "nonpayable" | "payable">>(
    from: Address,
    to: Address,
    abi: A,
    functionName: N,
    args: ContractFunctionArgs<A, "nonpayable" | "payable", N>,
  ): Promise<number> {
    const data = encodeFunctionData({ abi, functionName, args } as unknown as EncodeFunctionDataParameters);
    const hash = await this.chain.rpc("eth_sendTransaction", { from, to, data, gas });
    return await this.mined(String(hash), functionName);
  }

  /** Waits for a transaction's receipt; resolves with its block, rejects when it was reverted. */
  async mined(hash: string, what: string): Promise<number> {
    for (;;) {
      // Each turn is a call of the node, which mines by itself meanwhile.
      const receipt = (await this.chain.rpc("eth_getTransactionReceipt", hash)) as Receipt | null;
      if (receipt?.status === "0x1") return Number(receipt.blockNumber);
      if (receipt !== null) throw new Error(`${what} was reverted`);
    }
  }

  /** Calls of the registry by one of its people. */
  async registry<N extends ContractFunctionName<typeof providerRegistryAbi, "nonpayable">>(
    from: Address,
    functionName: N,
    args: ContractFunctionArgs<typeof providerRegistryAbi, "nonpayable", N>,
  ): Promise<number> {
    return await this.send(from, this.deployment.registry, providerRegistryAbi, functionName, args);
  }

  /** Calls of the escrow by one of its people. */
  async escrow<N extends ContractFunctionName<typeof jobEscrowAbi, "nonpayable">>(
    from: Address,
    functionName: N,
    args: ContractFunctionArgs<typeof jobEscrowAbi, "nonpayable", N>,
  ): Promise<number> {
    return await this.send(from, this.deployment.escrow, jobEscrowAbi, functionName, args);
  }

  /** Registers a new provider with stake, a cap and offerings by model id (price per million tokens, same for both kinds). */
  async provider(cap = 0, offerings: Readonly<Record<string, bigint>> = {}, operator?: Address): Promise<Actor> {
    const owner = await this.actor();
    await this.#giveTokens(owner.address, this.deployment.registry);
    await this.registry(owner.address, "register", [
      operator ?? owner.address,
      owner.address,
      `http://${owner.address}.test`,
      tokens,
    ]);
    if (cap !== 0) await this.registry(owner.address, "setMaxConcurrentJobs", [cap]);
    for (const [model, price] of Object.entries(offerings)) {
      await this.registry(owner.address, "setOffering", [model, price, price, 8192]);
    }
    return owner;
  }

  /** A new client with money in the escrow. */
  async funded(): Promise<Actor> {
    const client = await this.actor();
    await this.#giveTokens(client.address, this.deployment.escrow);
    await this.escrow(client.address, "deposit", [tokens]);
    return client;
  }

  async #giveTokens(to: Address, spender: Address): Promise<void> {
    const { token } = this.deployment;
    await this.send(to, token, testTokenAbi, "mint", [to, tokens]);
    await this.send(to, token, testTokenAbi, "approve", [spender, tokens]);
  }

  /** Posts a job; resolves with its id. */
  async post(job: TestJob): Promise<Hex> {
    this.#jobs += 1n;
    const nonce = this.#jobs;
    const maxPayment = job.maxPayment ?? 1_000_000n;
    const { timestamp } = await this.client.getBlock();
    await this.escrow(job.client.address, "postJob", [
      job.provider,
      {
        nonce,
        modelKey: modelKeyOf(job.model),
        maxPayment,
        unsignedLimit: job.unsignedLimit ?? maxPayment,
        maxInputPrice: 10n ** 18n,
        maxOutputPrice: 10n ** 18n,
        deadline: Number(timestamp) + (job.duration ?? 3600),
      },
    ]);
    const { escrow } = this.deployment;
    return await this.client.readContract({
      address: escrow,
      abi: jobEscrowAbi,
      functionName: "jobIdOf",
      args: [job.client.address, nonce],
    });
  }

  /** Completes a job, with the client's receipt when a client is given; sent by the provider's owner or another of its keys. */
  async complete(jobId: Hex, provider: Address, usage: Usage, client?: Actor, sender = provider): Promise<number> {
    const responseHash = bodyHash(jobId);
    const { chainId, escrow } = this.deployment;
    const signature =
      client === undefined
        ? "0x"
        : await privateKeyToAccount(client.key).signTypedData(
            receiptTypedData({ chainId, escrow }, { jobId, provider: getAddress(provider), usage, responseHash }),
          );
    const amounts = { inputTokens: BigInt(usage.inputTokens), outputTokens: BigInt(usage.outputTokens) };
    return await this.escrow(sender, "completeJob", [jobId, amounts, responseHash, signature]);
  }

  /** Slashes a job after its deadline with the provider's own acknowledgement. */
  async slash(jobId: Hex, client: Actor, provider: Actor): Promise<number> {
    const { chainId, escrow } = this.deployment;
    const requestHash = bodyHash(`request of ${jobId}`);
    const acknowledgement = await privateKeyToAccount(provider.key).signTypedData(
      acknowledgementTypedData({ chainId, escrow }, { jobId, provider: provider.address, requestHash }),
    );
    return await this.escrow(client.address, "slashJob", [jobId, requestHash, acknowledgement]);
  }

  /** Moves the chain's clock forward and mines a block. */
  async pass(seconds: number): Promise<void> {
    await this.chain.rpc("evm_increaseTime", seconds);
    await this.chain.rpc("evm_mine");
  }

  /** Mines empty blocks. */
  async mine(blocks = 1): Promise<void> {
    for (let block = 0; block < blocks; block += 1) await this.chain.rpc("evm_mine");
  }
}
