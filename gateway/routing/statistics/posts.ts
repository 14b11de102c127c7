import type { Address } from "viem";

/** A post that this gateway has sent and the index does not show yet. */
export interface PostHandle {
  /**
   * The post was mined in a block: it stays counted, at the provider that got the job, until the index has reached that block.
   * Does nothing after `mined` or `drop`.
   */
  mined(provider: Address, blockNumber: number): void;
  /** The post reverted, was abandoned or went to nobody. Does nothing after `mined` or `drop`. */
  drop(): void;
}

/** Posts that are not yet in the index's `openJobs`, so that a gateway does not overbook a provider between two blocks. */
export class Posts {
  readonly #counts = new Map<Address, number>();
  readonly #mined = new Map<number, Address[]>();
  /** Block up to which a provider is known to be full. */
  readonly #full = new Map<Address, number>();
  #indexedBlock = -1;

  /** Counts a post to come. @param provider The likeliest to get it: the first of the candidates. */
  open(provider: Address): PostHandle {
    this.#change(provider, 1);
    let settled = false;
    return {
      mined: (actual, blockNumber) => {
        if (settled) return;
        settled = true;
        this.#change(provider, -1);
        if (blockNumber <= this.#indexedBlock) return;
        this.#change(actual, 1);
        const list = this.#mined.get(blockNumber);
        if (list === undefined) this.#mined.set(blockNumber, [actual]);
        else list.push(actual);
      },
      drop: () => {
        if (settled) return;
        settled = true;
        this.#change(provider, -1);
      },
    };
  }

  /**
   * A provider refused for capacity: its slots were all taken as of a block. Until the index has passed that block, asking it again would
   * only be refused again.
   */
  refused(provider: Address, blockNumber: number): void {
    if (blockNumber > this.#indexedBlock)
      this.#full.set(provider, Math.max(blockNumber, this.#full.get(provider) ?? 0));
  }

  /** Whether a refusal tells more than the index. */
  isKnownFull(provider: Address): boolean {
    return this.#full.size > 0 && this.#full.has(provider);
  }

  /** The index is complete up to this block: its `openJobs` hold what was mined until there. */
  indexed(blockNumber: number): void {
    this.#indexedBlock = blockNumber;
    for (const [provider, block] of this.#full) if (block <= blockNumber) this.#full.delete(provider);
    for (const [block, providers] of this.#mined) {
      if (block > blockNumber) continue;
      this.#mined.delete(block);
      for (const provider of providers) this.#change(provider, -1);
    }
  }

  /** Posts not in the index at one provider. */
  of(provider: Address): number {
    return this.#counts.size === 0 ? 0 : (this.#counts.get(provider) ?? 0);
  }

  #change(provider: Address, by: 1 | -1): void {
    const count = (this.#counts.get(provider) ?? 0) + by;
    if (count === 0) this.#counts.delete(provider);
    else this.#counts.set(provider, count);
  }
}
