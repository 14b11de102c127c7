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
import { type BlockRange, walkLogs } from "./log-ranges.ts";

/** The escrow's alarm that jobs of this provider ended whose slots another market had freed. */
export interface MissingSlots {
  readonly count: number;
  readonly block: number;
  readonly transactionHash: Hex;
}

/** Options of `MissingSlotsLookup`. */
export interface MissingSlotsLookupOptions {
  readonly client: PublicClient;
  readonly escrow: Address;
  readonly provider: Address;
  /** Told of each alarm; of one again when the chain tells its block again. */
  readonly onMissing: (missing: MissingSlots) => void;
  /** Called with the first failure in a row; what could not be looked at is looked at the next time. */
  readonly onError: (error: unknown) => void;
}

/** Most blocks of one `eth_getLogs`. */
const maxRangeBlocks = 2_000;

/**
 * Looks for the alarm `SlotsMissing` beside the ends of jobs. The escrow emits it only in a transaction that ends a job of the same
 * provider, so blocks without such an end need no look. It runs beside whoever asks for it: an alarm is never worth holding up a job.
 */
export class MissingSlotsLookup {
  readonly #options: MissingSlotsLookupOptions;
  readonly #topics: LogTopic[];
  readonly #pacer = new RangePacer(maxRangeBlocks);
  /** Blocks that were not looked at yet. */
  #left: BlockRange | undefined;
  #running: Promise<void> | undefined;
  #isFailing = false;
  #isStopped = false;

  constructor(options: MissingSlotsLookupOptions) {
    this.#options = options;
    const { provider } = options;
    this.#topics = encodeEventTopics({ abi: jobEscrowAbi, eventName: "SlotsMissing", args: { provider } });
  }

  /** Looks at these blocks, in which jobs ended, and at those that could not be looked at before. Returns at once. */
  lookIn(blocks: readonly number[]): void {
    for (const block of blocks) this.#add(BigInt(block));
    if (this.#isStopped || this.#left === undefined) return;
    this.#running ??= this.#look().finally(() => {
      this.#running = undefined;
    });
  }

  /** Stops; resolves when a running look has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  #add(block: bigint): void {
    const { from, to } = this.#left ?? { from: block, to: block };
    this.#left = { from: block < from ? block : from, to: block > to ? block : to };
  }

  async #look(): Promise<void> {
    try {
      while (this.#left !== undefined && !this.#isStopped) {
        const range = this.#left;
        this.#left = undefined;
        await this.#lookThrough(range);
      }
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing && !this.#isStopped) this.#options.onError(error);
      this.#isFailing = true;
    }
  }

  async #lookThrough(range: BlockRange): Promise<void> {
    let { from } = range;
    try {
      await walkLogs({
        range,
        pacer: this.#pacer,
        isStopped: () => this.#isStopped,
        read: async (part) => {
          for (const missing of await this.#missingIn(part)) this.#options.onMissing(missing);
          from = part.to + 1n;
        },
      });
    } catch (error) {
      this.#add(from);
      this.#add(range.to);
      throw error;
    }
  }

  async #missingIn({ from, to }: BlockRange): Promise<readonly MissingSlots[]> {
    const { client, escrow } = this.#options;
    const logs = await client.request({
      method: "eth_getLogs",
      params: [{ address: escrow, topics: this.#topics, fromBlock: numberToHex(from), toBlock: numberToHex(to) }],
    });
    return parseEventLogs({
      abi: jobEscrowAbi,
      eventName: "SlotsMissing",
      logs: logs.map((log) => formatLog(log)),
    }).map(({ args, blockNumber, transactionHash }) => ({
      count: args.count,
      block: Number(blockNumber),
      transactionHash,
    }));
  }
}
