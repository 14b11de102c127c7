import type { Address, Hex } from "viem";
import type { TransactionOutcome, TransactionQueue } from "../../chain/transactions/types.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { JobReader } from "../escrow/job-reader.ts";
import { isOpenOnChain } from "../escrow/on-chain-job.ts";
import type { JobStage, ProviderJob } from "./job.ts";
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
    this.#resume();
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

  /** Jobs whose transaction an earlier process had handed to the queue, or was about to. */
  #resume(): void {
    const groups = new Map<string, ProviderJob[]>();
    for (const job of this.#options.book.openJobs()) {
      const key = keyUnderWay(job);
      if (key === undefined) continue;
      this.#taken.add(job.jobId);
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [job]);
      else group.push(job);
    }
    for (const [key, jobs] of groups) {
      this.#run(async () => {
        try {
          const outcome = await this.#options.queue.outcomeOf(key);
          if (outcome === undefined) await this.#unmark(jobs);
          else await this.#conclude(jobs, outcome);
        } finally {
          for (const { jobId } of jobs) this.#taken.delete(jobId);
          this.#look();
        }
      });
    }
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
    const open = book.openJobs();
    for (const job of open) {
      const step = nextStep(job, now, policy, aheadMs());
      if (step.kind === "wait") nextAt = Math.min(nextAt, step.untilMs);
      if (step.kind !== "act") continue;
      // An item that failed once goes alone, so that it spoils no batch.
      if (step.action === "decline" || job.attempts > 0) alone.push({ job, action: step.action });
      else together.push({ job, action: step.action });
    }
    this.#forget(open);
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
    if (this.#readySince.size <= open.length) return;
    const known = new Set(open.map((job) => job.jobId));
    for (const jobId of this.#readySince.keys()) if (!known.has(jobId)) this.#readySince.delete(jobId);
  }

  #send(items: readonly SettlementItem[]): void {
    // A job is out of the next look as soon as its stage is `settling`; until that is written, this set keeps it out.
    const mine = items.filter(({ job }) => !this.#taken.has(job.jobId));
    if (mine.length === 0) return;
    for (const { job } of mine) {
      this.#taken.add(job.jobId);
      this.#readySince.delete(job.jobId);
    }
    this.#run(async () => {
      try {
        await this.#settle(mine);
      } finally {
        for (const { job } of mine) this.#taken.delete(job.jobId);
        this.#look();
      }
    });
  }

  readonly #taken = new Set<Hex>();

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
      const item = items.get(job.jobId);
      if (item?.kind === "completed" && outcome.status === "success") {
        await this.completed(job.jobId, item.payment, outcome.hash);
      } else if (item?.kind === "declined" && outcome.status === "success") {
        await this.declined(job.jobId, outcome.hash);
      } else {
        await this.#verify(job, outcome);
      }
    }
  }

  /** The chain paid a job. */
  async completed(jobId: Hex, payment: bigint, transactionHash: Hex): Promise<void> {
    await this.#end(jobId, (job) => ({ ...job, stage: "settled", payment: String(payment), transactionHash }));
  }

  /** The chain gave a job back. */
  async declined(jobId: Hex, transactionHash: Hex | undefined): Promise<void> {
    await this.#end(jobId, (job) => ({
      ...job,
      stage: job.delivery === undefined ? "declined" : "forfeited",
      ...(transactionHash === undefined ? {} : { transactionHash }),
    }));
  }

  /** The chain ended a job without us. */
  async lost(jobId: Hex, reason: string): Promise<void> {
    await this.#end(jobId, (job) => ({ ...job, stage: "lost", reason }));
  }

  async #end(jobId: Hex, end: (job: ProviderJob) => ProviderJob): Promise<void> {
    const job = await this.#change(jobId, (now) => (isEnded(now) ? undefined : withoutTransaction(end(now))));
    if (job !== undefined) this.#options.events.ended(job);
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
      else if (onChain.status === "Declined") await this.declined(job.jobId, undefined);
      else await this.lost(job.jobId, onChain.status.toLowerCase());
      return;
    }
    // A job that the chain forgot (a reorganisation) may come back until its time is over.
    if (onChain === undefined && clock.now() + aheadMs() > job.deadline * 1000) {
      await this.lost(job.jobId, "unknown_on_chain");
      return;
    }
    const error = outcome.status === "reverted" ? (outcome.errorName ?? "reverted") : outcome.status;
    events.failed(job, error);
    const pause = Math.min(lastRetryMs, firstRetryMs * 2 ** Math.min(job.attempts, 20));
    // In a batch nobody says which error: the attempt alone, which follows at once, will.
    await this.#again(job, error, clock.now() + (job.attempts === 0 ? 0 : pause));
  }

  async #again(job: ProviderJob, error: string, retryAt: number): Promise<void> {
    await this.#change(job.jobId, (now) => {
      if (isEnded(now)) return undefined;
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
    await this.#end(job.jobId, (now) => ({
      ...now,
      stage: "settled",
      ...(now.receipt === undefined ? { payment: String(unsignedClaim(now)) } : {}),
    }));
  }

  async #change(jobId: Hex, change: (job: ProviderJob) => ProviderJob | undefined): Promise<ProviderJob | undefined> {
    const result = await this.#options.book.change(jobId, change);
    return result?.changed === true ? result.job : undefined;
  }

  #run(task: () => Promise<void>): void {
    const running = task().catch((error: unknown) => {
      // A closed queue or journal: the next process goes on from the journal.
      if (!this.#isClosed) this.#options.events.unexpected(error);
    });
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }
}

/**
 * A receipted job changes no more but by its settlement, and the key of its own completion follows from it: it needs no mark, which
 * saves the common case a write. All else could change under the transaction, or shares its key with others.
 */
function needsMark(items: readonly SettlementItem[]): boolean {
  return items.length > 1 || items.some(({ job, action }) => job.stage !== "receipted" || action !== "complete");
}

/** Key of the transaction that an earlier process may have sent for a job. */
function keyUnderWay(job: ProviderJob): string | undefined {
  if (job.stage === "settling") return job.transaction?.key;
  return job.stage === "receipted" ? settlementKey(job, "complete") : undefined;
}

function isEnded(job: ProviderJob): boolean {
  return job.stage === "settled" || job.stage === "declined" || job.stage === "forfeited" || job.stage === "lost";
}

function withoutTransaction(job: ProviderJob): ProviderJob {
  const { transaction: _transaction, ...rest } = job;
  return rest;
}
