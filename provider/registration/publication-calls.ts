import { type Address, encodeFunctionData, erc20Abi, type Hex, keccak256 } from "viem";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { TransactionRequest } from "../../chain/transactions/types.ts";
import type { PublicationStep } from "./plan.ts";

/** Starts the key of every publication. */
export const publicationPrefix = "publish:";

/** Where a publication goes. */
export interface PublicationTarget {
  readonly chainId: number;
  readonly registry: Address;
  readonly token: Address;
}

/**
 * The transaction of one step.
 *
 * @param state Names the state of the chain that the step starts from and the attempt: after a crash the same step is the same
 * transaction, and the same step later, or on another deployment, is another.
 */
export function publicationRequest(
  target: PublicationTarget,
  step: PublicationStep,
  state: string,
): TransactionRequest {
  const data = encode(step, target.registry);
  const to = step.kind === "approve" ? target.token : target.registry;
  return {
    key: `${publicationPrefix}${target.chainId}:${to.toLowerCase()}:${step.kind}:${keccak256(data)}:${state}`,
    to,
    data,
    kind: step.kind,
  };
}

function encode(step: PublicationStep, registry: Address): Hex {
  const abi = providerRegistryAbi;
  switch (step.kind) {
    case "approve":
      return encodeFunctionData({ abi: erc20Abi, functionName: "approve", args: [registry, step.amount] });
    case "register": {
      const { operator, payout, endpoint, stake } = step;
      return encodeFunctionData({ abi, functionName: "register", args: [operator, payout, endpoint, stake] });
    }
    case "addStake":
      return encodeFunctionData({ abi, functionName: "addStake", args: [step.amount] });
    case "reactivate":
      return encodeFunctionData({ abi, functionName: "reactivate" });
    case "setMaxConcurrentJobs":
      return encodeFunctionData({ abi, functionName: "setMaxConcurrentJobs", args: [step.maxConcurrentJobs] });
    case "setEndpoint":
      return encodeFunctionData({ abi, functionName: "setEndpoint", args: [step.endpoint] });
    case "setOffering": {
      const { model, prices, contextLength } = step.offering;
      const args = [model, prices.inputPrice, prices.outputPrice, contextLength] as const;
      return encodeFunctionData({ abi, functionName: "setOffering", args });
    }
    case "removeOffering":
      return encodeFunctionData({ abi, functionName: "removeOffering", args: [step.model] });
  }
}
