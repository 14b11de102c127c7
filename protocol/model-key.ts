import { type Hex, keccak256, stringToBytes } from "viem";

/** The on-chain key of a model id: keccak256 of its UTF-8 bytes, without any normalisation. */
export function modelKeyOf(modelId: string): Hex {
  return keccak256(stringToBytes(modelId));
}
