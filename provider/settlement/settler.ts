import type { Address, Hex } from "viem";
import type { TransactionOutcome, TransactionQueue } from "../../chain/transactions/types.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { JobReader } from "../escrow/job-reader.ts";
import { isOpenOnChain } from "../escrow/on-chain-job.ts";
import { isTerminal, type JobStage, type ProviderJob } from "./job.ts";
import type { JobBook } from "./job-book.ts";
import { nextStep, type SettlementPolicy, unsignedClaim } from "./next-step.ts";
import {
  type SettledItem,
  type SettlementItem,
  settledItems,
  settlementKey,
  settlementRequest,
} from "./settlement-calls.ts";

/** What the settler tells the outside, for metrics and logs. */
export interface SettlerEvents {
  /** A job ended. */
  ended(job: ProviderJob): void;
  /** A settlement transaction did not do its work and will be tried again. */
  failed(job: ProviderJob, reason: string): void;
  /** Something unforeseen; the job is tried again. */
  unexpected(error: unknown): void;
}

/** Options of `Settler`. */
export interface SettlerOptions {
  readonly book: JobBook;
  readonly queue: TransactionQueue;
  readonly reader: JobReader;
  readonly escrow: Address;
  readonly clock: Clock;
  /** How far chain time runs ahead of the clock, ms. */
  readonly aheadMs: () => number;
  readonly policy: SettlementPolicy;
  /** Most completions of one transaction. */
  readonly batch: number;
  /** Ms that a ready completion waits for others. */
  readonly windowMs: number;
  readonly events: SettlerEvents;
}

/** Pause after a failed attempt: doubles from the first to the last. */
const firstRetryMs = 1_000;
const lastRetryMs = 300_000;
/** The longest pause after a fault of our own, such as of the journal: it may be over at any time, and deadlines go on. */
const lastFaultPauseMs = 30_000;

/**
 * Ms until the next attempt. Before the deadline at most half of what is left: what stood in the way may be gone at any time, and after
 * the deadline others may end the job.
 */
function retryPause(attempts: number, leftMs: number): number {
  const pause = Math.min(lastRetryMs, firstRetryMs * 2 ** Math.min(attempts, 20));
  return leftMs <= 0 ? pause : Math.min(pause, Math.max(firstRetryMs, leftMs / 2));
}

/** A pause of one job after faults that nothing of the job itself tells of. */
interface Pause {
  readonly faults: number;
  /** Unix ms. */
  readonly untilMs: number;
}

function grown(pause: Pause | undefined, nowMs: number): Pause {
  const faults = (pause?.faults ?? 0) + 1;
  return { faults, untilMs: nowMs + Math.min(lastFaultPauseMs, firstRetryMs * 2 ** Math.min(faults - 1, 20)) };
}

/** The job's stage once its transaction is gone without effect. */
function stageBefore(job: ProviderJob): JobStage {
  if (job.transaction?.action === "decline" && job.delivery === undefined) return "declining";
  return job.receipt === undefined ? "delivered" : "receipted";
}

/**
 * Brings every job of the book to its end on chain: completes with receipts, claims without, declines. It looks at the book after
 * each change and at each time that falls due; the book is its only memory, so it goes on after any crash.
 */
export class Settler {
  readonly #options: SettlerOptions;
  readonly #readySince = new Map<Hex, number>();
  /** Jobs that a task of this process is at work on. */
  readonly #taken = new Set<Hex>();
  readonly #pauses = new Map<Hex, Pause>();
  /** Jobs with a receipt that an earlier process may have sent a completion of without marking it. */
  readonly #earlier = new Set<Hex>();
  readonly #running = new Set<Promise<void>>();
  #cancelTimer: () => void = () => undefined;
  #isLooking = false;
  #isClosed = false;
  #stopListening: () => void = () => undefined;

  constructor(options: SettlerOptions) {
    this.#options = options;
  }

