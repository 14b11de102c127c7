import { join } from "node:path";
import { type Participant, participant } from "../../scripts/network/accounts.ts";
import { repositoryRoot } from "../../scripts/network/chain-process.ts";
import { type Child, inheritedEnvironment, startChild } from "../../scripts/network/child-process.ts";
import { fundNetwork } from "../../scripts/network/funding.ts";
import type { LocalNetwork } from "../../scripts/network/local-network.ts";
import { usablePort } from "../../scripts/network/ports.ts";

/** A gateway process that a test starts by itself, ready or not. */
export interface GatewayProcess {
  readonly url: string;
  readonly participant: Participant;
  readonly child: Child;
}

/** A wallet of the network by name, with ETH for gas and a deposit in the escrow. */
export async function fundedWallet(network: LocalNetwork, name: string, deposit: bigint): Promise<Participant> {
  const wallet = participant(network.funder.key, name);
  await fundNetwork({
    rpcUrl: network.rpcUrl,
    deployment: network.deployment,
    funderKey: network.funder.key,
    gateways: [wallet.account.address],
    providers: [],
    gatewayDeposit: deposit,
    providerTokens: 0n,
    mayMint: true,
  });
  return wallet;
}

/**
 * Starts a gateway beside those of the network and waits for nothing. `env` comes on top; an empty value takes a variable away.
 * The caller stops it.
 */
export async function startGatewayProcess(
  network: LocalNetwork,
  wallet: Participant,
  env: Readonly<Record<string, string>> = {},
): Promise<GatewayProcess> {
  const port = await usablePort("T4T_GATEWAY_PORT", 0);
  const child = startChild({
    name: wallet.role,
    args: [join(repositoryRoot, "gateway", "main.ts")],
    cwd: repositoryRoot,
    logFile: join(network.dataDir, "logs", `${wallet.role}.log`),
    env: {
      ...inheritedEnvironment(),
      T4T_RPC_URL: network.rpcUrl,
      T4T_DEPLOYMENT_FILE: network.deploymentFile,
      T4T_DATA_DIR: join(network.dataDir, wallet.role),
      T4T_PRIVATE_KEY: wallet.key,
      T4T_GATEWAY_PORT: String(port),
      T4T_ALLOW_PRIVATE_ENDPOINTS: "true",
      T4T_CHAIN_POLL_MS: "100",
      ...env,
    },
  });
  return { url: `http://127.0.0.1:${port}`, participant: wallet, child };
}
