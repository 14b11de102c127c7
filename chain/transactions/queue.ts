import { type Address, type Hex, keccak256, type LocalAccount, type PublicClient, type TransactionReceipt } from "viem";

import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";
import { decodeRevert, describeRevert } from "../revert.ts";
import { chainUnavailableIn, looksReverted, nodeMessage, revertDataIn } from "../rpc-errors.ts";
import { sleep } from "../sleep.ts";
import { FeeSource } from "./fee-source.ts";
import { type Fees, replacementFees } from "./fees.ts";
import { type Intent, intentFromRow, isInDoubt, newIntent, newTold } from "./intent.ts";
import { transactionOfNonce } from "./nonce-user.ts";
import { readStoredOutcome, storeOutcome } from "./outcome-row.ts";
import type { JournaledIntent, TransactionJournal } from "./transaction-journal.ts";
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
  /** The chain had lost a transaction below one of ours, so that nothing could follow it; its nonce was used again. */
  | { readonly type: "gap_closed"; readonly key: string; readonly kind: string; readonly nonce: number }
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
  /** Between two looks whether the node waits for a nonce below all of ours. */
  readonly gapLookMs?: number;
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

/** How a sending went: the node has it, or why it has not. */
type SendResult =
  | "accepted"
  /** Nobody will take it as it is. */
  | { readonly kind: "refused"; readonly message: string }
  /** Its nonce is another's. `isProven`: the other transaction was seen. */
  | { readonly kind: "nonce_taken"; readonly isProven: boolean; readonly message: string };

