import type { Random } from "../../protocol/clock.ts";

/** A uniform source that repeats itself for the same seed (unsigned 32-bit); for texts, not for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    return mix(state) / 2 ** 32;
  };
}

/** An unsigned 32-bit hash of numbers, order included. */
export function hashNumbers(numbers: Iterable<number>, start = 0x811c9dc5): number {
  let hash = start >>> 0;
  for (const number of numbers) hash = mix(Math.imul(hash ^ number, 0x01000193) >>> 0);
  return hash;
}

function mix(value: number): number {
  let mixed = value >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}
