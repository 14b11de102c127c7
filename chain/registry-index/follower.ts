import type { Address } from "viem";
import { chainUnavailableIn } from "../rpc-errors.ts";
import { type Advance, type AdvanceContext, advance, ChainMovedError } from "./advance.ts";
import type { BlockHeader } from "./chain-reader.ts";
import { joinHistory } from "./history.ts";
import type { PageReader } from "./page-reader.ts";
import type { Publication } from "./publisher.ts";
import { afterReturn } from "./reputation.ts";
import { genesisState, type RegistryState, stateFromRecords } from "./state.ts";
import { Window } from "./window.ts";

/** Options of `Follower`. */
export interface FollowerOptions {
  readonly context: AdvanceContext;
  readonly pages: PageReader;
  /** Undefined: the past is not read. */
  readonly deployedAtBlock: number | undefined;
  /** A chain with at most so many blocks since the deployment is replayed from its events instead of read in pages. */
  readonly maxReplayBlocks: number;
  /** Shows a state to readers, or throws, and then the step that led to it did not happen. */
  readonly publish: (publication: Publication) => void;
}

/** A place on the chain: the recent past, and the header of its newest block. */
interface Position {
  readonly window: Window;
  readonly block: BlockHeader;
}

/** Events from before the first snapshot, replayed up to its block beside what is followed live. */
interface PendingHistory {
  readonly window: Window;
  readonly target: BlockHeader;
}

/** Where the index is on the chain, and how it gets to the head. One call at a time. */
export class Follower {
  readonly #options: FollowerOptions;
  #position: Position | undefined;
  #history: PendingHistory | undefined;
  /** What readers see was not built from the position's past, or nothing is to be seen yet. */
  #publishAll = true;
  #reorganisations = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /** Reorganisations unwound so far. */
  get reorganisations(): number {
    return this.#reorganisations;
  }

  /**
   * Whether `head` may be an ancestor of the block that was reached: what a node that lags behind another one behind the same address
   * answers, and what a chain looks like that was cut back.
   */
  isBehind(head: BlockHeader): boolean {
    if (this.#position === undefined) return false;
    const { entries, tip } = this.#position.window;
    if (head.number >= tip.number) return false;
    const known = entries.find((entry) => entry.number === head.number);
    return known === undefined || known.hash === head.hash;
  }

  /** Follows the chain to `head`, publishing after each step; the first publication waits until all is read. */
  async follow(head: BlockHeader): Promise<void> {
    this.#position ??= await this.#begin(head);
    for (;;) {
      const { window } = this.#position;
      const step = await advance(this.#options.context, window, head);
      if (step === undefined) break;
      if (step === "lost") {
        this.#reorganisations += 1;
        this.#forget();
        throw new ChainMovedError(
          "the chain was reorganised deeper than the index remembers: everything is read again",
        );
      }
      if (step.unwound) this.#reorganisations += 1;
      // Before the first publication only the head counts: readers shall see the registry whole.
      const last = step.block.hash === head.hash;
      if (!this.#publishAll || last) this.#publish(step, step.touched, step.removed, step.added);
      this.#position = { window: step.window, block: step.block };
    }
    if (this.#publishAll) this.#publish(this.#position, [], [], []);
  }

  /** Replays one more stretch of what was before the first snapshot; false when nothing is left to replay. */
  async readHistory(): Promise<boolean> {
    if (this.#history === undefined || this.#position === undefined) return false;
    const { window, target } = this.#history;
    const step = await advance(this.#options.context, window, target);
    if (step === "lost" || step?.unwound === true) throw new ChainMovedError("the past changed while it was read");
    if (step !== undefined) {
      this.#history = { window: step.window, target };
      return true;
    }
    const { state, touched } = joinHistory(
      this.#position.window.tip.state,
      window.tip.state,
      this.#options.context.rating,
    );
    const joined = { window: this.#windowAt(this.#position.block, state), block: this.#position.block };
    this.#publish(joined, touched, [], []);
    this.#position = joined;
    this.#history = undefined;
    return false;
  }

  /**
   * Reads every record again at the block that was reached, keeping what no view tells (reputation, open jobs): no event is missed or
   * told twice. Where that block is gone or the node no longer knows its state, everything starts anew at the next `follow`.
   */
  async repair(): Promise<void> {
    if (this.#position === undefined) return;
    const { block, window } = this.#position;
    const { state } = window.tip;
    try {
      const records = await this.#recordsAt(block);
      const kept = records.map((record) => {
        const known = state.providers.get(record.address);
        if (known === undefined) return record;
        const { reputation } = known;
        return Object.freeze({
          ...record,
          reputation: known.generation === record.generation ? reputation : afterReturn(reputation),
        });
      });
      const { providers } = stateFromRecords(kept, state.historyComplete);
      this.#position = { window: this.#windowAt(block, { ...state, providers }), block };
      this.#publishAll = true;
    } catch (error) {
      if (chainUnavailableIn(error) === undefined) this.#forget();
      throw error;
    }
  }

  #forget(): void {
    this.#position = undefined;
    this.#history = undefined;
    this.#publishAll = true;
  }

  /** The state to follow from: before the first event of a short chain, or the pages at the head of a long one. */
  async #begin(head: BlockHeader): Promise<Position> {
    const { deployedAtBlock, maxReplayBlocks } = this.#options;
    if (deployedAtBlock !== undefined && head.number - deployedAtBlock <= maxReplayBlocks) {
      return await this.#beforeDeployment(Math.min(deployedAtBlock, head.number));
    }
    const state = stateFromRecords(await this.#recordsAt(head), deployedAtBlock === undefined);
    this.#history =
      deployedAtBlock === undefined
        ? undefined
        : { window: (await this.#beforeDeployment(deployedAtBlock)).window, target: head };
    return { window: this.#windowAt(head, state), block: head };
  }

  async #recordsAt(block: BlockHeader): ReturnType<PageReader["allProviders"]> {
    const { context, pages } = this.#options;
    const records = await pages.allProviders(block.number);
    if ((await context.reader.block(block.number))?.hash !== block.hash) {
      throw new ChainMovedError(`block ${block.number} was replaced while the registry was read at it`);
    }
    return records;
  }

  async #beforeDeployment(deployedAtBlock: number): Promise<Position> {
    const block = await this.#options.context.reader.block(Math.max(0, deployedAtBlock - 1));
    if (block === undefined) throw new ChainMovedError(`block ${deployedAtBlock - 1} is gone`);
    return { window: this.#windowAt(block, genesisState), block };
  }

  #windowAt(block: BlockHeader, state: RegistryState): Window {
    return Window.from(
      { number: block.number, hash: block.hash, state, touched: new Set(), jobLogs: [] },
      this.#options.context.keepBlocks,
    );
  }

  #publish(position: Position, touched: Iterable<Address>, removed: Advance["removed"], added: Advance["added"]): void {
    const { state } = position.window.tip;
    this.#options.publish({
      state,
      block: position.block,
      touched: this.#publishAll ? "all" : touched,
      removed,
      added,
    });
    this.#publishAll = false;
  }
}
