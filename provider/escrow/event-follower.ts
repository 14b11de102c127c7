import {
  type Address,
  encodeEventTopics,
  formatLog,
  type Hex,
  type LogTopic,
  numberToHex,
  parseEventLogs,
  type PublicClient,
} from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { RangePacer } from "../../chain/registry-index/range-pacer.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { Journal } from "../../store/journal.ts";
import { type SeenBlock, withBlock } from "./block-locator.ts";
import { type MissingSlots, MissingSlotsLookup } from "./missing-slots.ts";
import { SecondLook } from "./second-look.ts";

/** What the escrow tells about a job of this provider, with the block that it is in. Events may be told twice; they are never left out. */
export type JobEvent = JobNews & { readonly block: number };

type JobNews =
  | {
      readonly kind: "posted";
      readonly jobId: Hex;
      readonly client: Address;
      readonly maxPayment: bigint;
      readonly unsignedLimit: bigint;
      /** Unix seconds. */
      readonly deadline: number;
    }
  | { readonly kind: "cancel_requested"; readonly jobId: Hex }
  | { readonly kind: "completed"; readonly jobId: Hex; readonly payment: bigint; readonly transactionHash: Hex }
  | { readonly kind: "declined"; readonly jobId: Hex; readonly transactionHash: Hex }
  | { readonly kind: "cancelled" | "expired" | "slashed"; readonly jobId: Hex };

type EscrowLog = ReturnType<typeof parseEventLogs<typeof jobEscrowAbi>>[number];

/** One block as the follower needs it. */
export interface Head {
  readonly number: bigint;
  readonly hash: Hex;
  readonly parentHash: Hex;
  /** Chain time, Unix seconds. */
  readonly timestamp: number;
}

/** Where the follower stands: everything up to this block was told. */
interface Cursor extends SeenBlock {
  /** Blocks below, newest first, by which a reorganisation and its depth are found. Absent in what older versions wrote. */
  readonly seen?: readonly SeenBlock[];
}

/** Options of `JobEventFollower`. */
export interface JobEventFollowerOptions {
  readonly client: PublicClient;
  readonly escrow: Address;
  readonly provider: Address;
  readonly chainId: number;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly pollMs: number;
  /** First block to look at when the journal has no cursor; undefined = start at the head. */
  readonly firstBlock: bigint | undefined;
  /** Block of the contracts: events are told from it when the chain has none of the blocks that were seen. */
  readonly deployedAtBlock: bigint;
  /** Told in order; the cursor moves only after it has resolved. */
  readonly onEvent: (event: JobEvent) => Promise<void>;
  /**
   * The chain has dropped all blocks above this one, with what they told. Called before the new branch is told, again after a failure
   * or a crash in it; may be called for a block below the one where the branches part.
   */
  readonly onReorg: (lastCommonBlock: number) => Promise<void>;
  /** Jobs of the provider ended whose slots another market had freed. Told beside the events, which wait for nothing of it. */
  readonly onMissingSlots: (missing: MissingSlots) => void;
  /** The chain could not be asked for such alarms; it is asked again with the next blocks. */
  readonly onMissingSlotsError: (error: unknown) => void;
  /** Called after each poll, with what went wrong if something did. */
  readonly onPoll: (error: unknown) => void;
}

/** Most blocks of one `eth_getLogs`. */
const maxRangeBlocks = 2_000;

/**
 * Follows the escrow's events of one provider: ranges of `eth_getLogs` from a durable cursor, never server-side filters. The cursor
 * moves after the effects are durable, so a crash repeats events and loses none. A reorganisation, however deep and also to a shorter
 * chain, is found by the hashes of blocks that were seen, and told before the new branch is.
 */
export class JobEventFollower {
  readonly #options: JobEventFollowerOptions;
  readonly #cursorKey: string;
  readonly #topics: ReturnType<typeof topicFilters>;
  readonly #pacer = new RangePacer(maxRangeBlocks);
  readonly #missingSlots: MissingSlotsLookup;
  readonly #secondLook: SecondLook;
  #cursor: Cursor | undefined;
  #head: Head | undefined;
  #aheadMs = 0;
  #cancel: () => void = () => undefined;
  #polling: Promise<void> | undefined;
  #stopped = false;

