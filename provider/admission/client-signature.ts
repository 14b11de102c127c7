import { type Address, encodeFunctionData, type Hex, type PublicClient } from "viem";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import { recoverSigner } from "../../protocol/signing.ts";

const isValidSignatureAbi = [
  {
    type: "function",
    name: "isValidSignature",
    stateMutability: "view",
    inputs: [
      { name: "hash", type: "bytes32" },
      { name: "signature", type: "bytes" },
    ],
    outputs: [{ name: "magicValue", type: "bytes4" }],
  },
] as const;

/** ERC-1271: what a contract answers for a good signature, padded to a word. */
const magicWord = `0x1626ba7e${"0".repeat(56)}`;
/** A contract wallet gets this much gas to check one signature; the node pays for the work. */
const checkGas = 1_000_000n;

/** Checks signatures of jobs' clients. */
export interface ClientSignatures {
  /** Whether `client` signed the digest. Rejects when the chain must be asked and cannot be. */
  isBy(client: Address, hash: Hex, signature: Hex): Promise<boolean>;
}

/**
 * Checks a key's signature by recovery, and a contract wallet's by ERC-1271. The contract that is called is the client of a job on
 * chain, in a call that only reads and whose gas is bounded.
 */
export function clientSignatures(chain: PublicClient): ClientSignatures {
  return {
    isBy: async (client, hash, signature) => {
      if (recoverSigner(hash, signature)?.toLowerCase() === client.toLowerCase()) return true;
      const code = await chain.getCode({ address: client });
      if (code === undefined || code === "0x") return false;
      return await isAcceptedBy(chain, client, hash, signature);
    },
  };
}

async function isAcceptedBy(chain: PublicClient, client: Address, hash: Hex, signature: Hex): Promise<boolean> {
  const data = encodeFunctionData({ abi: isValidSignatureAbi, args: [hash, signature] });
  try {
    const answer = await chain.call({ to: client, data, gas: checkGas });
    return answer.data === magicWord;
  } catch (error) {
    // A wallet that reverts says no; a node that cannot be asked says nothing.
    if (chainUnavailableIn(error) !== undefined) throw error;
    return false;
  }
}