/** Polls in a row, besides the patience, after which a used nonce without a receipt of ours is taken for a foreign transaction's. */
const missesUntilForeign = 3;
/** Simulation sees the state of now, execution that of a later block: room for a storage slot that turned from warm or set to new. */
const gasMarginPercent = 130n;
/** Most nonces of one round of filling a gap. */
const maxFilled = 32;
/** How long a node that says no is asked again: a full pool and a fee that just rose pass. The lane stands still meanwhile. */
const refusalPatienceMs = 5000;
/** How much longer than usual a given-up transaction is watched where the node cannot tell who used its nonce. */
const unprovenPatience = 15;
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
  readonly #gapLookMs: number;
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
  /** The intent below which a gap is looked for, monotonic ms of the newest look, and where it found one. */
  #lowest: Intent | undefined;
  #gapLookedAt = 0;
  #gapAt: number | undefined;
  #isFilling = false;

  constructor(options: TransactionQueueOptions) {
    this.#o = options;
    this.#confirmations = Math.max(1, options.confirmations ?? 1);
    this.#pollMs = options.pollMs ?? 1000;
    this.#stuckAfterMs = options.stuckAfterMs ?? 30_000;
    this.#feeCap = options.feeCap ?? 500_000_000_000n;
    this.#foreignPatienceMs = options.foreignPatienceMs ?? 20_000;
    this.#gapLookMs = options.gapLookMs ?? 2000;
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
      return await this.#answer(running, request.answerWithinMs);
    }
    this.#throwIfClosed();
    const intent = newIntent({ ...request, gas: request.gas, createdAt: this.#o.clock.now() });
    // Taken before the first await, so that two calls with one key cannot both go on.
    this.#byKey.set(request.key, intent);
    this.#begin(intent, request.sendWithinMs).catch((error: unknown) => this.#failed(intent, error));
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

  /** The journal failed, or the queue was closed. What may be on the chain goes on being watched; of the rest nothing is left. */
  #failed(intent: Intent, cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error(String(cause));
    intent.told.reject(error);
    if (!isInDoubt(intent) || this.#closed.signal.aborted) {
      this.#forget(intent);
      return;
    }
    if (this.#byNonce.get(intent.nonce) !== intent) {
      intent.isGivenUp = true;
      this.#givenUp.add(intent);
    }
    this.#watch();
  }

  isPending(key: string): boolean {
    return this.#byKey.has(key);
  }

  async outcomeOf(key: string): Promise<TransactionOutcome | undefined> {
    const running = this.#byKey.get(key);
    if (running !== undefined) return await running.told.promise;
    const row = await this.#o.journal.transaction(key);
    if (row?.outcome === undefined || row.outcome === null) return undefined;
    // Without its receipt nobody can tell: a node that lags, or has thrown it away, or a chain that has taken it back.
    return (
      (await this.#restore(row.outcome)) ?? {
        status: "abandoned",
        message: "the node does not show the receipt of a transaction that was mined",
        undecided: true,
      }
    );
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
    const until = sendWithinMs === undefined ? undefined : this.#o.clock.monotonic() + sendWithinMs;
    const known = await this.#o.journal.transaction(intent.key);
    if (known?.outcome !== undefined && known.outcome !== null) {
      const outcome = await this.#restore(known.outcome);
      if (outcome !== undefined) {
        this.#finish(intent, outcome);
        return;
      }
      if (await this.#inLane(async () => await this.#watchAgain(intent, known))) return;
    }
    if (!(await this.#simulated(intent, until))) return;
    this.#o.crashPoint?.("simulated", intent.key);
    await this.#inLane(async () => await this.#allocateAndSend(intent, until));
  }

  /**
   * A transaction that was mined, and that the node does not show any more, is under way again: on its own nonce, so that it is still
   * mined at most once, until it is seen or proven to have been replaced. False where that nonce is another's by now.
   */
  async #watchAgain(intent: Intent, row: JournaledIntent): Promise<boolean> {
    if (row.nonce === null || this.#byNonce.has(row.nonce)) return false;
    await this.#o.journal.updateTransaction(row.key, {
      status: "sent",
      outcome: null,
      updatedAt: this.#o.clock.now(),
    });
    intent.nonce = row.nonce;
    intent.firstNonce = 0;
    intent.hashes = [...row.hashes];
    intent.gas = row.gas === null ? 0n : BigInt(row.gas);
    intent.journaled = true;
    intent.mayBeTaken = true;
    intent.sentAt = this.#o.clock.monotonic();
    this.#byNonce.set(intent.nonce, intent);
    this.#watch();
    try {
      const [latest] = await this.#counts();
      await this.#sendUnlessKnown(intent, latest);
    } catch (error) {
      // The watch goes on by itself once the chain can be asked.
      if (chainUnavailableIn(error) === undefined) throw error;
    }
    return true;
  }

  /** Runs the call against the current state. False when it ended the intent. Waits out an unreachable chain within `until`. */
  async #simulated(intent: Intent, until: number | undefined): Promise<boolean> {
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      try {
        await this.#estimate(intent);
        return true;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) {
          await this.#end(intent, this.#failedSimulation(error));
          return false;
        }
        if (this.#late(until)) {
          await this.#giveUp(intent, `the chain could not be reached in time: ${nodeMessage(error)}`);
          return false;
        }
      }
      await this.#retryPause(attempt);
    }
  }

  /** Runs the call, and takes the gas that it needs. Rejects with the node's error. */
  async #estimate(intent: Intent): Promise<void> {
    const call = { account: this.address, to: intent.to, data: intent.data } as const;
    if (intent.fixedGas === undefined) {
      intent.gas = ((await this.#o.client.estimateGas(call)) * gasMarginPercent) / 100n;
    } else {
      await this.#o.client.call({ ...call, gas: intent.fixedGas });
      intent.gas = intent.fixedGas;
    }
  }

  #failedSimulation(error: unknown): Extract<TransactionOutcome, { message: string }> {
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
      this.#o.crashPoint?.("persisted", intent.key);
      const result = await this.#sendUntilDecided(intent, until);
      this.#o.crashPoint?.("sent", intent.key);
      if (result === "accepted") {
        this.#watch();
        return;
      }
      this.#byNonce.delete(intent.nonce);
      this.#nextNonce = undefined;
      if (result.kind === "refused") {
        await this.#giveUp(intent, result.message);
        return;
      }
      this.#loseNonce(intent, result.isProven);
      // Its purpose may be fulfilled, or past: only what is still possible takes the next nonce.
      if (!(await this.#simulated(intent, until))) return;
    }
  }

  /** Another transaction has its nonce: it needs a new one. */
  #loseNonce(intent: Intent, isProven: boolean): void {
    this.#o.onEvent?.({ type: "foreign_nonce", key: intent.key, kind: intent.kind, nonce: intent.nonce });
    this.#nextNonce = undefined;
    intent.misses = 0;
    intent.mayBeTaken = false;
    intent.earlierInDoubt ||= !isProven;
  }

  /**
   * Signs an intent for a nonce, and writes nonce and hashes before anything else knows of them: a hash that the journal does not know
   * can never be on the chain, and a failed write leaves the intent as it was.
   */
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
    // Its end is being written: nothing may be written over it.
    if (intent.isEnding) return;
    const hash = keccak256(raw);
    const hashes = intent.hashes.includes(hash) ? intent.hashes : [...intent.hashes, hash];
    await this.#persist(intent, nonce, hashes);
    intent.firstNonce = Math.min(intent.firstNonce, nonce);
    intent.nonce = nonce;
    intent.hashes = hashes;
    intent.fees = fees;
    intent.raw = raw;
    intent.misses = 0;
  }

  async #persist(intent: Intent, nonce: number, hashes: readonly Hex[]): Promise<void> {
    const now = this.#o.clock.now();
    const mutable = {
      nonce,
      hashes: [...hashes],
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
   * @param until Monotonic ms after which it is not sent any more.
   */
  async #sendUntilDecided(intent: Intent, until?: number): Promise<SendResult> {
    const startedAt = this.#o.clock.monotonic();
    for (let attempt = 0; ; attempt += 1) {
      this.#throwIfClosed();
      const { raw } = intent;
      if (raw === undefined || intent.isEnding) return "accepted";
      let failure: unknown;
      try {
        await this.#o.client.sendRawTransaction({ serializedTransaction: raw });
        return this.#accepted(intent);
      } catch (error) {
        failure = error;
        // No answer is no refusal: the node may have taken it.
        intent.mayBeTaken ||= chainUnavailableIn(error) !== undefined;
      }
      try {
        const result = await this.#judgeFailure(intent, failure, { attempt, startedAt, until });
        if (result !== undefined) return result;
        if (this.#late(until)) return { kind: "refused", message: `it could not be sent: ${nodeMessage(failure)}` };
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) throw error;
        if (this.#late(until))
          return { kind: "refused", message: `the chain could not be reached in time: ${nodeMessage(error)}` };
      }
      await this.#retryPause(attempt);
    }
  }

  #accepted(intent: Intent): "accepted" {
    intent.mayBeTaken = true;
    intent.sentAt = this.#o.clock.monotonic();
    return "accepted";
  }

  /** Reads from the chain what a failed sending means; undefined = send again. */
  async #judgeFailure(
    intent: Intent,
    failure: unknown,
    tries: { readonly attempt: number; readonly startedAt: number; readonly until: number | undefined },
  ): Promise<SendResult | undefined> {
    if (await this.#known(intent)) return this.#accepted(intent);
    const message = nodeMessage(failure);
    const [latest, pendingCount] = await this.#counts();
    if (latest > intent.nonce || pendingCount > intent.nonce) {
      // Used, or claimed in the pool: by ours, which a lagging node may not show yet, or by another. Watching finds out.
      if (intent.mayBeTaken) return this.#accepted(intent);
      if (tries.attempt + 1 < missesUntilForeign) return undefined;
      if (latest > intent.nonce) {
        const user = await this.#userOfNonce(intent);
        return user === "ours"
          ? this.#accepted(intent)
          : { kind: "nonce_taken", isProven: user === "another", message };
      }
      this.#fees.forget();
      return (await this.#raiseFees(intent)) ? undefined : { kind: "nonce_taken", isProven: false, message };
    }
    if (pendingCount < intent.nonce) {
      // The node waits for what is below.
      await this.#fillGap(pendingCount, intent.nonce);
      return tries.attempt > 20 ? { kind: "refused", message } : undefined;
    }
    if (chainUnavailableIn(failure) !== undefined) return undefined;
    this.#o.onEvent?.({ type: "send_failed", key: intent.key, kind: intent.kind, message });
    // The node heard it and said no: again with the market's fees of then, for as long as that may pass.
    const isPatient = this.#o.clock.monotonic() - tries.startedAt < refusalPatienceMs;
    if (!isPatient || (await this.#cannotPay(intent))) return { kind: "refused", message };
    this.#fees.forget();
    await this.#resign(intent);
    return undefined;
  }

  async #cannotPay(intent: Intent): Promise<boolean> {
    const balance = await this.#o.client.getBalance({ address: this.address });
    return intent.fees !== undefined && balance < intent.gas * intent.fees.maxFeePerGas;
  }

  /** Whose transaction used the nonce of an intent, as far as the node tells. */
  async #userOfNonce(intent: Intent): Promise<"ours" | "another" | "unknown"> {
    const hash = await transactionOfNonce(this.#o.client, this.address, intent.nonce);
    if (hash === undefined) return "unknown";
    return intent.hashes.includes(hash) ? "ours" : "another";
  }

  /** Signs the same nonce again with current fees, without requiring them to be higher: the earlier one was never taken. */
  async #resign(intent: Intent): Promise<void> {
    await this.#sign(intent, intent.nonce, await this.#fees.current());
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
    this.#o.onEvent?.({
      type: "bumped",
      key: intent.key,
      kind: intent.kind,
      nonce: intent.nonce,
      maxFeePerGas: fees.maxFeePerGas,
    });
    return true;
  }

  /**
   * Gives the node every nonce that it waits for: a transaction of ours once more that it has dropped, one that was mined and that the
   * chain has taken back, or, where there is neither, one that does nothing. What was signed for a later nonce stays as it is: signed
   * anew for a lower one it could be mined twice.
   */
  async #fillGap(from: number, below: number): Promise<void> {
    if (this.#isFilling) return;
    this.#isFilling = true;
    try {
      for (let nonce = from; nonce < Math.min(below, from + maxFilled); nonce += 1) await this.#fill(nonce);
    } finally {
      this.#isFilling = false;
    }
  }

  async #fill(nonce: number): Promise<void> {
    const holder = this.#byNonce.get(nonce);
    if (holder !== undefined) {
      if (holder.raw === undefined) await this.#resign(holder);
      if (holder.raw !== undefined)
        await this.#o.client.sendRawTransaction({ serializedTransaction: holder.raw }).catch(() => undefined);
      return;
    }
    const intent = (await this.#takenBack(nonce)) ?? (await this.#idle(nonce));
    await this.#sign(intent, nonce, await this.#fees.current());
    this.#byKey.set(intent.key, intent);
    this.#byNonce.set(nonce, intent);
    const result = await this.#sendUntilDecided(intent, this.#o.clock.monotonic() + refusalPatienceMs);
    if (result === "accepted") {
      this.#o.onEvent?.({ type: "gap_closed", key: intent.key, kind: intent.kind, nonce });
      this.#watch();
      return;
    }
    this.#byNonce.delete(nonce);
    await this.#giveUp(intent, result.message);
  }

  /** The transaction that was mined with a nonce, if what it did is still possible. */
  async #takenBack(nonce: number): Promise<Intent | undefined> {
    const rows = await this.#o.journal.minedTransactions(this.address, this.#o.chainId, nonce);
    const row = rows.find((mined) => mined.nonce === nonce && mined.status === "success");
    if (row === undefined || this.#byKey.has(row.key)) return undefined;
    const intent = intentFromRow(row);
    try {
      await this.#estimate(intent);
      return intent;
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined) throw error;
      await this.#o.journal.updateTransaction(row.key, {
        status: "abandoned",
        outcome: null,
        updatedAt: this.#o.clock.now(),
      });
      return undefined;
    }
  }

  /** A transaction that does nothing but use a nonce. */
  async #idle(nonce: number): Promise<Intent> {
    const createdAt = this.#o.clock.now();
    const to: Address = this.address;
    const key = `fill:${this.#o.chainId}:${nonce}:${createdAt}`;
    const intent = newIntent({ key, kind: "fill_gap", to, data: "0x", gas: undefined, createdAt });
    await this.#estimate(intent);
    return intent;
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
        await this.#closeGap();
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
      if (intent.firstNonce >= used) continue;
      const receipt = await this.#receiptOf(intent);
      if (receipt === undefined) {
        if (intent.nonce < used) await this.#missed(intent);
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

  /** Its nonce is used, and nothing shows that it was by itself: a node that lags, or another transaction. */
  async #missed(intent: Intent): Promise<void> {
    const now = this.#o.clock.monotonic();
    if (intent.misses === 0) intent.missedSince = now;
    intent.misses += 1;
    if (now - intent.missedSince < this.#foreignPatienceMs || intent.misses < missesUntilForeign) return;
    const user = await this.#userOfNonce(intent);
    if (user === "ours") {
      // Mined; its receipt will come.
      intent.misses = 0;
      return;
    }
    const isProven = user === "another" && !intent.earlierInDoubt;
    if (!intent.isGivenUp) this.#takenByAnother(intent, user === "another");
    else if (isProven || now - intent.missedSince >= unprovenPatience * this.#foreignPatienceMs) {
      this.#givenUp.delete(intent);
      await this.#abandon(intent, "another transaction took its place");
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
    intent.isEnding = true;
    try {
      await this.#record(intent, outcome);
    } catch (error) {
      intent.isEnding = false;
      throw error;
    }
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

  /** Another transaction used this nonce with our key: the intent goes round again. */
  #takenByAnother(intent: Intent, isProven: boolean): void {
    this.#byNonce.delete(intent.nonce);
    this.#loseNonce(intent, isProven);
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
      this.#failed(intent, error);
    });
  }

  /**
   * A reorganisation that dropped what was mined below the lowest nonce under way leaves a gap that holds up everything for good. Two
   * looks in a row must find it: a node that lags shows the same for a moment.
   */
  async #closeGap(): Promise<void> {
    const lowest = this.#inFlight()[0];
    const now = this.#o.clock.monotonic();
    if (lowest !== this.#lowest) {
      this.#lowest = lowest;
      this.#gapLookedAt = now;
    }
    if (lowest === undefined || lowest.misses > 0 || now - this.#gapLookedAt < this.#gapLookMs) return;
    this.#gapLookedAt = now;
    const [, pendingCount] = await this.#counts();
    const isGap = pendingCount < lowest.nonce;
    const wasGap = this.#gapAt === pendingCount;
    this.#gapAt = isGap ? pendingCount : undefined;
    if (isGap && wasGap) await this.#inLane(async () => await this.#fillGap(pendingCount, lowest.nonce));
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
    // At the cap it is sent as it is: the pool may have dropped it.
    await this.#raiseFees(lowest);
    await this.#sendUntilDecided(lowest, this.#o.clock.monotonic() + this.#stuckAfterMs);
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
          await this.#sendUnlessKnown(intent, latest);
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

  /** Sends what an earlier process, or time, has left to chance, unless its nonce is used or the node has it. */
  async #sendUnlessKnown(intent: Intent, latest: number): Promise<void> {
    if (latest > intent.nonce || (await this.#known(intent))) {
      intent.sentAt = this.#o.clock.monotonic();
      return;
    }
    await this.#sign(intent, intent.nonce, await this.#fees.current());
    await this.#sendUntilDecided(intent, this.#o.clock.monotonic() + this.#stuckAfterMs);
  }

  /** A stored outcome; undefined where the chain does not show the receipt. */
  async #restore(text: string): Promise<TransactionOutcome | undefined> {
    const stored = readStoredOutcome(text);
    if (stored.status === "reverted") return { ...stored, errorName: stored.errorName ?? undefined };
    const receipt = await this.#askReceipt(stored.hash);
    return receipt === undefined ? undefined : { status: "success", hash: stored.hash, receipt };
  }

  // ------------------------------------------------------------------------------------------------------- small things

  /**
   * Lets the callers go. Of an intent that no node can have, nothing is left. One that may have been taken is watched until its nonce
   * is used: by itself, or by whatever is sent next.
   */
  async #giveUp(intent: Intent, message: string): Promise<void> {
    if (!isInDoubt(intent)) {
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
    this.#inLane(async () => await this.#sendAgain(intent, until)).catch((error: unknown) =>
      this.#failed(intent, error),
    );
  }

  async #sendAgain(intent: Intent, until: number | undefined): Promise<void> {
    for (let attempt = 0; this.#givenUp.has(intent); attempt += 1) {
      this.#throwIfClosed();
      try {
        const [latest] = await this.#counts();
        // In use, by itself or by another: the watch will tell.
        if (latest > intent.nonce || this.#byNonce.has(intent.nonce)) return;
        await this.#sign(intent, intent.nonce, await this.#fees.current());
        if (!intent.isEnding) break;
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

  /** Ends an intent that is not sent. One that may have been sent before is given up instead: what it was told now may be its own doing. */
  async #end(intent: Intent, outcome: Extract<TransactionOutcome, { message: string }>): Promise<void> {
    if (isInDoubt(intent)) {
      await this.#giveUp(intent, outcome.message);
      return;
    }
    // Written before it is told: else the next process would take the intent up and send it.
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
