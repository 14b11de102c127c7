import type { Clock } from "../../protocol/clock.ts";
import { chainUnavailableIn, isNodeAnswer, nodeMessage } from "../rpc-errors.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { FeeSource } from "./fee-source.ts";
import { type Intent, newTold } from "./intent.ts";
import type { IntentBook } from "./intent-book.ts";
import type { IntentEndings } from "./intent-endings.ts";
import type { IntentSigner } from "./intent-signer.ts";
import type { Lane } from "./lane.ts";
import type { Pace } from "./pace.ts";
import type { QueueEvent } from "./queue-options.ts";
import type { SenderChain } from "./sender-chain.ts";
import type { Sending } from "./sending.ts";
import type { JournaledIntent, TransactionJournal } from "./transaction-journal.ts";

/** What the recovery works with. */
interface RecoveryParts {
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly book: IntentBook;
  readonly chain: SenderChain;
  readonly fees: FeeSource;
  readonly signer: IntentSigner;
  readonly sending: Sending;
  readonly endings: IntentEndings;
  readonly dispatcher: Dispatcher;
  readonly lane: Lane;
  readonly pace: Pace;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
  /** How long a transaction taken up is sent again and again, ms. */
  readonly stuckAfterMs: number;
  /** Starts the watch over what is in flight. */
  readonly watch: () => void;
}

/** Goes on with intents that were signed before: by an earlier process, until they were given up, or until the chain lost sight of them. */
export class Recovery {
  readonly #journal: TransactionJournal;
  readonly #clock: Clock;
  readonly #book: IntentBook;
  readonly #chain: SenderChain;
  readonly #fees: FeeSource;
  readonly #signer: IntentSigner;
  readonly #sending: Sending;
  readonly #endings: IntentEndings;
  readonly #dispatcher: Dispatcher;
  readonly #lane: Lane;
  readonly #pace: Pace;
  readonly #onEvent: RecoveryParts["onEvent"];
  readonly #stuckAfterMs: number;
  readonly #watch: () => void;

  constructor(parts: RecoveryParts) {
    this.#journal = parts.journal;
    this.#clock = parts.clock;
    this.#book = parts.book;
    this.#chain = parts.chain;
    this.#fees = parts.fees;
    this.#signer = parts.signer;
    this.#sending = parts.sending;
    this.#endings = parts.endings;
    this.#dispatcher = parts.dispatcher;
    this.#lane = parts.lane;
    this.#pace = parts.pace;
    this.#onEvent = parts.onEvent;
    this.#stuckAfterMs = parts.stuckAfterMs;
    this.#watch = parts.watch;
  }

  /** Decides what became of every journaled intent: mined, still pooled, lost on the way, or never sent. */
  async resume(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      this.#pace.throwIfClosed();
      try {
        const [latest] = await this.#chain.counts();
        for (const intent of [...this.#book.byKey.values()].filter(({ journaled }) => journaled)) {
          if (intent.nonce < 0 || intent.raw !== undefined || intent.isGivenUp) continue;
          await this.#sendUnlessKnown(intent, latest);
        }
        break;
      } catch (error) {
        this.#pace.throwIfClosed();
        // What the node has an answer to, but not this, the watch takes up: nobody else would, and the lane must not stand still for it.
        if (chainUnavailableIn(error) === undefined) {
          this.#onEvent?.({ type: "send_failed", key: "resume", kind: "resume", message: nodeMessage(error) });
          break;
        }
        await this.#pace.retryPause(attempt);
      }
    }
    for (const intent of this.#book.byKey.values())
      if (intent.journaled && intent.nonce < 0) this.#dispatcher.again(intent);
    this.#watch();
  }

  /**
   * A transaction that was mined, and that the node does not show any more, is under way again: on its own nonce, so that it is still
   * mined at most once, until it is seen or proven to have been replaced. False where that nonce is another's by now.
   */
  async watchAgain(intent: Intent, row: JournaledIntent): Promise<boolean> {
    if (row.nonce === null || this.#book.byNonce.has(row.nonce)) return false;
    await this.#journal.updateTransaction(row.key, {
      status: "sent",
      outcome: null,
      updatedAt: this.#clock.now(),
    });
    intent.nonce = row.nonce;
    intent.firstNonce = 0;
    intent.hashes = [...row.hashes];
    intent.gas = row.gas === null ? 0n : BigInt(row.gas);
    intent.journaled = true;
    intent.mayBeTaken = true;
    intent.sentAt = this.#clock.monotonic();
    this.#book.byNonce.set(intent.nonce, intent);
    this.#watch();
    try {
      const [latest] = await this.#chain.counts();
      await this.#sendUnlessKnown(intent, latest);
    } catch (error) {
      // The watch goes on by itself once the chain can be asked.
      if (chainUnavailableIn(error) === undefined) throw error;
    }
    return true;
  }

  /** Somebody wants it after all: it is sent again on its own nonce, or its fate is waited for where that nonce is in use. */
  takeUp(intent: Intent, sendWithinMs: number | undefined): void {
    intent.told = newTold();
    intent.isGivenUp = false;
    const until = this.#pace.until(sendWithinMs);
    this.#lane
      .run(async () => await this.#sendAgain(intent, until))
      .catch((error: unknown) => this.#endings.failed(intent, error));
  }

  async #sendAgain(intent: Intent, until: number | undefined): Promise<void> {
    for (let attempt = 0; this.#book.givenUp.has(intent); attempt += 1) {
      this.#pace.throwIfClosed();
      try {
        const [latest] = await this.#chain.counts();
        // In use, by itself or by another: the watch will tell.
        if (latest > intent.nonce || this.#book.byNonce.has(intent.nonce)) return;
        await this.#signer.sign(intent, intent.nonce, await this.#fees.current());
        if (!intent.isEnding) break;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined && !isNodeAnswer(error)) throw error;
        if (isNodeAnswer(error) || this.#pace.isLate(until)) {
          await this.#endings.giveUp(intent, `the chain could not be asked in time: ${nodeMessage(error)}`);
          return;
        }
      }
      await this.#pace.retryPause(attempt);
    }
    if (!this.#book.givenUp.delete(intent)) return;
    this.#book.byNonce.set(intent.nonce, intent);
    const result = await this.#sending.sendUntilDecided(intent, until);
    if (result === "accepted") {
      this.#watch();
      return;
    }
    this.#book.freeNonce(intent);
    await this.#endings.giveUp(intent, result.message);
  }

  /** Sends what an earlier process, or time, has left to chance, unless its nonce is used or the node has it. */
  async #sendUnlessKnown(intent: Intent, latest: number): Promise<void> {
    if (latest > intent.nonce || (await this.#chain.known(intent))) {
      intent.sentAt = this.#clock.monotonic();
      return;
    }
    await this.#signer.sign(intent, intent.nonce, await this.#fees.current());
    await this.#sending.sendUntilDecided(intent, this.#clock.monotonic() + this.#stuckAfterMs);
  }
}