  /** Takes up what an earlier process left under way, then goes on until closed. */
  start(): void {
    for (const { jobId, stage } of this.#options.book.openJobs()) if (stage === "receipted") this.#earlier.add(jobId);
    this.#stopListening = this.#options.book.onChange(() => this.#look());
    this.#look();
  }

  /** Looks again: time on chain may have moved. */
  wake(): void {
    this.#look();
  }

  /** Starts nothing new. Transactions that run stay journaled and are taken up at the next start. */
  close(): void {
    this.#isClosed = true;
    this.#stopListening();
    this.#cancelTimer();
  }

  /** Resolves when no settlement of this process is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  /** What became of a transaction that was handed to the queue, or was about to be. */
  async #resume(key: string, jobs: readonly ProviderJob[]): Promise<void> {
    const outcome = await this.#options.queue.outcomeOf(key);
    for (const { jobId } of jobs) this.#earlier.delete(jobId);
    if (outcome === undefined) await this.#unmark(jobs);
    else await this.#conclude(jobs, outcome);
  }

  /** What never reached the queue is as it was. */
  async #unmark(jobs: readonly ProviderJob[]): Promise<void> {
    for (const { jobId } of jobs) {
      await this.#change(jobId, (now) =>
        now.stage === "settling" ? { ...withoutTransaction(now), stage: stageBefore(now) } : undefined,
      );
    }
  }

  /** Looks once at the end of this turn of the event loop, however often it is asked to. */
  #look(): void {
    if (this.#isLooking || this.#isClosed) return;
    this.#isLooking = true;
    queueMicrotask(() => {
      this.#isLooking = false;
      if (!this.#isClosed) this.#lookNow();
    });
  }

  #lookNow(): void {
    const { book, clock, policy, batch, windowMs, aheadMs } = this.#options;
    this.#cancelTimer();
    const now = clock.now();
    let nextAt = Number.POSITIVE_INFINITY;
    const alone: SettlementItem[] = [];
    const together: SettlementItem[] = [];
    const underWay = new Map<string, ProviderJob[]>();
    const open = book.openJobs();
    for (const job of open) {
      if (this.#taken.has(job.jobId)) continue;
      const pausedUntilMs = this.#pauses.get(job.jobId)?.untilMs ?? 0;
      if (now < pausedUntilMs) {
        nextAt = Math.min(nextAt, pausedUntilMs);
        continue;
      }
      const key = this.#keyUnderWay(job);
      if (key !== undefined) {
        underWay.set(key, [...(underWay.get(key) ?? []), job]);
        continue;
      }
      const step = nextStep(job, now, policy, aheadMs());
      if (step.kind === "wait") nextAt = Math.min(nextAt, step.untilMs);
      if (step.kind !== "act") continue;
      // An item that failed once goes alone, so that it spoils no batch.
      if (step.action === "decline" || job.attempts > 0) alone.push({ job, action: step.action });
      else together.push({ job, action: step.action });
    }
    this.#forget(open);
    for (const [key, jobs] of underWay) this.#hold(jobs, async () => await this.#resume(key, jobs));
    for (const item of alone) this.#send([item]);
    const oldest = this.#oldest(together, now);
    if (together.length > 0 && (together.length >= batch || now >= oldest + windowMs)) {
      for (let at = 0; at < together.length; at += batch) this.#send(together.slice(at, at + batch));
    } else if (together.length > 0) {
      nextAt = Math.min(nextAt, oldest + windowMs);
    }
    if (nextAt !== Number.POSITIVE_INFINITY) {
      this.#cancelTimer = clock.after(Math.max(0, nextAt - now), () => this.#look());
    }
  }

  /** When the item that waits longest became ready. */
  #oldest(items: readonly SettlementItem[], now: number): number {
    let oldest = now;
    for (const { job } of items) {
      const since = this.#readySince.get(job.jobId) ?? now;
      this.#readySince.set(job.jobId, since);
      oldest = Math.min(oldest, since);
    }
    return oldest;
  }

  #forget(open: readonly ProviderJob[]): void {
    if (this.#readySince.size <= open.length && this.#pauses.size <= open.length) return;
    const known = new Set(open.map((job) => job.jobId));
    for (const held of [this.#readySince, this.#pauses]) {
      for (const jobId of held.keys()) if (!known.has(jobId)) held.delete(jobId);
    }
  }

  #send(items: readonly SettlementItem[]): void {
    for (const { job } of items) this.#readySince.delete(job.jobId);
    this.#hold(
      items.map(({ job }) => job),
      async () => await this.#settle(items),
    );
  }

  /**
   * Keeps jobs out of the looks while a task is at work on them. A task that fails leaves them as they are in the book, to be taken up
   * again after a pause; the pause is in memory, as it may be the journal that failed.
   */
  #hold(jobs: readonly ProviderJob[], task: () => Promise<void>): void {
    const { clock, events } = this.#options;
    for (const { jobId } of jobs) this.#taken.add(jobId);
    const running = task()
      .catch((error: unknown) => {
        for (const { jobId } of jobs) this.#pauses.set(jobId, grown(this.#pauses.get(jobId), clock.now()));
        // A closed queue or journal: the next process goes on from the journal.
        if (!this.#isClosed) events.unexpected(error);
      })
      .finally(() => {
        for (const { jobId } of jobs) this.#taken.delete(jobId);
        this.#running.delete(running);
        this.#look();
      });
    this.#running.add(running);
  }

  async #settle(items: readonly SettlementItem[]): Promise<void> {
    const { queue, escrow } = this.#options;
    const request = settlementRequest(escrow, items);
    const jobs = needsMark(items) ? await this.#mark(items, request.key) : items.map(({ job }) => job);
    if (jobs === undefined) return;
    const outcome = await queue.submit(request);
    await this.#conclude(jobs, outcome);
  }

  /**
   * Journals that the items are under way, before anything is sent. Undefined when one of them changed since the look: the request
   * names it, so nothing is sent and the next look decides anew.
   */
  async #mark(items: readonly SettlementItem[], key: string): Promise<readonly ProviderJob[] | undefined> {
    const marked = await Promise.all(
      items.map(
        async ({ job, action }) =>
          await this.#change(job.jobId, (now) =>
            now === job ? { ...now, stage: "settling", transaction: { key, action } } : undefined,
          ),
      ),
    );
    const jobs = marked.filter((job) => job !== undefined);
    if (jobs.length === items.length) return jobs;
    await this.#unmark(jobs);
    return undefined;
  }

  async #conclude(jobs: readonly ProviderJob[], outcome: TransactionOutcome): Promise<void> {
    const { escrow } = this.#options;
    const items = outcome.status === "success" ? settledItems(outcome, escrow) : new Map<Hex, SettledItem>();
    for (const job of jobs) {
      this.#pauses.delete(job.jobId);
      const item = items.get(job.jobId);
      if (item?.kind === "completed" && outcome.status === "success") {
        await this.completed(job.jobId, item.payment, outcome.hash, Number(outcome.receipt.blockNumber));
      } else if (item?.kind === "declined" && outcome.status === "success") {
        await this.declined(job.jobId, outcome.hash, Number(outcome.receipt.blockNumber));
      } else {
        await this.#verify(job, outcome);
      }
    }
  }

  /** The chain paid a job, in a block. */
  async completed(jobId: Hex, payment: bigint, transactionHash: Hex, block: number): Promise<void> {
    await this.#end(jobId, block, (job) => ({ ...job, stage: "settled", payment: String(payment), transactionHash }));
  }

  /** The chain gave a job back. */
  async declined(jobId: Hex, transactionHash: Hex | undefined, block: number | undefined): Promise<void> {
    await this.#end(jobId, block, (job) => ({
      ...job,
      stage: job.delivery === undefined ? "declined" : "forfeited",
      ...(transactionHash === undefined ? {} : { transactionHash }),
    }));
  }

  /** The chain ended a job without us. */
  async lost(jobId: Hex, reason: string, block: number | undefined): Promise<void> {
    await this.#end(jobId, block, (job) => ({ ...job, stage: "lost", reason }));
  }

  /** Ends a job once. Told again as of a later block, after a reorganisation, the end is where it was told last. */
  async #end(jobId: Hex, block: number | undefined, end: (job: ProviderJob) => ProviderJob): Promise<void> {
    const endBlock = block === undefined ? {} : { endBlock: block };
    const job = await this.#change(jobId, (now) => (isTerminal(now.stage) ? undefined : { ...end(now), ...endBlock }));
    if (job !== undefined) {
      this.#options.events.ended(job);
      return;
    }
    if (block === undefined) return;
    await this.#change(jobId, (now) =>
      isTerminal(now.stage) && block > (now.endBlock ?? -1) ? { ...now, ...endBlock } : undefined,
    );
  }

  /** A transaction had no effect on a job: the chain says why, not the error's text. */
  async #verify(job: ProviderJob, outcome: TransactionOutcome): Promise<void> {
    const { reader, clock, aheadMs, events } = this.#options;
    let onChain: Awaited<ReturnType<typeof reader.read>>;
    try {
      onChain = await reader.read(job.jobId);
    } catch {
      await this.#again(job, "chain_unavailable", clock.now() + firstRetryMs);
      return;
    }
    if (onChain !== undefined && !isOpenOnChain(onChain.status)) {
      if (onChain.status === "Completed") await this.#settledUnseen(job);
      else if (onChain.status === "Declined") await this.declined(job.jobId, undefined, undefined);
      else await this.lost(job.jobId, onChain.status.toLowerCase(), undefined);
      return;
    }
    // A job that the chain forgot (a reorganisation) may come back until its time is over.
    if (onChain === undefined && clock.now() + aheadMs() > job.deadline * 1000) {
      await this.lost(job.jobId, "unknown_on_chain", undefined);
      return;
    }
    const error = outcome.status === "reverted" ? (outcome.errorName ?? "reverted") : outcome.status;
    events.failed(job, error);
    const leftMs = job.deadline * 1000 - aheadMs() - clock.now();
    // In a batch nobody says which error: the attempt alone, which follows at once, will.
    await this.#again(job, error, clock.now() + (job.attempts === 0 ? 0 : retryPause(job.attempts, leftMs)));
  }

  async #again(job: ProviderJob, error: string, retryAt: number): Promise<void> {
    await this.#change(job.jobId, (now) => {
      if (isTerminal(now.stage)) return undefined;
      const next = { ...withoutTransaction(now), attempts: now.attempts + 1, retryAt };
      if (error === "InvalidClientSignature" && now.transaction?.action !== "claim") {
        const { receipt: _receipt, lowReceipt: _lowReceipt, ...rest } = next;
        return { ...rest, stage: "delivered", retryAt: 0 };
      }
      return { ...next, stage: stageBefore(now) };
    });
  }

  /** Completed on chain, but by a transaction whose events we did not see: what it paid follows from what we sent. */
  async #settledUnseen(job: ProviderJob): Promise<void> {
    await this.#end(job.jobId, undefined, (now) => ({
      ...now,
      stage: "settled",
      ...(now.receipt === undefined ? { payment: String(unsignedClaim(now)) } : {}),
    }));
  }

  async #change(jobId: Hex, change: (job: ProviderJob) => ProviderJob | undefined): Promise<ProviderJob | undefined> {
    const result = await this.#options.book.change(jobId, change);
    return result?.changed === true ? result.job : undefined;
  }

  /** Key of the transaction that may be under way for a job that nobody here is at work on. */
  #keyUnderWay(job: ProviderJob): string | undefined {
    if (job.stage === "settling") return job.transaction?.key;
    return job.stage === "receipted" && this.#earlier.has(job.jobId) ? settlementKey(job, "complete") : undefined;
  }
}

/**
 * A receipted job changes no more but by its settlement, and the key of its own completion follows from it: it needs no mark, which
 * saves the common case a write. All else could change under the transaction, or shares its key with others.
 */
function needsMark(items: readonly SettlementItem[]): boolean {
  return items.length > 1 || items.some(({ job, action }) => job.stage !== "receipted" || action !== "complete");
}

function withoutTransaction(job: ProviderJob): ProviderJob {
  const { transaction: _transaction, ...rest } = job;
  return rest;
}
