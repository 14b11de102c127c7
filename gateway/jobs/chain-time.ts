import type { Clock } from "../../protocol/clock.ts";

/** Ms after a block in which the chain counts as one that makes blocks by itself. */
const liveMs = 60_000;

/**
 * The chain's time between blocks. A chain that is idle shows an old time, and the next block will show a new one: so the newest
 * block's time is carried on by our own clock, and never lies behind the wall clock.
 */
export class ChainTime {
  readonly #clock: Clock;
  #blockTimestamp = 0;
  #seenAt = 0;
  /** More than one block was seen: the first may have been old already. */
  #hasMoved = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A block was seen. @param timestamp Unix seconds. */
  observe(timestamp: number): void {
    if (timestamp <= this.#blockTimestamp) return;
    this.#hasMoved = this.#blockTimestamp !== 0;
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
    return Math.max(wall, this.#carriedSeconds());
  }

  /**
   * The same for what costs gas in vain when it comes too early: while the chain makes blocks it goes by them alone, as the wall clock
   * may be set wrong, or be set anew at any time.
   */
  steadySeconds(): number {
    const isLive = this.#hasMoved && this.#clock.monotonic() - this.#seenAt < liveMs;
    return isLive ? this.#carriedSeconds() : this.nowSeconds();
  }

  #carriedSeconds(): number {
    return this.#blockTimestamp + Math.floor((this.#clock.monotonic() - this.#seenAt) / 1000);
  }
}
