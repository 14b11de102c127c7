import type { Clock } from "../../protocol/clock.ts";
import { type Intent, isInDoubt, newTold } from "./intent.ts";
import type { IntentBook } from "./intent-book.ts";
import { storeOutcome } from "./outcome-row.ts";
import type { Pace } from "./pace.ts";
import type { TransactionJournal } from "./transaction-journal.ts";
import type { TransactionOutcome } from "./types.ts";

/** What the endings work with. */
interface EndingsParts {
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly book: IntentBook;
  readonly pace: Pace;
  /** Starts the watch over what is in flight or given up. */
  readonly watch: () => void;
}

/** How intents end: in the journal first, then for their callers. */
export class IntentEndings {
  readonly #journal: TransactionJournal;
  readonly #clock: Clock;
  readonly #book: IntentBook;
  readonly #pace: Pace;
  readonly #watch: () => void;

  constructor(parts: EndingsParts) {
    this.#journal = parts.journal;
    this.#clock = parts.clock;
    this.#book = parts.book;
    this.#pace = parts.pace;
    this.#watch = parts.watch;
  }

  /**
   * The journal failed, the node answered with nonsense, or the queue was closed: the callers of now are told. What may be on the chain,
   * or that the journal holds as sent, stays pending until its nonce decides, as the next process would send it; of the rest nothing is
   * left.
   */
  failed(intent: Intent, cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error(String(cause));
    intent.told.reject(error);
    if (this.#pace.isClosed || !(intent.journaled || isInDoubt(intent))) {
      this.#book.forget(intent);
      return;
    }
    intent.told = newTold();
    if (!isInDoubt(intent)) this.#book.freeNonce(intent);
    if (this.#book.byNonce.get(intent.nonce) !== intent) {
      this.letGo(intent, error.message);
    }
    this.#watch();
  }

  /** Tells the callers that it is not known what becomes of an intent, and leaves it to the watch. */
  letGo(intent: Intent, message: string): void {
    intent.isGivenUp = true;
    intent.misses = 0;
    this.#book.givenUp.add(intent);
    intent.told.resolve({ status: "abandoned", message, undecided: true });
  }

  /**
   * Lets the callers go. Of an intent that no node can have, nothing is left. One that may have been taken is watched until its nonce
   * is used: by itself, or by whatever is sent next.
   */
  async giveUp(intent: Intent, message: string): Promise<void> {
    if (!isInDoubt(intent)) {
      await this.abandon(intent, message);
      return;
    }
    await this.#journal.updateTransaction(intent.key, { status: "given_up", updatedAt: this.#clock.now() });
    this.letGo(intent, message);
    this.#watch();
  }

  /** Ends an intent of which nothing is on the chain, nor ever will be. */
  async abandon(intent: Intent, message: string): Promise<void> {
    const outcome = { status: "abandoned", message, undecided: false } as const;
    intent.isEnding = true;
    try {
      await this.record(intent, outcome);
    } catch (error) {
      intent.isEnding = false;
      throw error;
    }
    this.#book.givenUp.delete(intent);
    this.finish(intent, outcome);
  }

  /** Ends an intent that is not sent. One that may have been sent before is given up instead: what it was told now may be its own doing. */
  async end(intent: Intent, outcome: Extract<TransactionOutcome, { message: string }>): Promise<void> {
    if (isInDoubt(intent)) {
      await this.giveUp(intent, outcome.message);
      return;
    }
    // Written before it is told: else the next process would take the intent up and send it.
    await this.record(intent, outcome);
    this.finish(intent, outcome);
  }

  /** Writes an outcome into the journal, where the journal knows the intent. */
  async record(intent: Intent, outcome: TransactionOutcome): Promise<void> {
    if (!intent.journaled) return;
    await this.#journal.updateTransaction(intent.key, {
      status: outcome.status,
      outcome: storeOutcome(outcome) ?? null,
      hashes: [...intent.hashes],
      updatedAt: this.#clock.now(),
    });
  }

  /** Tells the callers the outcome. */
  finish(intent: Intent, outcome: TransactionOutcome): void {
    this.#book.forget(intent);
    intent.told.resolve(outcome);
  }
}