  constructor(options: JobEventFollowerOptions) {
    this.#options = options;
    this.#cursorKey = `provider-cursor:${options.chainId}:${options.escrow}:${options.provider}`.toLowerCase();
    this.#topics = topicFilters(options.provider);
    this.#secondLook = new SecondLook(options.clock);
    this.#missingSlots = new MissingSlotsLookup({
      client: options.client,
      escrow: options.escrow,
      provider: options.provider,
      onMissing: (missing) => options.onMissingSlots(missing),
      onError: (error) => options.onMissingSlotsError(error),
    });
  }

  /** Newest block seen. */
  get head(): Head | undefined {
    return this.#head;
  }

  /** How far chain time runs ahead of our clock, ms; 0 when it does not. Deadlines are in chain time. */
  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Follows until stopped; resolves when the events up to the head of now were told, rejects when the chain cannot be asked. */
  async start(): Promise<void> {
    const text = await this.#options.journal.getValue(this.#cursorKey);
    this.#cursor = text === undefined ? undefined : (JSON.parse(text) as Cursor);
    await this.#poll();
    this.#schedule();
  }

  /** Looks once more, from now: resolves when the events up to the head of now were told, or could not be. */
  async catchUp(): Promise<void> {
    await this.#polling?.catch(() => undefined);
    await this.#pollQuietly();
  }

  /** Stops; resolves when a running poll has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel();
    await this.#polling?.catch(() => undefined);
    await this.#missingSlots.stop();
  }

  #schedule(): void {
    this.#cancel();
    if (this.#stopped) return;
    this.#cancel = this.#options.clock.after(this.#options.pollMs, () => {
      void this.#pollQuietly();
    });
  }

  async #pollQuietly(): Promise<void> {
    try {
      await this.#poll();
      this.#options.onPoll(undefined);
    } catch (error) {
      if (!this.#stopped) this.#options.onPoll(error);
    }
    this.#schedule();
  }

  async #poll(): Promise<void> {
    this.#polling ??= this.#pollOnce().finally(() => {
      this.#polling = undefined;
    });
    await this.#polling;
  }

  async #pollOnce(): Promise<void> {
    const head = await this.#block("latest");
    if (head === undefined) return;
    this.#head = head;
    this.#aheadMs = Math.max(0, head.timestamp * 1000 - this.#options.clock.now());
    let untold = await this.#firstUntold(head);
    if (untold > head.number) return;
    let from = this.#secondLook.from(untold);
    while (from <= head.number && !this.#stopped) {
      const isHead = from === head.number;
      // The newest block alone is asked for by its hash.
      const end = untold === head.number && !isHead ? head.number - 1n : head.number;
      const blocks = Math.min(this.#pacer.blocks, Number(end - from) + 1);
      const to = from + BigInt(blocks) - 1n;
      let events: readonly JobEvent[];
      try {
        events = await this.#events(isHead ? { blockHash: head.hash } : rangeOf(from, to));
      } catch (error) {
        // A node that does not know the newest block yet says nothing of how much may be asked for.
        if (isHead) throw error;
        // Nodes bound what one call may ask for, each in its own way: less is tried before it counts as a failure.
        if (chainUnavailableIn(error) !== undefined || !this.#pacer.refused(blocks)) throw error;
        continue;
      }
      this.#pacer.served(blocks);
      await this.#tell(
        events.filter((event) => this.#secondLook.isNews(event)),
        head.number,
      );
      if (to >= untold) {
        const last = to === head.number ? head : await this.#block(to);
        if (last === undefined) return;
        await this.#moveTo(to, last.hash);
        if (!isHead) this.#secondLook.asked(untold, to, head.number);
        untold = to + 1n;
      }
      from = to + 1n;
    }
    if (from > head.number) this.#secondLook.done(head.number);
  }

  async #tell(events: readonly JobEvent[], head: bigint): Promise<void> {
    for (const event of events) {
      await this.#options.onEvent(event);
      this.#secondLook.told(event, head);
    }
    this.#missingSlots.lookIn(events.filter(isEnd).map(({ block }) => block));
  }

  /** The first block whose events were not told yet; earlier when the chain was reorganised under the cursor. */
  async #firstUntold(head: Head): Promise<bigint> {
    const cursor = this.#cursor;
    if (cursor === undefined) {
      if (this.#options.firstBlock !== undefined) return this.#options.firstBlock;
      await this.#moveTo(head.number, head.hash);
      return head.number + 1n;
    }
    const told = BigInt(cursor.number);
    if (head.number === told + 1n && head.parentHash === cursor.hash) return told + 1n;
    const seen = [cursor, ...(cursor.seen ?? [])].filter(({ number }) => BigInt(number) <= head.number);
    for (const block of seen) {
      if (!(await this.#isOnChain(block, head))) continue;
      // The cursor itself, or the newest block that a node which lags behind the one that told us can know: it will come.
      if (block === seen[0]) return told + 1n;
      return await this.#rewind(BigInt(block.number), block);
    }
    // A lower head than anything that was seen is a node that is far behind; only blocks with other hashes are another chain.
    if (seen.length === 0) return told + 1n;
    const { deployedAtBlock } = this.#options;
    return await this.#rewind(deployedAtBlock > 0n ? deployedAtBlock - 1n : 0n, undefined);
  }

  /** Tells of the reorganisation, then steps back; returns the first block to tell of. */
  async #rewind(common: bigint, block: SeenBlock | undefined): Promise<bigint> {
    await this.#options.onReorg(Number(common));
    this.#secondLook.forgetAbove(common);
    const hash = block?.hash ?? (await this.#block(common))?.hash;
    if (hash !== undefined) await this.#moveTo(common, hash);
    return common + 1n;
  }

  async #isOnChain(block: SeenBlock, head: Head): Promise<boolean> {
    const number = BigInt(block.number);
    if (number === head.number) return block.hash === head.hash;
    if (number === head.number - 1n) return block.hash === head.parentHash;
    return (await this.#block(number))?.hash === block.hash;
  }

  async #moveTo(number: bigint, hash: Hex): Promise<void> {
    const cursor = this.#cursor;
    const below = cursor === undefined ? [] : [cursor, ...(cursor.seen ?? [])];
    const [block, ...seen] = withBlock(below, { number: String(number), hash });
    if (block === undefined) return;
    // The block that all chains start with, so that another chain is told from a node that is behind.
    const genesis = seen.length > 0 || number === 0n ? undefined : await this.#block(0n);
    if (genesis !== undefined) seen.push({ number: "0", hash: genesis.hash });
    const next: Cursor = { ...block, seen: seen.map((older) => ({ number: older.number, hash: older.hash })) };
    await this.#options.journal.setValue(this.#cursorKey, JSON.stringify(next));
    this.#cursor = next;
  }

  async #block(which: "latest" | bigint): Promise<Head | undefined> {
    const parameter = which === "latest" ? which : numberToHex(which);
    const block = await this.#options.client.request({ method: "eth_getBlockByNumber", params: [parameter, false] });
    if (block === null || block.hash === null || block.number === null) return undefined;
    return {
      number: BigInt(block.number),
      hash: block.hash,
      parentHash: block.parentHash,
      timestamp: Number(block.timestamp),
    };
  }

  /**
   * @param blocks Of the newest block alone the hash: of a number that it has not reached, a node that lags behind the one that told the
   * head answers that nothing happened, and of a hash that it does not know it says so.
   */
  async #events(blocks: BlockFilter): Promise<readonly JobEvent[]> {
    const logs = await Promise.all(
      this.#topics.map(async (topics) => {
        const raw = await this.#options.client.request({
          method: "eth_getLogs",
          params: [{ address: this.#options.escrow, topics, ...blocks }],
        });
        return raw.map((log) => formatLog(log));
      }),
    );
    return parseEventLogs({ abi: jobEscrowAbi, logs: logs.flat() })
      .toSorted((a, b) => Number(a.blockNumber - b.blockNumber) || a.logIndex - b.logIndex)
      .flatMap((log) => {
        const news = newsOf(log);
        return news === undefined ? [] : [{ ...news, block: Number(log.blockNumber) }];
      });
  }
}

