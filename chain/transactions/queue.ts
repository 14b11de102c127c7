import { type Hex, keccak256, type LocalAccount, type PublicClient, type TransactionReceipt } from "viem";

import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";
import { decodeRevert, describeRevert } from "../revert.ts";
import { chainUnavailableIn, looksReverted, nodeMessage, revertDataIn } from "../rpc-errors.ts";
import { sleep } from "../sleep.ts";
import { FeeSource } from "./fee-source.ts";
import { type Fees, replacementFees } from "./fees.ts";
import { type Intent, intentFromRow, newIntent, newTold } from "./intent.ts";
import { readStoredOutcome, storeOutcome } from "./outcome-row.ts";
import type { TransactionJournal } from "./transaction-journal.ts";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "./types.ts";

/** Places at which a kill test may end the process. */
export type CrashPoint = "simulated" | "persisted" | "sent" | "mined" | "finished";

/** What an operator should know of. */
export type QueueEvent =
  | {
      readonly type: "bumped";
      readonly key: string;
      readonly kind: string;
      readonly nonce: number;
      readonly maxFeePerGas: bigint;
    }
  | { readonly type: "fee_cap_reached"; readonly key: string; readonly kind: string; readonly nonce: number }
  | { readonly type: "foreign_nonce"; readonly key: string; readonly kind: string; readonly nonce: number }
  | { readonly type: "send_failed"; readonly key: string; readonly kind: string; readonly message: string };

/** Options of `openTransactionQueue`. Times in milliseconds. */
export interface TransactionQueueOptions {
  readonly client: PublicClient;
  readonly account: LocalAccount;
  readonly chainId: number;
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly random: Random;
  /** Blocks that an inclusion needs on top of it to be final, counting its own; at least 1. */
  readonly confirmations?: number;
  /** How often pending receipts are looked for when nobody pokes. */
  readonly pollMs?: number;
  /** Age of the newest sending at which the lowest nonce is sent again at a higher fee. */
  readonly stuckAfterMs?: number;
  /** How long a used nonce without a receipt of ours is put down to a lagging node before a foreign transaction is assumed. */
  readonly foreignPatienceMs?: number;
  /** Wei per gas never to be passed. */
  readonly feeCap?: bigint;
  readonly onEvent?: (event: QueueEvent) => void;
  readonly crashPoint?: (point: CrashPoint, key: string) => void;
}

/** The queue was closed; journaled intents go on at the next start. */
export class QueueClosedError extends Error {
  override readonly name = "QueueClosedError";
}

/** A `TransactionQueue` with the calls that its process needs beside. */
export interface RunningTransactionQueue extends TransactionQueue {
  /** A new block was seen: look for receipts now. */
  poke(): void;
}

