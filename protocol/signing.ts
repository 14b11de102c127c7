import { pointFromScalar, recover, signRecoverable } from "tiny-secp256k1";
import {
  type Address,
  bytesToBigInt,
  bytesToHex,
  getAddress,
  type Hex,
  hashMessage,
  hashTypedData,
  hexToBytes,
  keccak256,
  type LocalAccount,
  serializeTransaction,
} from "viem";
import { toAccount } from "viem/accounts";

/** Half of the order of secp256k1: a greater `s` is the malleable twin of a signature, which the contracts refuse. */
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/** A key that cannot sign. The key is never part of the message. */
export class InvalidKeyError extends Error {
  override readonly name = "InvalidKeyError";
}

interface SignatureParts {
  readonly r: Hex;
  readonly s: Hex;
  readonly yParity: 0 | 1;
}

/**
 * A viem account for a private key, signing with libsecp256k1 in WebAssembly: the same deterministic signatures (RFC 6979, low `s`) as
 * viem's own at a third of the time. Throws `InvalidKeyError` for 0 and for anything that is no 32-byte scalar below the order.
 */
export function accountFromKey(key: Hex): LocalAccount {
  let privateKey: Uint8Array;
  let publicKey: Uint8Array | null;
  try {
    privateKey = hexToBytes(key, { size: 32 });
    publicKey = pointFromScalar(privateKey, false);
  } catch {
    throw new InvalidKeyError("the private key is not 32 bytes of hexadecimal digits, or not a number of the curve");
  }
  if (publicKey === null) throw new InvalidKeyError("the private key is not a number of the curve");
  const sign = (hash: Hex): SignatureParts => {
    const { signature, recoveryId } = signRecoverable(hexToBytes(hash), privateKey);
    return {
      r: bytesToHex(signature.subarray(0, 32)),
      s: bytesToHex(signature.subarray(32)),
      yParity: recoveryId === 1 ? 1 : 0,
    };
  };
  const signHash = async (hash: Hex): Promise<Hex> => {
    const { r, s, yParity } = sign(hash);
    const signature: Hex = `${r}${s.slice(2)}${yParity === 0 ? "1b" : "1c"}`;
    return await Promise.resolve(signature);
  };
  return toAccount({
    address: addressOf(publicKey),
    sign: async ({ hash }) => await signHash(hash),
    signMessage: async ({ message }) => await signHash(hashMessage(message)),
    signTypedData: async (typedData) => await signHash(hashTypedData(typedData)),
    signTransaction: async (transaction, options) => {
      const serializer = options?.serializer ?? serializeTransaction;
      const unsigned = await serializer(transaction);
      return await serializer(transaction, sign(keccak256(unsigned)));
    },
  });
}

/**
 * Who signed a hash: the address behind a 65-byte `r s v` signature, checksummed; undefined for anything that the contracts would
 * not take either (another length, `v` not 27 or 28, a high `s`, no such point).
 */
export function recoverSigner(hash: Hex, signature: Hex): Address | undefined {
  if (!/^0x[0-9a-fA-F]{130}$/.test(signature)) return undefined;
  const bytes = hexToBytes(signature);
  const v = bytes[64];
  if (v !== 27 && v !== 28) return undefined;
  if (bytesToBigInt(bytes.subarray(32, 64)) > halfOrder) return undefined;
  try {
    const publicKey = recover(hexToBytes(hash), bytes.subarray(0, 64), v === 27 ? 0 : 1, false);
    return publicKey === null ? undefined : addressOf(publicKey);
  } catch {
    return undefined;
  }
}

function addressOf(uncompressedPublicKey: Uint8Array): Address {
  return getAddress(`0x${keccak256(uncompressedPublicKey.subarray(1)).slice(-40)}`);
}
