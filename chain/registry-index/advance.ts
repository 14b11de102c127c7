import type { Address, Hex } from "viem";
import { chainUnavailableIn } from "../rpc-errors.ts";
import type { BlockHeader, ChainReader } from "./chain-reader.ts";
import { type Contracts, decodeLog, type IndexedLog, isJobLog, type RpcLog } from "./logs.ts";
import type { RangePacer } from "./range-pacer.ts";
import type { Rating } from "./reputation.ts";
import type { RegistryState } from "./state.ts";
import { applyLogs, needsTimestamp } from "./transition.ts";
import type { Window, WindowEntry } from "./window.ts";

/** A log of a job. */
export type JobLog = IndexedLog & { readonly subject: "job" };

/** One step along the chain: what follows the window, to be taken over whole or not at all. */
export interface Advance {
  readonly window: Window;
  /** The block of the window's tip. */
  readonly block: BlockHeader;
  readonly touched: ReadonlySet<Address>;
  /** Job events that a reorganisation took back, newest first. */
  readonly removed: readonly JobLog[];
  /** Job events of the new blocks, in order. */
  readonly added: readonly JobLog[];
  readonly unwound: boolean;
}

/** The chain changed while it was being read: look again. */
export class ChainMovedError extends Error {
  override readonly name = "ChainMovedError";
}

/** What a step needs beside the window. */
export interface AdvanceContext {
  readonly reader: ChainReader;
  readonly contracts: Contracts;
  readonly pacer: RangePacer;
  /** Blocks behind a step's end for which entries of their own are kept. */
  readonly keepBlocks: number;
  readonly rating: Rating;
}

/** What a step over some blocks did to the window. */
type Stretch = Pick<Advance, "window" | "block" | "touched" | "added">;

/**
 * One step from the window towards `head`: the next block, the next range of blocks, or back to the common ancestor and forward from
 * there. Undefined when the window is there already; `"lost"` when the chain shares no block of the window, so that everything must be
 * read again. The window itself is never changed, so a rejected step left nothing behind.
 *
 * Calls of the node: one more for the next block (its logs, by hash); three for a range, plus one when it does not reach the head.
 */
export async function advance(
  context: AdvanceContext,
  window: Window,
  head: BlockHeader,
): Promise<Advance | "lost" | undefined> {
  const { tip } = window;
  if (head.hash === tip.hash) return undefined;
  if (head.parentHash === tip.hash) return { ...(await nextBlock(context, window, head)), removed: [], unwound: false };
  if (head.number > tip.number) {
    const stretch = await nextRange(context, window, head);
    if (stretch !== undefined) return { ...stretch, removed: [], unwound: false };
  }
  return await goBack(context, window, head);
}

async function goBack(context: AdvanceContext, window: Window, head: BlockHeader): Promise<Advance | "lost"> {
  const { reader } = context;
  const ancestor = await window.newestCanonical(async (blockNumber) =>
    blockNumber > head.number ? undefined : (await reader.block(blockNumber))?.hash,
  );
  if (ancestor === -1) return "lost";
  const { window: base, dropped } = window.unwindTo(ancestor);
  if (dropped.length === 0) throw new ChainMovedError("the chain went back and forth while it was read");
  const removed = dropped.flatMap((entry) => entry.jobLogs).toReversed();
  const undone = new Set(dropped.flatMap((entry) => [...entry.touched]));
  if (base.tip.hash === head.hash)
    return { window: base, block: head, touched: undone, removed, added: [], unwound: true };
  if (base.tip.number >= head.number)
    throw new ChainMovedError("the head moved while the common ancestor was looked for");
  const stretch =
    head.parentHash === base.tip.hash ? await nextBlock(context, base, head) : await nextRange(context, base, head);
  if (stretch === undefined) throw new ChainMovedError("the common ancestor is gone already");
  return { ...stretch, touched: new Set([...undone, ...stretch.touched]), removed, unwound: true };
}

async function nextBlock(context: AdvanceContext, window: Window, head: BlockHeader): Promise<Stretch> {
  let logs: readonly RpcLog[];
  try {
    logs = await context.reader.logsOfBlock(head.hash);
  } catch (error) {
    // A node refuses the logs of a block that was replaced meanwhile, each in its own words.
    if (chainUnavailableIn(error) === undefined && (await context.reader.block(head.number))?.hash !== head.hash) {
      throw new ChainMovedError(`block ${head.number} was replaced before its logs were read`);
    }
    throw error;
  }
  return await stretched(context, window, head, logs, head.timestamp);
}

/**
 * The blocks after the window up to the head, or as many as one call may ask for. Asked by numbers, so the answer could mix forks:
 * both ends are looked at again afterwards. Undefined when the window's tip is no longer on the chain.
 */
