import type { Clock } from "../../protocol/clock.ts";

/**
 * The chain's time between blocks. A chain that is idle shows an old time, and the next block will show a new one: so the newest
 * block's time is carried on by our own clock, and never lies behind the wall clock.
 */
export class ChainTime {
  readonly #clock: Clock;
  #blockTimestamp = 0;
  #seenAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A block was seen. @param timestamp Unix seconds. */
  observe(timestamp: number): void {
    if (timestamp <= this.#blockTimestamp) return;
    this.#blockTimestamp = timestamp;
    this.#seenAt = this.#clock.monotonic();
  }

  /** Time of the newest block, Unix seconds; 0 before the first: what the chain itself has got past. */
  blockSeconds(): number {
    return this.#blockTimestamp;
  }

  /** Unix seconds at which a transaction sent now is likely to be mined. */
  nowSeconds(): number {
    const wall = Math.floor(this.#clock.now() / 1000);
    if (this.#blockTimestamp === 0) return wall;
    const carried = this.#blockTimestamp + Math.floor((this.#clock.monotonic() - this.#seenAt) / 1000);
    return Math.max(wall, carried);
  }
}
