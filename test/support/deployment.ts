import { type Address, type Hex, numberToHex } from "viem";
import type { Deployment } from "../../chain/deployment.ts";
import { type DeploymentParameters, deployContracts } from "../../scripts/deploy.ts";
import type { TestChain } from "./chain.ts";

/** Deploys the contracts with the chain's account 0, which then owns them and may mint the test token. */
export async function deployForTest(
  chain: TestChain,
  parameters: Partial<DeploymentParameters> = {},
): Promise<Deployment> {
  return await deployContracts({ rpcUrl: chain.rpcUrl, key: chain.account(0).key, parameters, pollMs: 10 });
}

/** Sets an account's ETH, with no transaction. */
export async function fundAccount(chain: TestChain, address: Address, wei: bigint = 10n ** 20n): Promise<void> {
  await chain.rpc(`${chain.kind}_setBalance`, address, numberToHex(wei));
}

/** Sends a transaction from one of the chain's own accounts and waits until it is mined; the node signs. Rejects when it reverts. */
export async function sendUnlocked(chain: TestChain, from: Address, to: Address, data: Hex): Promise<void> {
  const hash = await chain.rpc("eth_sendTransaction", { from, to, data, gas: "0x2dc6c0" });
  for (;;) {
    // Each turn waits for the node's answer, and the node mines by itself.
    const receipt = (await chain.rpc("eth_getTransactionReceipt", hash)) as { readonly status: Hex } | null;
    if (receipt?.status === "0x1") return;
    if (receipt !== null) throw new Error(`the transaction ${String(hash)} was reverted`);
  }
}
