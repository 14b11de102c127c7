import type { Address, PublicClient } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { chainUnavailableIn } from "../rpc-errors.ts";
import type { FeeSource } from "./fee-source.ts";
import { type Intent, intentFromRow, newIntent } from "./intent.ts";
import type { IntentBook } from "./intent-book.ts";
import type { IntentEndings } from "./intent-endings.ts";
import type { IntentSigner } from "./intent-signer.ts";
import type { Lane } from "./lane.ts";
import type { QueueEvent } from "./queue-options.ts";
import type { SenderChain } from "./sender-chain.ts";
import { refusalPatienceMs, type Sending } from "./sending.ts";
import type { TransactionJournal } from "./transaction-journal.ts";

/** Most nonces of one round of filling a gap. */
const maxFilled = 32;

/** What a gap filler works with. */
interface GapFillerParts {
  readonly client: PublicClient;
  readonly chainId: number;
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly book: IntentBook;
  readonly chain: SenderChain;
  readonly fees: FeeSource;
  readonly signer: IntentSigner;
  readonly sending: Sending;
  readonly endings: IntentEndings;
  readonly lane: Lane;
  /** Ms between two looks whether the node waits for a nonce below all of ours. */
  readonly gapLookMs: number;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
  /** Starts the watch over what is in flight. */
  readonly watch: () => void;
}

/** Finds and fills nonces that the node waits for and that nobody holds. */
export class GapFiller {
  readonly #client: PublicClient;
  readonly #chainId: number;
  readonly #journal: TransactionJournal;
  readonly #clock: Clock;
  readonly #book: IntentBook;
  readonly #chain: SenderChain;
  readonly #fees: FeeSource;
  readonly #signer: IntentSigner;
  readonly #sending: Sending;
  readonly #endings: IntentEndings;
  readonly #lane: Lane;
  readonly #gapLookMs: number;
  readonly #onEvent: GapFillerParts["onEvent"];
  readonly #watch: () => void;
  /** The intent below which a gap is looked for, monotonic ms of the newest look, and where it found one. */
  #lowest: Intent | undefined;
  #gapLookedAt = 0;
  #gapAt: number | undefined;
  #isFilling = false;

  constructor(parts: GapFillerParts) {
    this.#client = parts.client;
    this.#chainId = parts.chainId;
    this.#journal = parts.journal;
    this.#clock = parts.clock;
    this.#book = parts.book;
    this.#chain = parts.chain;
    this.#fees = parts.fees;
    this.#signer = parts.signer;
    this.#sending = parts.sending;
    this.#endings = parts.endings;
    this.#lane = parts.lane;
    this.#gapLookMs = parts.gapLookMs;
    this.#onEvent = parts.onEvent;
    this.#watch = parts.watch;
  }

  /**
   * A reorganisation that dropped what was mined below the lowest nonce under way leaves a gap that holds up everything for good. Two
   * looks in a row must find it: a node that lags shows the same for a moment.
   */
  async closeGap(): Promise<void> {
    const lowest = this.#book.inFlight()[0];
    const now = this.#clock.monotonic();
    if (lowest !== this.#lowest) {
      this.#lowest = lowest;
      this.#gapLookedAt = now;
    }
    if (lowest === undefined || lowest.misses > 0 || now - this.#gapLookedAt < this.#gapLookMs) return;
    this.#gapLookedAt = now;
    const [, pendingCount] = await this.#chain.counts();
    const isGap = pendingCount < lowest.nonce;
    const wasGap = this.#gapAt === pendingCount;
    this.#gapAt = isGap ? pendingCount : undefined;
    if (isGap && wasGap) await this.#lane.run(async () => await this.fillGap(pendingCount, lowest.nonce));
  }

  /**
   * Gives the node every nonce that it waits for: a transaction of ours once more that it has dropped, one that was mined and that the
   * chain has taken back, or, where there is neither, one that does nothing. What was signed for a later nonce stays as it is: signed
   * anew for a lower one it could be mined twice.
   */
  async fillGap(from: number, below: number): Promise<void> {
    if (this.#isFilling) return;
    this.#isFilling = true;
    try {
      for (let nonce = from; nonce < Math.min(below, from + maxFilled); nonce += 1) await this.#fill(nonce);
    } finally {
      this.#isFilling = false;
    }
  }

  async #fill(nonce: number): Promise<void> {
    const holder = this.#book.byNonce.get(nonce);
    if (holder !== undefined) {
      if (holder.raw === undefined) await this.#signer.resign(holder);
      if (holder.raw !== undefined)
        await this.#client.sendRawTransaction({ serializedTransaction: holder.raw }).catch(() => undefined);
      return;
    }
    const intent = (await this.#takenBack(nonce)) ?? (await this.#idle(nonce));
    await this.#signer.sign(intent, nonce, await this.#fees.current());
    this.#book.byKey.set(intent.key, intent);
    this.#book.byNonce.set(nonce, intent);
    const result = await this.#sending.sendUntilDecided(intent, this.#clock.monotonic() + refusalPatienceMs);
    if (result === "accepted") {
      this.#onEvent?.({ type: "gap_closed", key: intent.key, kind: intent.kind, nonce });
      this.#watch();
      return;
    }
    this.#book.byNonce.delete(nonce);
    await this.#endings.giveUp(intent, result.message);
  }

  /** The transaction that was mined with a nonce, if what it did is still possible. */
  async #takenBack(nonce: number): Promise<Intent | undefined> {
    const rows = await this.#journal.minedTransactions(this.#chain.address, this.#chainId, nonce);
    const row = rows.find((mined) => mined.nonce === nonce && mined.status === "success");
    if (row === undefined || this.#book.byKey.has(row.key)) return undefined;
    const intent = intentFromRow(row);
    try {
      await this.#chain.estimate(intent);
      return intent;
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined) throw error;
      await this.#journal.updateTransaction(row.key, {
        status: "abandoned",
        outcome: null,
        updatedAt: this.#clock.now(),
      });
      return undefined;
    }
  }

  /** A transaction that does nothing but use a nonce. */
  async #idle(nonce: number): Promise<Intent> {
    const createdAt = this.#clock.now();
    const to: Address = this.#chain.address;
    const key = `fill:${this.#chainId}:${nonce}:${createdAt}`;
    const intent = newIntent({ key, kind: "fill_gap", to, data: "0x", gas: undefined, createdAt });
    await this.#chain.estimate(intent);
    return intent;
  }
}
