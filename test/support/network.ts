import { createPublicClient, http, type PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { LocalNetwork } from "../../scripts/network/local-network.ts";
import { type OfferingSpecification, oneToken } from "../../scripts/network/specification.ts";

/** Model of the end-to-end tests, by the name that clients use. */
export const testModel = "t4t/tiny";

/** An offering of the test model at `price` tokens per million of either kind. */
export function testOffering(price = 2n, model = testModel): OfferingSpecification {
  return {
    model,
    backendModel: "tiny",
    inputPrice: price * oneToken,
    outputPrice: price * 3n * oneToken,
    contextLength: 32_768,
  };
}

/** A reader of the network's chain that polls fast. */
export function chainReader(network: LocalNetwork): PublicClient {
  return createPublicClient({ transport: http(network.rpcUrl), pollingInterval: 20, cacheTime: 0 });
}

/** Events of both contracts from the first block on, in order. */
export async function contractEvents(network: LocalNetwork) {
  const reader = chainReader(network);
  const range = { fromBlock: BigInt(network.deployment.deployedAtBlock), toBlock: "latest" } as const;
  const [registry, escrow] = await Promise.all([
    reader.getContractEvents({ address: network.deployment.registry, abi: providerRegistryAbi, ...range }),
    reader.getContractEvents({ address: network.deployment.escrow, abi: jobEscrowAbi, ...range }),
  ]);
  return { registry, escrow };
}

/** The provider as the chain has it now. */
export async function providerOnChain(network: LocalNetwork, address: `0x${string}`) {
  return await chainReader(network).readContract({
    address: network.deployment.registry,
    abi: providerRegistryAbi,
    functionName: "providerOf",
    args: [address],
  });
}

/** Free and locked money of one account in the escrow. */
export async function escrowAccount(network: LocalNetwork, address: `0x${string}`) {
  return await chainReader(network).readContract({
    address: network.deployment.escrow,
    abi: jobEscrowAbi,
    functionName: "accountOf",
    args: [address],
  });
}
