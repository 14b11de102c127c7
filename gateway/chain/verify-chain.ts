import type { Address, PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import type { ChainTarget } from "../../chain/settings.ts";

/** The chain or its contracts are not those of the settings: no waiting cures that. */
export class WrongChainError extends Error {
  override readonly name = "WrongChainError";
}

const knownVersion = "1";

/**
 * Checks chain id, code at both addresses, the escrow's version, and that the two contracts belong together.
 *
 * @throws WrongChainError naming what differs; chain errors when the chain cannot be asked.
 */
export async function verifyChain(client: PublicClient, target: ChainTarget): Promise<void> {
  const chainId = await client.getChainId();
  if (chainId !== target.chainId) {
    throw new WrongChainError(`the RPC serves chain ${chainId}, but the settings name chain ${target.chainId}`);
  }
  const [registryCode, escrowCode] = await Promise.all([
    client.getCode({ address: target.registry }),
    client.getCode({ address: target.escrow }),
  ]);
  requireCode("registry", target.registry, registryCode);
  requireCode("escrow", target.escrow, escrowCode);
  const escrow = { address: target.escrow, abi: jobEscrowAbi } as const;
  const [version, registry] = await Promise.all([
    client.readContract({ ...escrow, functionName: "version" }).catch(notAnEscrow(target.escrow)),
    client.readContract({ ...escrow, functionName: "registry" }).catch(notAnEscrow(target.escrow)),
  ]);
  if (version !== knownVersion) {
    throw new WrongChainError(`the escrow has version ${version}, but this program knows version ${knownVersion}`);
  }
  if (registry.toLowerCase() !== target.registry.toLowerCase()) {
    throw new WrongChainError(`the escrow belongs to the registry ${registry}, not to ${target.registry}`);
  }
}

function requireCode(what: string, address: Address, code: string | undefined): void {
  if (code === undefined || code === "0x") {
    throw new WrongChainError(`there is no contract at the ${what}'s address ${address}`);
  }
}

function notAnEscrow(address: Address): (error: unknown) => never {
  return (cause) => {
    if (chainUnavailableIn(cause) !== undefined) throw cause;
    throw new WrongChainError(`the contract at ${address} is no JobEscrow`, { cause });
  };
}
