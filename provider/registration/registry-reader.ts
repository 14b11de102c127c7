import {
  type Address,
  BaseError,
  type ContractFunctionArgs,
  type ContractFunctionName,
  ContractFunctionRevertedError,
  type ContractFunctionReturnType,
  erc20Abi,
  type Hex,
  type PublicClient,
} from "viem";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { Prices } from "../../protocol/money.ts";

/** The node's own row of the registry. */
export interface RegisteredProvider {
  readonly owner: Address;
  readonly operator: Address;
  readonly active: boolean;
  readonly endpoint: string;
  /** 0 = no cap. */
  readonly maxConcurrentJobs: number;
  readonly openJobs: number;
  readonly stake: bigint;
  /** Chain time, Unix seconds. */
  readonly lastSeen: number;
}

/** A live offering as published. */
export interface PublishedOffering {
  readonly offeringId: number;
  readonly model: string;
  readonly modelKey: Hex;
  readonly prices: Prices;
  readonly contextLength: number;
}

/** What the registry fixes for ever. */
export interface RegistryRules {
  readonly token: Address;
  readonly minStake: bigint;
  /** Seconds after `lastSeen` in which a provider is live. */
  readonly timeToLive: number;
  /** Stake that a job holds, in basis points of its largest payment. */
  readonly collateralBps: number;
}

const pageSize = 100n;

/** Reads what a provider node needs of the registry. */
export class RegistryReader {
  readonly #client: PublicClient;
  readonly #address: Address;

  constructor(client: PublicClient, registry: Address) {
    this.#client = client;
    this.#address = registry;
  }

  /** The provider of an owner; undefined when it is not registered. */
  async provider(owner: Address): Promise<RegisteredProvider | undefined> {
    try {
      const view = await this.#read("providerOf", [owner]);
      return {
        owner: view.owner,
        operator: view.operator,
        active: view.active,
        endpoint: view.endpoint,
        maxConcurrentJobs: view.maxConcurrentJobs,
        openJobs: view.openJobs,
        stake: view.stake,
        lastSeen: view.lastSeen,
      };
    } catch (error) {
      if (isRevertedWith(error, "ProviderNotRegistered")) return undefined;
      throw error;
    }
  }

  /** The owner whose operator an account is; undefined when it is nobody's. */
  async ownerOfOperator(operator: Address): Promise<Address | undefined> {
    const owner = await this.#read("providerOfOperator", [operator]);
    return BigInt(owner) === 0n ? undefined : owner;
  }

  /** All live offerings of a provider, by model id. */
  async offerings(provider: Address): Promise<ReadonlyMap<string, PublishedOffering>> {
    const offerings = new Map<string, PublishedOffering>();
    for (let offset = 0n; ; offset += pageSize) {
      const page = await this.#read("offeringsPage", [provider, offset, pageSize]);
      for (const { offeringId, modelId, modelKey, inputPrice, outputPrice, contextLength } of page) {
        const prices = { inputPrice, outputPrice };
        offerings.set(modelId, { offeringId, model: modelId, modelKey, prices, contextLength });
      }
      if (BigInt(page.length) < pageSize) return offerings;
    }
  }

  /** The registry's constants. */
  async rules(): Promise<RegistryRules> {
    const [token, minStake, timeToLive, collateralBps] = await Promise.all([
      this.#read("token", []),
      this.#read("minStake", []),
      this.#read("timeToLive", []),
      this.#read("collateralBps", []),
    ]);
    return { token, minStake, timeToLive: Number(timeToLive), collateralBps: Number(collateralBps) };
  }

  /** Tokens of an account, and how many of them the registry may take. */
  async tokens(token: Address, account: Address): Promise<{ readonly balance: bigint; readonly allowance: bigint }> {
    const contract = { address: token, abi: erc20Abi } as const;
    const [balance, allowance] = await Promise.all([
      this.#client.readContract({ ...contract, functionName: "balanceOf", args: [account] }),
      this.#client.readContract({ ...contract, functionName: "allowance", args: [account, this.#address] }),
    ]);
    return { balance, allowance };
  }

  readonly #read: RegistryRead = async (functionName, args) =>
    (await this.#client.readContract({
      address: this.#address,
      abi: providerRegistryAbi,
      functionName,
      args,
    } as never)) as never;
}

type RegistryRead = <N extends ViewName>(
  functionName: N,
  args: ContractFunctionArgs<typeof providerRegistryAbi, "view" | "pure", N>,
) => Promise<ContractFunctionReturnType<typeof providerRegistryAbi, "view" | "pure", N>>;

type ViewName = ContractFunctionName<typeof providerRegistryAbi, "view" | "pure">;

/** Whether a call failed with a custom error of the contract. */
export function isRevertedWith(error: unknown, name: string): boolean {
  if (!(error instanceof BaseError)) return false;
  const revert = error.walk((link) => link instanceof ContractFunctionRevertedError);
  return revert instanceof ContractFunctionRevertedError && revert.data?.errorName === name;
}
