import { type Address, getAddress } from "viem";
import { RangePacer } from "../../chain/registry-index/range-pacer.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { Journal } from "../../store/journal.ts";
import { walkLogs } from "../escrow/log-ranges.ts";
import { firstBlockSince } from "./first-block.ts";
import {
  earliestAllowable,
  isPending,
  type MarketProposal,
  oldestProposalTime,
  unknownMarkets,
} from "./market-notice.ts";
import type { BlockTime, MarketReader } from "./market-reader.ts";

/** Options of `MarketWatch`. */
export interface MarketWatchOptions {
  readonly reader: MarketReader;
  readonly journal: Pick<Journal, "getValue" | "setValue">;
  readonly clock: Clock;
  readonly chainId: number;
  readonly registry: Address;
  /** The market that the node works with; no news. */
  readonly escrow: Address;
  /** Block of the contracts; no event is older. */
  readonly deployedAtBlock: bigint;
  /** Told once of each proposal that is pending, again when it is made anew; `unbondingPeriod` in seconds. */
  readonly onProposal: (proposal: MarketProposal, unbondingPeriod: number) => void;
  /** Told of each market that was allowed since this journal's last look, or before its first. */
  readonly onMarket: (market: Address) => void;
  /** Told once of each kind of failure, again when it comes back after a look that went well. */
  readonly onError: (error: unknown) => void;
}

/** Ms between two looks: a notice is days, and a look costs three calls. */
const lookMs = 300_000;
/** Ms until the next look after one that failed. */
const retryMs = 30_000;
/** Most blocks of one `eth_getLogs`: proposals are rare, so only the node's own bound counts. */
const maxRangeBlocks = 10_000;
/** Newest blocks that are read again at each look: above the depth of any reorganisation of a live chain. */
const rereadBlocks = 256n;

/**
 * Watches over who can be given power over the provider's stake. The registry announces each new market by an event, and lists only
 * those that were allowed: so proposals are found in the logs of the time in which one can still be valid, and asked for by address.
 */
export class MarketWatch {
  readonly #options: MarketWatchOptions;
  readonly #key: string;
  readonly #pacer = new RangePacer(maxRangeBlocks);
  readonly #failures = new Map<string, Set<string>>();
  /** Markets that were proposed, with the time after which nothing that we have read can allow them. */
  readonly #proposed = new Map<Address, number>();
  /** Proposals that were told. */
  readonly #told = new Map<Address, number>();
  #unbondingPeriod: number | undefined;
  /** First block whose proposals were not read yet; undefined before the first look. */
  #unread: bigint | undefined;
  #pending: readonly MarketProposal[] | undefined;
  #known: Set<Address> | undefined;
  #cancel: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: MarketWatchOptions) {
    this.#options = options;
    this.#key = `provider-markets:${options.chainId}:${options.registry}`.toLowerCase();
  }

  /** Proposals that can be allowed, now or later, at the last look; undefined until the chain was read. */
  get pending(): readonly MarketProposal[] | undefined {
    return this.#pending;
  }

  /** Chain time in Unix seconds from which one of the pending proposals can be allowed; undefined when there is none. */
  get allowableFrom(): number | undefined {
    return earliestAllowable(this.#pending ?? []);
  }

  /** Looks now and then every few minutes, until stopped. Returns at once. */
  start(): void {
    if (this.#isStopped) return;
    this.#running = this.#look().then((isWell) => {
      if (!this.#isStopped) this.#cancel = this.#options.clock.after(isWell ? lookMs : retryMs, () => this.start());
    });
  }

  /** Stops; resolves when a running look has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#running;
  }

  /** One look; whether all of it went well. */
  async #look(): Promise<boolean> {
    const results = [
      await this.#attempt("markets", async () => await this.#lookAtMarkets()),
      await this.#attempt("proposals", async () => await this.#lookAtProposals()),
    ];
    return !results.includes(false);
  }

  async #attempt(what: string, look: () => Promise<void>): Promise<boolean> {
    try {
      await look();
      this.#failures.delete(what);
      return true;
    } catch (error) {
      const kinds = this.#failures.get(what) ?? new Set();
      this.#failures.set(what, kinds);
      const kind = error instanceof Error ? error.name : typeof error;
      if (!kinds.has(kind) && !this.#isStopped) this.#options.onError(error);
      kinds.add(kind);
      return false;
    }
  }

  async #lookAtMarkets(): Promise<void> {
    const { reader, journal, escrow, onMarket } = this.#options;
    const markets = await reader.markets();
    if (this.#isStopped) return;
    const stored = await journal.getValue(this.#key);
    this.#known ??= new Set([getAddress(escrow), ...(stored === undefined ? [] : (JSON.parse(stored) as Address[]))]);
    for (const market of unknownMarkets(this.#known, markets)) {
      onMarket(market);
      this.#known.add(market);
    }
    const known = JSON.stringify([...this.#known]);
    if (known !== stored) await journal.setValue(this.#key, known);
  }

  async #lookAtProposals(): Promise<void> {
    const { reader } = this.#options;
    const head = await reader.head();
    this.#unbondingPeriod ??= await reader.unbondingPeriod();
    let isRead = false;
    try {
      await this.#read(head, this.#unbondingPeriod);
      isRead = true;
    } finally {
      // Also when the rest cannot be read: what is known by then may be all that there is.
      await this.#judge(head, this.#unbondingPeriod, isRead);
    }
  }

  /** Reads the proposals of blocks up to the head that were not read yet, and those that a reorganisation may have replaced. */
  async #read(head: BlockTime, unbondingPeriod: number): Promise<void> {
    const { reader, deployedAtBlock } = this.#options;
    const lowest = deployedAtBlock < head.number ? deployedAtBlock : head.number;
    let from: bigint;
    if (this.#unread === undefined) {
      const oldest = oldestProposalTime(head.timestamp, unbondingPeriod);
      from = await firstBlockSince(oldest, lowest, head.number, async (block) => await reader.timeOf(block));
      this.#unread = from;
    } else {
      // A head below what was read is a node that lags behind, or another branch.
      this.#unread = least(this.#unread, head.number + 1n);
      from = greatest(this.#unread - rereadBlocks, lowest);
    }
    await walkLogs({
      range: { from, to: head.number },
      pacer: this.#pacer,
      isStopped: () => this.#isStopped,
      read: async (part) => {
        for (const { market, until } of await reader.proposalsIn(part)) {
          this.#proposed.set(market, Math.max(until, this.#proposed.get(market) ?? 0));
        }
        this.#unread = greatest(this.#unread ?? 0n, part.to + 1n);
      },
    });
  }

  async #judge(head: BlockTime, unbondingPeriod: number, isRead: boolean): Promise<void> {
    const { reader, onProposal } = this.#options;
    const pending: MarketProposal[] = [];
    for (const [market, until] of this.#proposed) {
      if (this.#isStopped) return;
      if (head.timestamp >= until) {
        this.#proposed.delete(market);
        this.#told.delete(market);
        continue;
      }
      const proposal = await reader.proposal(market);
      if (!isPending(proposal, head.timestamp)) continue;
      pending.push(proposal);
      if (this.#told.get(market) === proposal.from) continue;
      onProposal(proposal, unbondingPeriod);
      this.#told.set(market, proposal.from);
    }
    if (isRead || this.#pending !== undefined || pending.length > 0) this.#pending = pending;
  }
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
