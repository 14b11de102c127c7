import { Dispatcher } from "./dispatcher.ts";
import { FeeSource } from "./fee-source.ts";
import { GapFiller } from "./gap-filler.ts";
import { type Intent, intentFromRow, newIntent } from "./intent.ts";
import { IntentBook } from "./intent-book.ts";
import { IntentEndings } from "./intent-endings.ts";
import { IntentSigner } from "./intent-signer.ts";
import { Lane } from "./lane.ts";
import { Pace, QueueClosedError } from "./pace.ts";
import type { TransactionQueueOptions } from "./queue-options.ts";
import { Recovery } from "./recovery.ts";
import { SenderChain } from "./sender-chain.ts";
import { Sending } from "./sending.ts";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "./types.ts";
import { Watcher } from "./watcher.ts";

/** A `TransactionQueue` with the calls that its process needs beside. */
export interface RunningTransactionQueue extends TransactionQueue {
  /** A new block was seen: look for receipts now. */
  poke(): void;
}

/**
 * Opens the one queue of a key. Intents that an earlier process left in the journal are taken up at once, in the background: the
 * chain may be down at start.
 */
export async function openTransactionQueue(options: TransactionQueueOptions): Promise<RunningTransactionQueue> {
  const queue = new Queue(options);
  await queue.open();
  return queue;
}

class Queue implements RunningTransactionQueue {
  readonly #o: TransactionQueueOptions;
  readonly #book = new IntentBook();
  /** Only one intent at a time allocates, persists and sends. */
  readonly #lane = new Lane();
  readonly #pace: Pace;
  readonly #chain: SenderChain;
  readonly #endings: IntentEndings;
  readonly #dispatcher: Dispatcher;
  readonly #recovery: Recovery;
  readonly #watcher: Watcher;
  #resuming: Promise<void> = Promise.resolve();