async function nextRange(context: AdvanceContext, window: Window, head: BlockHeader): Promise<Stretch | undefined> {
  const { reader, pacer } = context;
  const from = window.tip.number + 1;
  for (;;) {
    const to = Math.min(head.number, window.tip.number + pacer.blocks);
    const target = to === head.number ? head : await reader.block(to);
    if (target === undefined) throw new ChainMovedError(`block ${to} is gone`);
    let logs: readonly RpcLog[];
    try {
      logs = await reader.logsInRange(from, to);
    } catch (error) {
      const smallerMayHelp = pacer.refused(to - from + 1);
      // An answer of the node is worth another try at once; a node that is away is not.
      if (smallerMayHelp && chainUnavailableIn(error) === undefined) continue;
      throw error;
    }
    pacer.served(to - from + 1);
    const [base, end] = await Promise.all([reader.block(window.tip.number), reader.block(to)]);
    if (end?.hash !== target.hash) throw new ChainMovedError(`block ${to} was replaced while its logs were read`);
    if (base?.hash !== window.tip.hash) return undefined;
    return await stretched(context, window, target, logs, base.timestamp);
  }
}

/**
 * The window with decoded logs applied, one entry for each recent block that has some, and one for the target.
 *
 * @param fromTime Chain time at the window's tip, or of the target when it is the next block.
 */
async function stretched(
  context: AdvanceContext,
  window: Window,
  target: BlockHeader,
  rpcLogs: readonly RpcLog[],
  fromTime: number,
): Promise<Stretch> {
  const logs: IndexedLog[] = [];
  const times = new Map<number, number>([[target.number, target.timestamp]]);
  for (const rpcLog of rpcLogs) {
    const log = decodeLog(context.contracts, rpcLog);
    if (log === undefined) continue;
    if (log.place.blockNumber === target.number && log.place.blockHash !== target.hash) {
      throw new ChainMovedError(`logs of another block ${target.number} were answered`);
    }
    logs.push(log);
    if (rpcLog.blockTimestamp !== undefined) times.set(log.place.blockNumber, Number(rpcLog.blockTimestamp));
  }
  logs.sort((a, b) => a.place.blockNumber - b.place.blockNumber || a.place.logIndex - b.place.logIndex);
  const keptFrom = target.number - context.keepBlocks;
  await readTimes(context.reader, times, logs, keptFrom);
  // Where a time is not known it only dates an outcome, or led to an older state: somewhere between both ends is near enough.
  const fromBlock = window.tip.number;
  const secondsPerBlock = (target.timestamp - fromTime) / Math.max(1, target.number - fromBlock);
  const timestampOf = (blockNumber: number): number =>
    times.get(blockNumber) ?? Math.round(fromTime + (blockNumber - fromBlock) * secondsPerBlock);

  const touched = new Set<Address>();
  const entries: WindowEntry[] = [];
  let { state }: { state: RegistryState } = window.tip;
  for (const block of groupByBlock(logs, keptFrom, target)) {
    const transition = applyLogs(state, block.logs, timestampOf, context.rating);
    ({ state } = transition);
    for (const address of transition.touched) touched.add(address);
    entries.push({
      number: block.number,
      hash: block.hash,
      state,
      touched: transition.touched,
      jobLogs: block.logs.filter(isJobLog),
    });
  }
  return { window: window.push(entries), block: target, touched, added: entries.flatMap((entry) => entry.jobLogs) };
}

/** Reads the times of the blocks that matter and that the node did not tell with its logs. */
async function readTimes(
  reader: ChainReader,
  times: Map<number, number>,
  logs: readonly IndexedLog[],
  keptFrom: number,
): Promise<void> {
  const last = new Map<Address, number>();
  const needed = new Set<number>();
  for (const log of logs) {
    if (!needsTimestamp(log)) continue;
    if (log.place.blockNumber >= keptFrom) needed.add(log.place.blockNumber);
    else last.set(log.provider, log.place.blockNumber);
  }
  const missing = [...new Set([...needed, ...last.values()])].filter((blockNumber) => !times.has(blockNumber));
  for (let at = 0; at < missing.length; at += 8) {
    await Promise.all(
      missing.slice(at, at + 8).map(async (blockNumber) => {
        const block = await reader.block(blockNumber);
        if (block === undefined) throw new ChainMovedError(`block ${blockNumber} is gone`);
        times.set(blockNumber, block.timestamp);
      }),
    );
  }
}

interface BlockOfLogs {
  readonly number: number;
  readonly hash: Hex;
  readonly logs: readonly IndexedLog[];
}

/** Logs block by block; those before `keptFrom` as one stretch, and always one for the target, empty or not. */
function groupByBlock(logs: readonly IndexedLog[], keptFrom: number, target: BlockHeader): BlockOfLogs[] {
  const blocks: { number: number; hash: Hex; logs: IndexedLog[] }[] = [];
  for (const log of logs) {
    const current = blocks.at(-1);
    const { blockNumber, blockHash } = log.place;
    if (current?.number === blockNumber && current.hash !== blockHash)
      throw new ChainMovedError(`logs of two blocks ${blockNumber} were answered`);
    if (current !== undefined && (current.number === blockNumber || blockNumber < keptFrom)) {
      current.logs.push(log);
      current.number = blockNumber;
      current.hash = blockHash;
    } else {
      blocks.push({ number: blockNumber, hash: blockHash, logs: [log] });
    }
  }
  if (blocks.at(-1)?.number !== target.number) blocks.push({ number: target.number, hash: target.hash, logs: [] });
  return blocks;
}
