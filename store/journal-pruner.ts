import type { Clock } from "../protocol/clock.ts";
import type { Journal } from "./journal.ts";

/** Options of `JournalPruner`. Times in ms. */
export interface JournalPrunerOptions {
  readonly journal: Pick<Journal, "prune">;
  readonly clock: Clock;
  /** How long ended rows are kept; 0 = for ever. */
  readonly keepMs: number;
  /** Told how many rows one round took out, if any. */
  readonly onPruned: (rows: number) => void;
  readonly onError: (error: unknown) => void;
}

/** Rows of one batch: what a commit takes out while others wait for it. */
const batchRows = 200;
/** Between two batches, so that a journal of millions of rows holds nobody up. */
const batchPauseMs = 100;
/** Between two rounds. */
const roundMs = 3_600_000;
/** Before the first round: the start has more urgent things to write. */
const firstRoundMs = 60_000;

/** Takes ended rows out of the journal once they are old, in small batches, for as long as it runs. */
export class JournalPruner {
  readonly #options: JournalPrunerOptions;
  #cancel: () => void = () => undefined;
  #isStopped = false;
  #batch: Promise<void> = Promise.resolve();
  #rows = 0;

  constructor(options: JournalPrunerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#options.keepMs > 0) this.#schedule(firstRoundMs);
  }

  /** Stops; resolves when the batch under way has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#batch;
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return;
    this.#cancel = this.#options.clock.after(delayMs, () => {
      this.#batch = this.#prune();
    });
  }

  async #prune(): Promise<void> {
    const { journal, clock, keepMs, onPruned, onError } = this.#options;
    try {
      const rows = await journal.prune(clock.now() - keepMs, batchRows);
      this.#rows += rows;
      if (rows === batchRows) {
        this.#schedule(batchPauseMs);
        return;
      }
      if (this.#rows > 0) onPruned(this.#rows);
    } catch (error) {
      onError(error);
    }
    this.#rows = 0;
    this.#schedule(roundMs);
  }
}
