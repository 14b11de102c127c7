import type { Address } from "viem";

/** Virtual nodes of a member: the share error of a member is about 1 / sqrt(150) = 8 %. */
export const virtualNodes = 150;

/**
 * Places of a member on every ring, ascending, as unsigned 32-bit numbers. They depend on the address alone, so all gateways agree and
 * a member keeps its keys over restarts.
 */
export function virtualPositions(address: Address, count = virtualNodes): Uint32Array {
  let a = 0x9e3779b9;
  let b = 0x85ebca6b;
  for (let index = 0; index < address.length; index += 1) {
    // Lower case of hexadecimal digits: a checksummed and a plain address are one member.
    const code = address.charCodeAt(index) | 0x20;
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x5bd1e995) ^ (b >>> 15);
  }
  const positions = new Uint32Array(count);
  for (let index = 0; index < count; index += 1) {
    positions[index] = scatter(scatter(a + Math.imul(index, 0x9e3779b9)) ^ b);
  }
  return positions.toSorted();
}

/** A bijection of 32-bit numbers that flips about half of the bits for any changed bit (the finalizer of MurmurHash3). */
function scatter(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
