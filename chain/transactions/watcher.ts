import type { TransactionReceipt } from "viem";
import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";
import { chainUnavailableIn, nodeMessage } from "../rpc-errors.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { GapFiller } from "./gap-filler.ts";
import { type Intent, missesUntilForeign } from "./intent.ts";
import type { IntentBook } from "./intent-book.ts";
import type { IntentEndings } from "./intent-endings.ts";
import type { IntentSigner } from "./intent-signer.ts";
import type { Lane } from "./lane.ts";
import { type Pace, QueueClosedError } from "./pace.ts";
import type { CrashPoint, QueueEvent } from "./queue-options.ts";
import type { SenderChain } from "./sender-chain.ts";
import type { Sending } from "./sending.ts";

/** How much longer than usual a given-up transaction is watched where the node cannot tell who used its nonce. */
const unprovenPatience = 15;

/** What a watcher works with. Times in milliseconds, as in `TransactionQueueOptions`. */
interface WatcherParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly book: IntentBook;
  readonly chain: SenderChain;
  readonly signer: IntentSigner;
  readonly sending: Sending;
  readonly endings: IntentEndings;
  readonly gaps: GapFiller;
  readonly dispatcher: Dispatcher;
  readonly lane: Lane;
  readonly pace: Pace;
  readonly confirmations: number;
  readonly pollMs: number;
  readonly stuckAfterMs: number;
  readonly foreignPatienceMs: number;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
  readonly crashPoint: ((point: CrashPoint, key: string) => void) | undefined;
}

/** Follows what was sent until it is final, and sends again what is stuck. */
export class Watcher {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #book: IntentBook;
  readonly #chain: SenderChain;
  readonly #signer: IntentSigner;
  readonly #sending: Sending;
  readonly #endings: IntentEndings;
  readonly #gaps: GapFiller;
  readonly #dispatcher: Dispatcher;
  readonly #lane: Lane;
  readonly #pace: Pace;
  readonly #confirmations: number;
  readonly #pollMs: number;
  readonly #stuckAfterMs: number;
  readonly #foreignPatienceMs: number;
  readonly #onEvent: WatcherParts["onEvent"];
  readonly #crashPoint: WatcherParts["crashPoint"];
  #watching: Promise<void> | undefined;
  #endPause: (() => void) | undefined;
  /** Asked to look for receipts while it was looking: once more at once. */
  #woken = false;

  constructor(parts: WatcherParts) {
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#book = parts.book;
    this.#chain = parts.chain;
    this.#signer = parts.signer;
    this.#sending = parts.sending;
    this.#endings = parts.endings;
    this.#gaps = parts.gaps;
    this.#dispatcher = parts.dispatcher;
    this.#lane = parts.lane;
    this.#pace = parts.pace;
    this.#confirmations = parts.confirmations;
    this.#pollMs = parts.pollMs;
    this.#stuckAfterMs = parts.stuckAfterMs;
    this.#foreignPatienceMs = parts.foreignPatienceMs;
    this.#onEvent = parts.onEvent;
    this.#crashPoint = parts.crashPoint;
  }

  /** Looks for receipts at once, and goes on for as long as something is in flight or not decided. */
  start(): void {
    this.poke();
    if (this.#watching !== undefined) return;
    this.#watching = this.#watchLoop().finally(() => {
      this.#watching = undefined;
      if (this.#book.isWatched && !this.#pace.isClosed) this.start();
    });
    this.#watching.catch(() => undefined);
  }

  /** Looks for receipts now. */
  poke(): void {
    this.#woken = true;
    this.#endPause?.();
  }

  /** Ends the wait for the next look, so that a closed queue need not sit it out. */
  endPause(): void {
    this.#endPause?.();
  }

  /** Resolves when the watch that runs has ended, however it ended. */
  async idle(): Promise<void> {
    await this.#watching;
  }

