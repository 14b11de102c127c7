import type { Hex } from "viem";

/** A block that was seen: enough to find out later whether the chain still has it. */
export interface SeenBlock {
  readonly number: string;
  readonly hash: Hex;
}

/** Blocks at the newest end that are all kept. */
const denseBlocks = 12;

/**
 * Adds a block to a locator: seen blocks, newest first, the last `denseBlocks` of them and then ever sparser ones (as in Bitcoin's block
 * locators), so that the block at which two branches part is known to within a few times its depth, however deep it is. What is not
 * below the new block is dropped; the oldest block always stays. Pure.
 */
export function withBlock(locator: readonly SeenBlock[], block: SeenBlock): readonly SeenBlock[] {
  const newest = BigInt(block.number);
  const below = locator.filter(({ number }) => BigInt(number) < newest);
  const kept: SeenBlock[] = [block];
  let last = newest;
  for (const [index, seen] of below.entries()) {
    const older = below[index + 1];
    // Without this block, the step from the last one to the next would be wider than half the last one's depth.
    const isNeeded = older === undefined || (last - BigInt(older.number)) * 2n > newest - last;
    if (kept.length >= denseBlocks && !isNeeded) continue;
    kept.push(seen);
    last = BigInt(seen.number);
  }
  return kept;
}