  constructor(options: TransactionQueueOptions) {
    this.#o = options;
    const { client, account, chainId, journal, clock, random, onEvent, crashPoint } = options;
    const feeCap = options.feeCap ?? 500_000_000_000n;
    const stuckAfterMs = options.stuckAfterMs ?? 30_000;
    const watch = (): void => this.#watcher.start();
    const book = this.#book;
    const lane = this.#lane;
    const pace = new Pace({ clock, random });
    const chain = new SenderChain(client, account.address);
    const fees = new FeeSource({ client, clock, maxAgeMs: 4000, cap: feeCap });
    const signer = new IntentSigner({ account, chainId, journal, clock, fees, feeCap, onEvent });
    const endings = new IntentEndings({ journal, clock, book, pace, watch });
    const sending = new Sending({
      client,
      chain,
      signer,
      fees,
      pace,
      clock,
      onEvent,
      fillGap: async (from, below) => await gaps.fillGap(from, below),
    });
    const shared = { clock, book, chain, signer, sending, endings, lane, onEvent };
    const gaps = new GapFiller({
      ...shared,
      client,
      chainId,
      journal,
      fees,
      gapLookMs: options.gapLookMs ?? 2000,
      watch,
    });
    const dispatcher = new Dispatcher({ ...shared, fees, pace, crashPoint, watch });
    this.#recovery = new Recovery({ ...shared, journal, fees, dispatcher, pace, stuckAfterMs, watch });
    this.#watcher = new Watcher({
      ...shared,
      random,
      gaps,
      dispatcher,
      pace,
      confirmations: Math.max(1, options.confirmations ?? 1),
      pollMs: options.pollMs ?? 1000,
      stuckAfterMs,
      foreignPatienceMs: options.foreignPatienceMs ?? 20_000,
      crashPoint,
    });
    this.#pace = pace;
    this.#chain = chain;
    this.#endings = endings;
    this.#dispatcher = dispatcher;
  }

  get address() {
    return this.#o.account.address;
  }

  get pending(): number {
    return this.#book.byKey.size;
  }

  /** Takes up what the journal holds. */
  async open(): Promise<void> {
    for (const row of await this.#o.journal.openTransactions(this.address, this.#o.chainId)) {
      const intent = intentFromRow(row);
      this.#book.byKey.set(intent.key, intent);
      if (intent.isGivenUp) this.#book.givenUp.add(intent);
      else if (intent.nonce >= 0) this.#hold(intent);
    }
    if (this.#book.byKey.size > 0) {
      this.#resuming = this.#lane.run(async () => await this.#recovery.resume());
      this.#resuming.catch(() => undefined);
    }
  }

  /** Of two that have one nonce, as a journal that failed may leave them, the newer was sent last: whoever is mined decides. */
  #hold(intent: Intent): void {
    const older = this.#book.byNonce.get(intent.nonce);
    if (older !== undefined) this.#endings.letGo(older, "another transaction was sent with its nonce");
    this.#book.byNonce.set(intent.nonce, intent);
  }

  async submit(request: TransactionRequest): Promise<TransactionOutcome> {
    const running = this.#book.byKey.get(request.key);
    if (running !== undefined) {
      if (running.isGivenUp) this.#recovery.takeUp(running, request.sendWithinMs);
      return await this.#answer(running, request.answerWithinMs);
    }
    this.#pace.throwIfClosed();
    const intent = newIntent({ ...request, gas: request.gas, createdAt: this.#o.clock.now() });
    // Taken before the first await, so that two calls with one key cannot both go on.
    this.#book.byKey.set(request.key, intent);
    this.#begin(intent, request.sendWithinMs).catch((error: unknown) => this.#endings.failed(intent, error));
    return await this.#answer(intent, request.answerWithinMs);
  }

  /** What the caller is told: the outcome, or at its time that there is none yet. The intent goes on all the same. */
  async #answer(intent: Intent, withinMs: number | undefined): Promise<TransactionOutcome> {
    if (withinMs === undefined) return await intent.told.promise;
    const late = Promise.withResolvers<TransactionOutcome>();
    const cancel = this.#o.clock.after(withinMs, () =>
      late.resolve({ status: "abandoned", message: "it was not mined in time", undecided: true }),
    );
    try {
      return await Promise.race([intent.told.promise, late.promise]);
    } finally {
      cancel();
    }
  }

  isPending(key: string): boolean {
    return this.#book.byKey.has(key);
  }

  async outcomeOf(key: string): Promise<TransactionOutcome | undefined> {
    const running = this.#book.byKey.get(key);
    if (running !== undefined) return await running.told.promise;
    const row = await this.#o.journal.transaction(key);
    if (row?.outcome === undefined || row.outcome === null) return undefined;
    // Without its receipt nobody can tell: a node that lags, or has thrown it away, or a chain that has taken it back.
    return (
      (await this.#chain.restore(row.outcome)) ?? {
        status: "abandoned",
        message: "the node does not show the receipt of a transaction that was mined",
        undecided: true,
      }
    );
  }

  poke(): void {
    this.#watcher.poke();
  }

  async close(): Promise<void> {
    this.#pace.close();
    this.#watcher.endPause();
    await Promise.allSettled([this.#lane.idle(), this.#watcher.idle(), this.#resuming]);
    const error = new QueueClosedError("the transaction queue is closed");
    for (const intent of this.#book.byKey.values()) intent.told.reject(error);
    this.#book.clear();
  }

  /** From submit to sent. */
  async #begin(intent: Intent, sendWithinMs: number | undefined): Promise<void> {
    const until = this.#pace.until(sendWithinMs);
    const known = await this.#o.journal.transaction(intent.key);
    if (known?.outcome !== undefined && known.outcome !== null) {
      const outcome = await this.#chain.restore(known.outcome);
      if (outcome !== undefined) {
        this.#endings.finish(intent, outcome);
        return;
      }
      if (await this.#lane.run(async () => await this.#recovery.watchAgain(intent, known))) return;
    }
    if (!(await this.#dispatcher.simulated(intent, until))) return;
    this.#o.crashPoint?.("simulated", intent.key);
    await this.#lane.run(async () => await this.#dispatcher.allocateAndSend(intent, until));
  }
}
