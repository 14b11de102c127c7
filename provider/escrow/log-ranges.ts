import type { RangePacer } from "../../chain/registry-index/range-pacer.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";

/** Blocks to read logs of, both ends included. */
export interface BlockRange {
  readonly from: bigint;
  readonly to: bigint;
}

/** How to read logs of many blocks. */
export interface LogWalk {
  readonly range: BlockRange;
  readonly pacer: RangePacer;
  /** Reads one part; rejects when the node does not answer so many blocks. */
  readonly read: (part: BlockRange) => Promise<void>;
  /** Asked before each part; true ends the walk. */
  readonly isStopped: () => boolean;
}

/**
 * Reads a range in parts that the node answers, from the oldest block up: nodes bound what one call may ask for, each in its own way.
 *
 * @throws The node's error when it cannot be reached, or refuses even a single block.
 */
export async function walkLogs({ range, pacer, read, isStopped }: LogWalk): Promise<void> {
  let { from } = range;
  while (from <= range.to && !isStopped()) {
    const left = range.to - from + 1n;
    const blocks = left < BigInt(pacer.blocks) ? Number(left) : pacer.blocks;
    const to = from + BigInt(blocks) - 1n;
    try {
      await read({ from, to });
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined || !pacer.refused(blocks)) throw error;
      continue;
    }
    pacer.served(blocks);
    from = to + 1n;
  }
}