/** Polls in a row, besides the patience, after which a used nonce without a receipt of ours is taken for a foreign transaction's. */
const missesUntilForeign = 3;
/** Simulation sees the state of now, execution that of a later block: room for a storage slot that turned from warm or set to new. */
const gasMarginPercent = 130n;
const minRetryMs = 50;
const maxRetryMs = 5000;

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
  readonly #fees: FeeSource;
  readonly #confirmations: number;
  readonly #pollMs: number;
  readonly #stuckAfterMs: number;
  readonly #feeCap: bigint;
  readonly #foreignPatienceMs: number;
  /** Intents by key, from submit to their end. */
  readonly #byKey = new Map<string, Intent>();
  /** Intents that hold a nonce, by nonce. */
  readonly #byNonce = new Map<number, Intent>();
  /** Intents whose callers were let go, and that a nonce yet to be used decides. */
  readonly #givenUp = new Set<Intent>();
  readonly #closed = new AbortController();
  /** The next nonce to give; undefined = ask the chain. */
  #nextNonce: number | undefined;
  /** Only one intent at a time allocates, persists and sends. */
  #lane: Promise<unknown> = Promise.resolve();
  #watching: Promise<void> | undefined;
  #endPause: (() => void) | undefined;
  /** Asked to look for receipts while it was looking: once more at once. */
  #woken = false;
  #resuming: Promise<void> = Promise.resolve();

  constructor(options: TransactionQueueOptions) {
    this.#o = options;
    this.#confirmations = Math.max(1, options.confirmations ?? 1);
    this.#pollMs = options.pollMs ?? 1000;
    this.#stuckAfterMs = options.stuckAfterMs ?? 30_000;
    this.#feeCap = options.feeCap ?? 500_000_000_000n;
    this.#foreignPatienceMs = options.foreignPatienceMs ?? 20_000;
    this.#fees = new FeeSource({ client: options.client, clock: options.clock, maxAgeMs: 4000, cap: this.#feeCap });
  }

  get address() {
    return this.#o.account.address;
  }

  get pending(): number {
    return this.#byKey.size;
  }

  /** Takes up what the journal holds. */
  async open(): Promise<void> {
    for (const row of await this.#o.journal.openTransactions(this.address, this.#o.chainId)) {
      const intent = intentFromRow(row);
      this.#byKey.set(intent.key, intent);
      if (intent.isGivenUp) this.#givenUp.add(intent);
      else if (intent.nonce >= 0) this.#byNonce.set(intent.nonce, intent);
    }
    if (this.#byKey.size > 0) {
      this.#resuming = this.#inLane(async () => await this.#resume());
      this.#resuming.catch(() => undefined);
    }
  }

  async submit(request: TransactionRequest): Promise<TransactionOutcome> {
    const running = this.#byKey.get(request.key);
    if (running !== undefined) {
      if (running.isGivenUp) this.#takeUp(running, request.sendWithinMs);
      return await running.told.promise;
    }
    this.#throwIfClosed();
    const intent = newIntent({ ...request, gas: request.gas, createdAt: this.#o.clock.now() });
    // Taken before the first await, so that two calls with one key cannot both go on.
    this.#byKey.set(request.key, intent);
    this.#begin(intent, request.sendWithinMs).catch((error: unknown) => {
      this.#forget(intent);
      intent.told.reject(error instanceof Error ? error : new Error(String(error)));
    });
    return await intent.told.promise;
  }

  isPending(key: string): boolean {
    return this.#byKey.has(key);
  }

  async outcomeOf(key: string): Promise<TransactionOutcome | undefined> {
    const running = this.#byKey.get(key);
    if (running !== undefined) return await running.told.promise;
    const row = await this.#o.journal.transaction(key);
    const outcome = row?.outcome ?? undefined;
    return outcome === undefined ? undefined : await this.#restore(outcome);
  }

  poke(): void {
    this.#woken = true;
    this.#endPause?.();
  }

  async close(): Promise<void> {
    if (!this.#closed.signal.aborted) this.#closed.abort(new QueueClosedError("the transaction queue is closed"));
    this.#endPause?.();
    await Promise.allSettled([this.#lane, this.#watching, this.#resuming]);
    const error = new QueueClosedError("the transaction queue is closed");
    for (const intent of this.#byKey.values()) intent.told.reject(error);
    this.#byKey.clear();
    this.#byNonce.clear();
    this.#givenUp.clear();
  }

  // ------------------------------------------------------------------------------------------------------- from submit to sent

  async #begin(intent: Intent, sendWithinMs: number | undefined): Promise<void> {
    const known = await this.#o.journal.transaction(intent.key);
    const outcome = known?.outcome ?? undefined;
    if (outcome !== undefined) {
      this.#finish(intent, await this.#restore(outcome));
      return;
    }
    const until = sendWithinMs === undefined ? undefined : this.#o.clock.monotonic() + sendWithinMs;
    if (!(await this.#simulated(intent, until))) return;
    this.#o.crashPoint?.("simulated", intent.key);
    await this.#inLane(async () => await this.#allocateAndSend(intent, until));
  }

  /** Runs the call against the current state. False when it ended the intent. Waits out an unreachable chain within `until`. */
  async #simulated(intent: Intent, until: number | undefined): Promise<boolean> {
    const call = { account: this.address, to: intent.to, data: intent.data } as const;
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      try {
        if (intent.fixedGas === undefined) {
          intent.gas = ((await this.#o.client.estimateGas(call)) * gasMarginPercent) / 100n;
        } else {
          await this.#o.client.call({ ...call, gas: intent.fixedGas });
          intent.gas = intent.fixedGas;
        }
        return true;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) {
          this.#finish(intent, this.#failedSimulation(error));
          return false;
        }
        if (this.#late(until)) {
          this.#finish(intent, {
            status: "abandoned",
            message: `the chain could not be reached in time: ${nodeMessage(error)}`,
            undecided: false,
          });
          return false;
        }
      }
      await this.#retryPause(attempt);
    }
  }

  #failedSimulation(error: unknown): TransactionOutcome {
    if (!looksReverted(error)) return { status: "abandoned", message: nodeMessage(error), undecided: false };
    const revert = decodeRevert(revertDataIn(error));
    return {
      status: "reverted",
      hash: undefined,
      ...revert,
      message: revert.errorName === undefined ? nodeMessage(error) : describeRevert(revert),
    };
  }

  async #allocateAndSend(intent: Intent, until: number | undefined): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      if (this.#late(until)) {
        await this.#giveUp(intent, "it could not be sent in time");
        return;
      }
      try {
        const fees = await this.#fees.current();
        const nonce = (this.#nextNonce ??= await this.#askNextNonce());
        await this.#sign(intent, nonce, fees);
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) throw error;
        await this.#retryPause(attempt);
        continue;
      }
      this.#nextNonce = intent.nonce + 1;
      this.#byNonce.set(intent.nonce, intent);
      await this.#persist(intent);
      this.#o.crashPoint?.("persisted", intent.key);
      const result = await this.#sendUntilDecided(intent, until);
      this.#o.crashPoint?.("sent", intent.key);
      if (result === "accepted") {
        this.#watch();
        return;
      }
      this.#byNonce.delete(intent.nonce);
      this.#nextNonce = undefined;
      if (result.refused) {
        await this.#giveUp(intent, result.message);
        return;
      }
      // The nonce went to a foreign transaction: the same intent takes the next one.
      this.#o.onEvent?.({ type: "foreign_nonce", key: intent.key, kind: intent.kind, nonce: intent.nonce });
    }
  }

  async #sign(intent: Intent, nonce: number, fees: Fees): Promise<void> {
    const raw = await this.#o.account.signTransaction({
      type: "eip1559",
      chainId: this.#o.chainId,
      nonce,
      to: intent.to,
      data: intent.data,
      gas: intent.gas,
      ...fees,
    });
    if (intent.nonce !== nonce) {
      intent.hashes = [];
      intent.mayBeTaken = false;
    }
    intent.nonce = nonce;
    intent.fees = fees;
    intent.raw = raw;
    intent.hashes.push(keccak256(raw));
    intent.misses = 0;
  }

  /** Writes nonce and hashes before anything is sent: a hash that the journal does not know can never be on the chain. */
  async #persist(intent: Intent): Promise<void> {
    const now = this.#o.clock.now();
    const mutable = {
      nonce: intent.nonce,
      hashes: [...intent.hashes],
      status: "sent",
      outcome: null,
      gas: String(intent.gas),
      updatedAt: now,
    } as const;
    if (!intent.journaled) {
      const inserted = await this.#o.journal.insertTransaction({
        key: intent.key,
        sender: this.address,
        chainId: this.#o.chainId,
        kind: intent.kind,
        to: intent.to,
        data: intent.data,
        createdAt: intent.createdAt,
        ...mutable,
      });
      intent.journaled = true;
      if (inserted) return;
    }
    await this.#o.journal.updateTransaction(intent.key, mutable);
  }

  /**
   * Sends the newest signed transaction until it is known what became of it. What a node answers to a send is not believed: the
   * chain is read instead.
   *
   * @param until Monotonic ms after which a chain that cannot be reached is not waited for.
   */
  async #sendUntilDecided(
    intent: Intent,
    until?: number,
  ): Promise<"accepted" | { readonly refused: boolean; readonly message: string }> {
    const startedAt = this.#o.clock.monotonic();
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      const { raw } = intent;
      if (raw === undefined) return "accepted";
      let failure: unknown;
      try {
        await this.#o.client.sendRawTransaction({ serializedTransaction: raw });
        intent.sentAt = this.#o.clock.monotonic();
        return "accepted";
      } catch (error) {
        failure = error;
        // No answer is no refusal: the node may have taken it.
        intent.mayBeTaken ||= chainUnavailableIn(error) !== undefined;
      }
      try {
        if (await this.#known(intent)) {
          intent.sentAt = this.#o.clock.monotonic();
          return "accepted";
        }
        const [latest, pendingCount] = await this.#counts();
        if (latest > intent.nonce || pendingCount > intent.nonce) {
          // Used, or claimed in the pool, by something else; but a lagging node may not show ours yet.
          const patient = intent.mayBeTaken && this.#o.clock.monotonic() - startedAt < this.#foreignPatienceMs;
          if (patient || attempt + 1 < missesUntilForeign) {
            await this.#retryPause(attempt);
            continue;
          }
          if (pendingCount > intent.nonce && latest <= intent.nonce) {
            this.#fees.forget();
            if (await this.#raiseFees(intent)) continue;
          }
          return { refused: false, message: nodeMessage(failure) };
        }
        if (pendingCount < intent.nonce) {
          // Ours below it are not in the pool any more: put them back first.
          await this.#rebroadcastBelow(intent.nonce);
          if (attempt > 20) return { refused: true, message: nodeMessage(failure) };
        } else if (chainUnavailableIn(failure) === undefined) {
          this.#o.onEvent?.({ type: "send_failed", key: intent.key, kind: intent.kind, message: nodeMessage(failure) });
          // The node heard it and said no: once more with the market's fees of now, then give up. Nothing is on the chain.
          if (attempt > 0) return { refused: true, message: nodeMessage(failure) };
          this.#fees.forget();
          await this.#resign(intent);
        }
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) throw error;
        if (this.#late(until))
          return { refused: true, message: `the chain could not be reached in time: ${nodeMessage(error)}` };
      }
      await this.#retryPause(attempt);
    }
  }

  /** Signs the same nonce again with current fees, without requiring them to be higher: the earlier one was never taken. */
  async #resign(intent: Intent): Promise<void> {
    await this.#sign(intent, intent.nonce, await this.#fees.current());
    await this.#persist(intent);
  }

  /** Signs the same nonce at fees that replace a pooled transaction. False when the cap forbids it. */
  async #raiseFees(intent: Intent): Promise<boolean> {
    const market = await this.#fees.current();
    const fees = replacementFees(intent.fees ?? market, market, this.#feeCap);
    if (fees === undefined) {
      this.#o.onEvent?.({ type: "fee_cap_reached", key: intent.key, kind: intent.kind, nonce: intent.nonce });
      return false;
    }
    await this.#sign(intent, intent.nonce, fees);
    await this.#persist(intent);
    this.#o.onEvent?.({
      type: "bumped",
      key: intent.key,
      kind: intent.kind,
      nonce: intent.nonce,
      maxFeePerGas: fees.maxFeePerGas,
    });
    return true;
  }

  async #rebroadcastBelow(nonce: number): Promise<void> {
    for (const lower of this.#inFlight()) {
      if (lower.nonce >= nonce || lower.raw === undefined) continue;
      await this.#o.client.sendRawTransaction({ serializedTransaction: lower.raw }).catch(() => undefined);
    }
  }

  /** Whether the node has one of our hashes, pooled or mined. */
  async #known(intent: Intent): Promise<boolean> {
    for (const hash of intent.hashes.toReversed()) {
      const transaction = await this.#o.client.request({ method: "eth_getTransactionByHash", params: [hash] });
      if (transaction !== null) return true;
    }
    return false;
  }

  async #counts(): Promise<readonly [latest: number, pending: number]> {
    const { client } = this.#o;
    return await Promise.all([
      client.getTransactionCount({ address: this.address, blockTag: "latest" }),
      client.getTransactionCount({ address: this.address, blockTag: "pending" }),
    ]);
  }

  async #askNextNonce(): Promise<number> {
    const pendingCount = await this.#o.client.getTransactionCount({ address: this.address, blockTag: "pending" });
    return Math.max(pendingCount, ...[...this.#byNonce.keys()].map((nonce) => nonce + 1));
  }

  // ------------------------------------------------------------------------------------------------------- from sent to final

  #inFlight(): Intent[] {
    return [...this.#byNonce.values()].toSorted((a, b) => a.nonce - b.nonce);
  }

  #watch(): void {
    this.poke();
    if (this.#watching !== undefined) return;
    this.#watching = this.#watchLoop().finally(() => {
      this.#watching = undefined;
      if (this.#isWatched && !this.#closed.signal.aborted) this.#watch();
    });
    this.#watching.catch(() => undefined);
  }

  get #isWatched(): boolean {
    return this.#byNonce.size > 0 || this.#givenUp.size > 0;
  }

  /** Runs while something is in flight, or was given up and is not decided. */
  async #watchLoop(): Promise<void> {
    let failures = 0;
    while (this.#isWatched && !this.#closed.signal.aborted) {
      this.#woken = false;
      try {
        await this.#lookForReceipts();
        if (this.#stuck() !== undefined) await this.#inLane(async () => await this.#replaceStuck());
        failures = 0;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined && !(error instanceof QueueClosedError)) {
          this.#o.onEvent?.({ type: "send_failed", key: "watch", kind: "watch", message: nodeMessage(error) });
        }
        failures += 1;
      }
      await this.#pause(
        failures === 0 ? this.#pollMs : backoffDelay(failures, { baseMs: this.#pollMs, maxMs: 10_000 }, this.#o.random),
      );
    }
  }

  /** One read tells which nonces are used; only their receipts are asked for. */
  async #lookForReceipts(): Promise<void> {
    const used = await this.#o.client.getTransactionCount({ address: this.address, blockTag: "latest" });
    let head: bigint | undefined;
    for (const intent of [...this.#inFlight(), ...this.#givenUp]) {
      if (intent.nonce >= used) continue;
      const receipt = await this.#receiptOf(intent);
      if (receipt === undefined) {
        const now = this.#o.clock.monotonic();
        if (intent.misses === 0) intent.missedSince = now;
        intent.misses += 1;
        const patient = now - intent.missedSince < this.#foreignPatienceMs;
        if (!patient && intent.misses >= missesUntilForeign) await this.#takenByAnother(intent);
        continue;
      }
      intent.misses = 0;
      if (this.#confirmations > 1) {
        head ??= await this.#o.client.getBlockNumber({ cacheTime: 0 });
        if (head - receipt.blockNumber + 1n < BigInt(this.#confirmations)) continue;
      }
      this.#o.crashPoint?.("mined", intent.key);
      await this.#finishMined(intent, receipt);
    }
  }

  async #receiptOf(intent: Intent): Promise<TransactionReceipt | undefined> {
    for (const hash of intent.hashes.toReversed()) {
      const receipt = await this.#askReceipt(hash);
      if (receipt !== undefined) return receipt;
    }
    return undefined;
  }

  async #askReceipt(hash: Hex): Promise<TransactionReceipt | undefined> {
    try {
      return await this.#o.client.getTransactionReceipt({ hash });
    } catch (error) {
      if (error instanceof Error && error.name === "TransactionReceiptNotFoundError") return undefined;
      throw error;
    }
  }

  async #finishMined(intent: Intent, receipt: TransactionReceipt): Promise<void> {
    const outcome = await this.#outcomeFrom(intent, receipt);
    await this.#record(intent, outcome);
    if (!this.#givenUp.delete(intent)) this.#byNonce.delete(intent.nonce);
    this.#finish(intent, outcome);
    this.#o.crashPoint?.("finished", intent.key);
  }

  async #outcomeFrom(intent: Intent, receipt: TransactionReceipt): Promise<TransactionOutcome> {
    const hash = receipt.transactionHash;
    if (receipt.status === "success") return { status: "success", hash, receipt };
    const call = { account: this.address, to: intent.to, data: intent.data, gas: intent.gas } as const;
    try {
      // The state before its block is not exactly the state that it met, but most often tells the reason.
      await this.#o.client.call({ ...call, blockNumber: receipt.blockNumber - 1n });
      await this.#o.client.call({ ...call, blockNumber: receipt.blockNumber });
      return { status: "reverted", hash, errorName: undefined, errorArgs: [], message: "reverted when it was mined" };
    } catch (error) {
      const revert = decodeRevert(revertDataIn(error));
      return { status: "reverted", hash, ...revert, message: describeRevert(revert) };
    }
  }

  async #record(intent: Intent, outcome: TransactionOutcome): Promise<void> {
    if (!intent.journaled) return;
    await this.#o.journal.updateTransaction(intent.key, {
      status: outcome.status,
      outcome: storeOutcome(outcome) ?? null,
      hashes: [...intent.hashes],
      updatedAt: this.#o.clock.now(),
    });
  }

  /** Another transaction used this nonce with our key: the intent goes round again, unless nobody waits for it any more. */
  async #takenByAnother(intent: Intent): Promise<void> {
    if (this.#givenUp.delete(intent)) {
      await this.#abandon(intent, "another transaction took its place");
      return;
    }
    this.#o.onEvent?.({ type: "foreign_nonce", key: intent.key, kind: intent.kind, nonce: intent.nonce });
    this.#byNonce.delete(intent.nonce);
    this.#nextNonce = undefined;
    intent.misses = 0;
    intent.nonce = -1;
    this.#again(intent);
  }

  /** Simulates and sends an intent that lost its nonce; its simulation shows when its purpose is already fulfilled. */
  #again(intent: Intent): void {
    const run = async (): Promise<void> => {
      if (!(await this.#simulated(intent, undefined))) return;
      await this.#inLane(async () => await this.#allocateAndSend(intent, undefined));
    };
    run().catch((error: unknown) => {
      if (this.#closed.signal.aborted) return;
      this.#o.onEvent?.({ type: "send_failed", key: intent.key, kind: intent.kind, message: nodeMessage(error) });
    });
  }

  /** The lowest nonce holds up all others: when it has waited too long it is sent again at a higher fee. */
  #stuck(): Intent | undefined {
    const lowest = this.#inFlight()[0];
    if (lowest === undefined || lowest.misses > 0) return undefined;
    return this.#o.clock.monotonic() - lowest.sentAt < this.#stuckAfterMs ? undefined : lowest;
  }

  async #replaceStuck(): Promise<void> {
    const lowest = this.#stuck();
    if (lowest === undefined) return;
    // Between the look for receipts and now it may have been mined: its receipt comes with the next look.
    const [latest] = await this.#counts();
    if (latest > lowest.nonce) return;
    if (await this.#raiseFees(lowest)) await this.#sendUntilDecided(lowest);
    lowest.sentAt = this.#o.clock.monotonic();
  }

  // ------------------------------------------------------------------------------------------------------- after a restart

  /** Decides what became of every journaled intent: mined, still pooled, lost on the way, or never sent. */
  async #resume(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      try {
        const [latest] = await this.#counts();
        for (const intent of [...this.#byKey.values()].filter(({ journaled }) => journaled)) {
          if (intent.nonce < 0 || intent.raw !== undefined || intent.isGivenUp) continue;
          if (latest > intent.nonce || (await this.#known(intent))) {
            intent.sentAt = this.#o.clock.monotonic();
            continue;
          }
          const fees = await this.#fees.current();
          await this.#sign(intent, intent.nonce, fees);
          await this.#persist(intent);
          await this.#sendUntilDecided(intent);
        }
        break;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) throw error;
        await this.#retryPause(attempt);
      }
    }
    for (const intent of this.#byKey.values()) if (intent.journaled && intent.nonce < 0) this.#again(intent);
    this.#watch();
  }

  async #restore(text: string): Promise<TransactionOutcome> {
    const stored = readStoredOutcome(text);
    if (stored.status === "reverted") return { ...stored, errorName: stored.errorName ?? undefined };
    const receipt = await this.#askReceipt(stored.hash);
    if (receipt === undefined) throw new Error(`the chain no longer has the receipt of ${stored.hash}`);
    return { status: "success", hash: stored.hash, receipt };
  }

  // ------------------------------------------------------------------------------------------------------- small things

  /**
   * Lets the callers go. Of an intent that no node can have, nothing is left. One that may have been taken is watched until its nonce
   * is used: by itself, or by whatever is sent next.
   */
  async #giveUp(intent: Intent, message: string): Promise<void> {
    if (!intent.mayBeTaken) {
      await this.#abandon(intent, message);
      return;
    }
    await this.#o.journal.updateTransaction(intent.key, { status: "given_up", updatedAt: this.#o.clock.now() });
    intent.isGivenUp = true;
    intent.misses = 0;
    this.#givenUp.add(intent);
    intent.told.resolve({ status: "abandoned", message, undecided: true });
    this.#watch();
  }

  /** Somebody wants it after all: it is sent again on its own nonce, or its fate is waited for where that nonce is in use. */
  #takeUp(intent: Intent, sendWithinMs: number | undefined): void {
    intent.told = newTold();
    intent.isGivenUp = false;
    const until = sendWithinMs === undefined ? undefined : this.#o.clock.monotonic() + sendWithinMs;
    this.#inLane(async () => await this.#sendAgain(intent, until)).catch((error: unknown) => {
      intent.told.reject(error instanceof Error ? error : new Error(String(error)));
    });
  }

  async #sendAgain(intent: Intent, until: number | undefined): Promise<void> {
    for (let attempt = 0; this.#givenUp.has(intent); attempt += 1) {
      this.#throwIfClosed();
      try {
        const [latest] = await this.#counts();
        // In use, by itself or by another: the watch will tell.
        if (latest > intent.nonce || this.#byNonce.has(intent.nonce)) return;
        await this.#sign(intent, intent.nonce, await this.#fees.current());
        break;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) throw error;
        if (this.#late(until)) {
          await this.#giveUp(intent, `the chain could not be reached in time: ${nodeMessage(error)}`);
          return;
        }
      }
      await this.#retryPause(attempt);
    }
    if (!this.#givenUp.delete(intent)) return;
    this.#byNonce.set(intent.nonce, intent);
    await this.#persist(intent);
    const result = await this.#sendUntilDecided(intent, until);
    if (result === "accepted") {
      this.#watch();
      return;
    }
    this.#byNonce.delete(intent.nonce);
    this.#nextNonce = undefined;
    await this.#giveUp(intent, result.message);
  }

  async #abandon(intent: Intent, message: string): Promise<void> {
    const outcome = { status: "abandoned", message, undecided: false } as const;
    await this.#record(intent, outcome);
    this.#finish(intent, outcome);
  }

  #finish(intent: Intent, outcome: TransactionOutcome): void {
    this.#forget(intent);
    intent.told.resolve(outcome);
  }

  #forget(intent: Intent): void {
    if (this.#byKey.get(intent.key) === intent) this.#byKey.delete(intent.key);
  }

  async #inLane<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#lane.then(work, work);
    this.#lane = turn.catch(() => undefined);
    return await turn;
  }

  #late(until: number | undefined): boolean {
    return until !== undefined && this.#o.clock.monotonic() >= until;
  }

  #throwIfClosed(): void {
    this.#closed.signal.throwIfAborted();
  }

  async #retryPause(attempt: number): Promise<void> {
    await sleep(
      this.#o.clock,
      backoffDelay(attempt, { baseMs: minRetryMs, maxMs: maxRetryMs }, this.#o.random),
      this.#closed.signal,
    );
  }

  /** Waits for the next poll, a poke, or the end. */
  async #pause(delayMs: number): Promise<void> {
    if (this.#woken || !this.#isWatched) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#endPause = undefined;
        resolve();
      };
      const cancel = this.#o.clock.after(delayMs, done);
      this.#endPause = done;
    });
  }
}