  /** Runs while something is in flight, or was given up and is not decided. */
  async #watchLoop(): Promise<void> {
    let failures = 0;
    while (this.#book.isWatched && !this.#pace.isClosed) {
      this.#woken = false;
      try {
        const fault = await this.#lookForReceipts();
        await this.#gaps.closeGap();
        if (this.#stuck() !== undefined) await this.#lane.run(async () => await this.#replaceStuck());
        if (fault !== undefined) throw fault;
        failures = 0;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined && !(error instanceof QueueClosedError)) {
          this.#onEvent?.({ type: "send_failed", key: "watch", kind: "watch", message: nodeMessage(error) });
        }
        failures += 1;
      }
      await this.#pause(
        failures === 0 ? this.#pollMs : backoffDelay(failures, { baseMs: this.#pollMs, maxMs: 10_000 }, this.#random),
      );
    }
  }

  /**
   * One read tells which nonces are used; only their receipts are asked for. One that the node cannot tell of, or that the journal does
   * not take, holds up none of the others: its fault is returned.
   */
  async #lookForReceipts(): Promise<Error | undefined> {
    const used = await this.#chain.usedCount();
    let asked: Promise<bigint> | undefined;
    const head = async (): Promise<bigint> => await (asked ??= this.#chain.head());
    let fault: Error | undefined;
    for (const intent of [...this.#book.inFlight(), ...this.#book.givenUp]) {
      if (intent.firstNonce >= used || this.#book.byKey.get(intent.key) !== intent) continue;
      try {
        await this.#lookFor(intent, used, head);
      } catch (error) {
        if (chainUnavailableIn(error) !== undefined || !(error instanceof Error)) throw error;
        fault ??= error;
      }
    }
    return fault;
  }

  async #lookFor(intent: Intent, used: number, head: () => Promise<bigint>): Promise<void> {
    const receipt = await this.#chain.receiptOf(intent);
    if (receipt === undefined) {
      if (intent.nonce < used) await this.#missed(intent);
      return;
    }
    intent.misses = 0;
    const isFinal =
      this.#confirmations === 1 || (await head()) - receipt.blockNumber + 1n >= BigInt(this.#confirmations);
    if (!isFinal) return;
    this.#crashPoint?.("mined", intent.key);
    await this.#finishMined(intent, receipt);
  }

  /** Its nonce is used, and nothing shows that it was by itself: a node that lags, or another transaction. */
  async #missed(intent: Intent): Promise<void> {
    const now = this.#clock.monotonic();
    if (intent.misses === 0) intent.missedSince = now;
    intent.misses += 1;
    if (now - intent.missedSince < this.#foreignPatienceMs || intent.misses < missesUntilForeign) return;
    const user = await this.#chain.userOfNonce(intent);
    if (user === "ours") {
      // Mined; its receipt will come.
      intent.misses = 0;
      return;
    }
    const isProven = user === "another" && !intent.earlierInDoubt;
    if (!intent.isGivenUp) this.#takenByAnother(intent, user === "another");
    else if (isProven || now - intent.missedSince >= unprovenPatience * this.#foreignPatienceMs) {
      await this.#endings.abandon(intent, "another transaction took its place");
    }
  }

  async #finishMined(intent: Intent, receipt: TransactionReceipt): Promise<void> {
    const outcome = await this.#chain.outcomeFrom(intent, receipt);
    intent.isEnding = true;
    try {
      await this.#endings.record(intent, outcome);
    } catch (error) {
      intent.isEnding = false;
      throw error;
    }
    this.#book.givenUp.delete(intent);
    if (this.#book.byNonce.get(intent.nonce) === intent) this.#book.byNonce.delete(intent.nonce);
    this.#endings.finish(intent, outcome);
    this.#crashPoint?.("finished", intent.key);
  }

  /** Another transaction used this nonce with our key: the intent goes round again. */
  #takenByAnother(intent: Intent, isProven: boolean): void {
    // Where it had been given up, and is asked for again, another of ours may hold it.
    this.#book.givenUp.delete(intent);
    this.#book.freeNonce(intent);
    this.#dispatcher.loseNonce(intent, isProven);
    this.#dispatcher.again(intent);
  }

  /** The lowest nonce holds up all others: when it has waited too long it is sent again at a higher fee. */
  #stuck(): Intent | undefined {
    const lowest = this.#book.inFlight()[0];
    if (lowest === undefined || lowest.misses > 0) return undefined;
    return this.#clock.monotonic() - lowest.sentAt < this.#stuckAfterMs ? undefined : lowest;
  }

  async #replaceStuck(): Promise<void> {
    const lowest = this.#stuck();
    if (lowest === undefined) return;
    // Between the look for receipts and now it may have been mined: its receipt comes with the next look.
    const [latest] = await this.#chain.counts();
    if (latest > lowest.nonce) return;
    // While the chain makes no blocks no fee helps, and each raise is paid when it goes on. As it is, as at the cap, it is sent in case
    // the pool has dropped it.
    const head = await this.#chain.head();
    if (head !== lowest.raisedAt || lowest.raw === undefined) await this.#signer.raiseFees(lowest);
    lowest.raisedAt = head;
    await this.#sending.sendUntilDecided(lowest, this.#clock.monotonic() + this.#stuckAfterMs);
    lowest.sentAt = this.#clock.monotonic();
  }

  /** Waits for the next poll, a poke, or the end. */
  async #pause(delayMs: number): Promise<void> {
    if (this.#woken || this.#pace.isClosed || !this.#book.isWatched) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#endPause = undefined;
        resolve();
      };
      const cancel = this.#clock.after(delayMs, done);
      this.#endPause = done;
    });
  }
}