/** Which blocks `eth_getLogs` looks at. */
type BlockFilter = { readonly fromBlock: Hex; readonly toBlock: Hex } | { readonly blockHash: Hex };

function rangeOf(from: bigint, to: bigint): BlockFilter {
  return { fromBlock: numberToHex(from), toBlock: numberToHex(to) };
}

const endEvents = [
  "JobCompleted",
  "JobDeclined",
  "JobCancelRequested",
  "JobCancelled",
  "JobExpired",
  "JobSlashed",
] as const;

/** Two filters: the provider is the third indexed field of a post and the second of everything else. */
function topicFilters(provider: Address) {
  const post = encodeEventTopics({ abi: jobEscrowAbi, eventName: "JobPosted", args: { provider } });
  const ends = endEvents.map((eventName) => encodeEventTopics({ abi: jobEscrowAbi, eventName, args: { provider } }));
  const rest = ends[0]?.slice(1) ?? [];
  return [post, [ends.map(([selector]) => selector), ...rest]] as readonly (readonly LogTopic[])[] as LogTopic[][];
}

function isEnd({ kind }: JobEvent): boolean {
  return kind !== "posted" && kind !== "cancel_requested";
}

function newsOf(log: EscrowLog): JobNews | undefined {
  switch (log.eventName) {
    case "JobPosted": {
      const { jobId, client, maxPayment, unsignedLimit, deadline } = log.args;
      return { kind: "posted", jobId, client, maxPayment, unsignedLimit, deadline };
    }
    case "JobCancelRequested":
      return { kind: "cancel_requested", jobId: log.args.jobId };
    case "JobCompleted":
      return {
        kind: "completed",
        jobId: log.args.jobId,
        payment: log.args.payment,
        transactionHash: log.transactionHash,
      };
    case "JobDeclined":
      return { kind: "declined", jobId: log.args.jobId, transactionHash: log.transactionHash };
    case "JobCancelled":
      return { kind: "cancelled", jobId: log.args.jobId };
    case "JobExpired":
      return { kind: "expired", jobId: log.args.jobId };
    case "JobSlashed":
      return { kind: "slashed", jobId: log.args.jobId };
    default:
      return undefined;
  }
}
