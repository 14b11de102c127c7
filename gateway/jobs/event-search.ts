import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import { RangePacer } from "../../chain/registry-index/range-pacer.ts";

/** Where to look for one event: blocks, both ends included. */
export interface EventSearch<T> {
  readonly from: bigint;
  readonly to: bigint;
  /** From the newest block down: for what is likely to be young. */
  readonly newestFirst?: boolean;
  /** Asks the node for one range; rejects when the node does not answer so many blocks. */
  readonly ask: (from: bigint, to: bigint) => Promise<T | undefined>;
}

/** Most blocks asked for at once: what most public nodes allow. */
const maxRange = 2000;
/** Most questions of one search: an event that is not there is not looked for over years of blocks. */
const maxQuestions = 500;

/**
 * Looks for an event in ranges that the node takes, as nodes bound them in their own ways. Undefined when it is not there.
 *
 * @throws The node's error when it cannot be reached, or refuses even a single block.
 */
export async function searchEvent<T>({ from, to, newestFirst, ask }: EventSearch<T>): Promise<T | undefined> {
  const pacer = new RangePacer(maxRange);
  let low = from;
  let high = to;
  for (let question = 0; low <= high && question < maxQuestions; question += 1) {
    const left = high - low + 1n;
    const blocks = left < BigInt(pacer.blocks) ? Number(left) : pacer.blocks;
    const first = newestFirst === true ? high - BigInt(blocks) + 1n : low;
    const last = first + BigInt(blocks) - 1n;
    let found: T | undefined;
    try {
      found = await ask(first, last);
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined || !pacer.refused(blocks)) throw error;
      continue;
    }
    if (found !== undefined) return found;
    pacer.served(blocks);
    if (newestFirst === true) high = first - 1n;
    else low = last + 1n;
  }
  return undefined;
}
