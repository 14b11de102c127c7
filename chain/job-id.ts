import { type Address, encodeAbiParameters, type Hex, keccak256 } from "viem";

const parameters = [{ type: "uint256" }, { type: "address" }, { type: "address" }, { type: "uint256" }] as const;

/**
 * The id that a client's job of some nonce gets, exactly as `JobEscrow.jobIdOf`: known before the job is posted, and the same for a
 * post that is tried again. Pure.
 */
export function jobIdOf(chainId: number, escrow: Address, client: Address, nonce: bigint): Hex {
  return keccak256(encodeAbiParameters(parameters, [BigInt(chainId), escrow, client, nonce]));
}
