import type { Clock } from "../../protocol/clock.ts";

/** An event, as far as it is told from others. */
interface ToldEvent {
  readonly kind: string;
  readonly jobId: string;
  readonly block: number;
}

/** How long a node behind the same address may lag behind another, ms. */
const lagMs = 15_000;
/** The same in blocks: what is further below the head every node has. */
const lagBlocks = 64n;

/**
 * Which blocks are to be asked for once more. Asked for by number, a node that lags behind the one that told the head answers for blocks
 * that it has not seen that nothing happened there; so they are asked for together with the next ones until every node has them, and
 * only what was not told yet is told then.
 */
export class SecondLook {
  readonly #clock: Clock;
  /** What was first asked for by number, oldest first; monotonic ms. */
  #stretches: readonly { readonly from: bigint; readonly at: number }[] = [];
  /** Blocks of the events told, by what tells them apart. */
  readonly #told = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The first block to ask for, where `untold` is the first that was not asked for yet. */
  from(untold: bigint): bigint {
    const oldest = this.#stretches[0]?.from ?? untold;
    return oldest < untold ? oldest : untold;
  }

  /** Whether an event is news. */
  isNews(event: ToldEvent): boolean {
    return !this.#told.has(keyOf(event));
  }

  /** An event was told. */
  told(event: ToldEvent, head: bigint): void {
    if (BigInt(event.block) >= lowestDoubtful(head)) this.#told.set(keyOf(event), event.block);
  }

  /** Blocks were asked for by number for the first time. */
  asked(from: bigint, to: bigint, head: bigint): void {
    if (to < lowestDoubtful(head)) return;
    this.#stretches = [...this.#stretches, { from, at: this.#clock.monotonic() }];
  }

  /** All blocks up to the head were asked for: those that were to be asked for again, too. */
  done(head: bigint): void {
    const now = this.#clock.monotonic();
    const lowest = lowestDoubtful(head);
    this.#stretches = this.#stretches
      .filter(({ at }) => now - at < lagMs)
      .map(({ from, at }) => ({ from: from > lowest ? from : lowest, at }));
    for (const [key, block] of this.#told) if (block < lowest) this.#told.delete(key);
  }

  /** The chain was reorganised: what it tells above the last common block is told anew. */
  forgetAbove(lastCommonBlock: bigint): void {
    for (const [key, block] of this.#told) if (BigInt(block) > lastCommonBlock) this.#told.delete(key);
  }
}

function keyOf({ kind, jobId, block }: ToldEvent): string {
  return `${kind}:${jobId}:${block}`;
}

function lowestDoubtful(head: bigint): bigint {
  return head - lagBlocks + 1n;
}
