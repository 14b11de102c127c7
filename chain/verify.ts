import type { Address, PublicClient } from "viem";
import { jobEscrowAbi } from "./abi/job-escrow.ts";
import { providerRegistryAbi } from "./abi/provider-registry.ts";
import type { Deployment } from "./deployment.ts";
import { chainUnavailableIn } from "./rpc-errors.ts";
import type { ChainTarget } from "./settings.ts";

/** The chain or its contracts are not those of the settings. No waiting cures that, so a program refuses to run. */
export class WrongChainError extends Error {
  override readonly name = "WrongChainError";
}

/** The contracts' interface that this program was written for. */
const knownVersion = "1";

/**
 * Checks that the RPC serves the configured chain, that registry, escrow and token have code, know each other, and that the escrow
 * speaks this program's version. Returns the deployment with what the settings left open filled in.
 *
 * @throws WrongChainError naming the variable to look at; `ChainUnavailableError` (perhaps wrapped) when the chain cannot be asked.
 */
export async function verifyChain(client: PublicClient, target: ChainTarget): Promise<Deployment> {
  const chainId = await client.getChainId();
  if (chainId !== target.chainId) {
    throw new WrongChainError(
      `T4T_RPC_URL leads to chain ${chainId}, but T4T_DEPLOYMENT_FILE (or T4T_CHAIN_ID) says ${target.chainId}: set one of them right`,
    );
  }
  await Promise.all([
    requireCode(client, target.registry, "registry", "T4T_REGISTRY_ADDRESS"),
    requireCode(client, target.escrow, "escrow", "T4T_ESCROW_ADDRESS"),
  ]);
  const escrow = { address: target.escrow, abi: jobEscrowAbi } as const;
  const registry = { address: target.registry, abi: providerRegistryAbi } as const;
  const [version, registryOfEscrow, tokenOfEscrow, tokenOfRegistry] = await Promise.all([
    client
      .readContract({ ...escrow, functionName: "version" })
      .catch(notOurs(target.escrow, "JobEscrow", "T4T_ESCROW_ADDRESS")),
    client
      .readContract({ ...escrow, functionName: "registry" })
      .catch(notOurs(target.escrow, "JobEscrow", "T4T_ESCROW_ADDRESS")),
    client
      .readContract({ ...escrow, functionName: "token" })
      .catch(notOurs(target.escrow, "JobEscrow", "T4T_ESCROW_ADDRESS")),
    client
      .readContract({ ...registry, functionName: "token" })
      .catch(notOurs(target.registry, "ProviderRegistry", "T4T_REGISTRY_ADDRESS")),
  ]);
  if (version !== knownVersion) {
    throw new WrongChainError(
      `the escrow at ${target.escrow} has version ${version}, but this program knows version ${knownVersion}: update it, or set T4T_ESCROW_ADDRESS (or T4T_DEPLOYMENT_FILE) to an escrow of that version`,
    );
  }
  if (registryOfEscrow !== target.registry) {
    throw new WrongChainError(
      `the escrow at ${target.escrow} belongs to the registry ${registryOfEscrow}, not to ${target.registry}: set T4T_REGISTRY_ADDRESS and T4T_ESCROW_ADDRESS (or T4T_DEPLOYMENT_FILE) to contracts of one deployment`,
    );
  }
  if (tokenOfEscrow !== tokenOfRegistry || (target.token !== undefined && target.token !== tokenOfEscrow)) {
    throw new WrongChainError(
      `the contracts take the token ${tokenOfEscrow}, not ${target.token ?? tokenOfRegistry}: the token in T4T_DEPLOYMENT_FILE is that of another deployment`,
    );
  }
  await requireCode(client, tokenOfEscrow, "token", "T4T_ESCROW_ADDRESS");
  return Object.freeze({
    chainId,
    registry: target.registry,
    escrow: target.escrow,
    token: tokenOfEscrow,
    deployedAtBlock: target.deployedAtBlock ?? 0,
  });
}

async function requireCode(client: PublicClient, address: Address, what: string, variable: string): Promise<void> {
  const code = await client.getCode({ address });
  if (code !== undefined && code !== "0x") return;
  throw new WrongChainError(
    `there is no contract at ${address}, the address of the ${what}: set ${variable} (or T4T_DEPLOYMENT_FILE) to one on this chain`,
  );
}

function notOurs(address: Address, contract: string, variable: string): (error: unknown) => never {
  return (cause) => {
    if (chainUnavailableIn(cause) !== undefined) throw cause;
    throw new WrongChainError(
      `the contract at ${address} is no ${contract}: set ${variable} (or T4T_DEPLOYMENT_FILE) right`,
      { cause },
    );
  };
}
