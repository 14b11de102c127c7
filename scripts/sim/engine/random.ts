import type { Random } from "../../../protocol/clock.ts";

/** mulberry32: the same sequence on every machine. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A source of its own for each purpose, so that what one part draws does not shift what another draws: common random numbers. */
export function substream(seed: number, purpose: string): Random {
  let mixed = seed | 0;
  for (let index = 0; index < purpose.length; index += 1)
    mixed = Math.imul(mixed ^ purpose.charCodeAt(index), 0x01000193);
  return seeded(mixed);
}

/** An exponentially distributed time with this mean. */
export function exponential(random: Random, mean: number): number {
  return -mean * Math.log(1 - random());
}
