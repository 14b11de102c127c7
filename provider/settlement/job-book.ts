import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { JobRow, Journal } from "../../store/journal.ts";
import { isTerminal, type ProviderJob } from "./job.ts";

/** Another process wrote the same job: two nodes share one data folder, which neither can survive. */
export class JobConflictError extends Error {
  override readonly name = "JobConflictError";

  constructor(jobId: Hex) {
    super(`the journal row of job ${jobId} was changed by another process; run one node per data folder`);
  }
}

/** Ended jobs kept in memory. */
const endedHeld = 2_000;
/** Rows of one page of ended jobs. */
const pageRows = 200;
/** Newest rows of the journal that are looked through for ends: more than any reorganisation of a live chain can undo. */
const mostRows = 10_000;

interface Entry {
  readonly job: ProviderJob;
  readonly row: JobRow;
}

/**
 * The jobs of this node: durable in the journal, the open ones in memory too. Changes of one job follow each other; each is durable
 * before it is seen.
 */
export class JobBook {
  readonly #journal: Journal;
  readonly #clock: Clock;
  readonly #open = new Map<Hex, Entry>();
  /** Jobs that ended lately, oldest first: the chain tells of an end after our own transaction did. */
  readonly #ended = new Map<Hex, Entry>();
  readonly #tails = new Map<Hex, Promise<unknown>>();
  readonly #listeners = new Set<(job: ProviderJob) => void>();

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** Loads the open jobs of an earlier process. */
  async load(): Promise<void> {
    for (const row of await this.#journal.openJobs("provider")) {
      const entry = { job: parse(row), row };
      this.#open.set(entry.job.jobId, entry);
    }
  }

  /** Calls back after each durable change; returns the way to stop. */
  onChange(listener: (job: ProviderJob) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Open jobs, in no order. */
  openJobs(): readonly ProviderJob[] {
    return [...this.#open.values()].map((entry) => entry.job);
  }

  /** A job that is open or ended lately, without asking the journal. */
  peek(jobId: Hex): ProviderJob | undefined {
    return this.#held(jobId)?.job;
  }

  /** A job, open or ended. */
  async get(jobId: Hex): Promise<ProviderJob | undefined> {
    return (await this.#entry(jobId))?.job;
  }

  /** Jobs that ended above a block, or in a block that is not known; of the newest ones of the journal. */
  async endedAbove(block: number): Promise<readonly ProviderJob[]> {
    const found = new Map<Hex, ProviderJob>();
    const seen = new Set<string>();
    let before: number | undefined;
    while (seen.size < mostRows) {
      const rows = await this.#journal.recentJobs("provider", pageRows, before);
      const fresh = rows.filter(({ id }) => !seen.has(id));
      for (const { id } of fresh) seen.add(id);
      const ended = fresh.filter(({ open }) => !open).map(parse);
      const above = ended.filter(({ endBlock }) => endBlock === undefined || endBlock > block);
      for (const job of above) found.set(job.jobId, job);
      // A whole page of older ends: what comes after it ended earlier still.
      if (fresh.length === 0 || rows.length < pageRows || (ended.length > 0 && above.length === 0)) break;
      // Rows of the same millisecond may be on both pages.
      before = (rows.at(-1)?.updatedAt ?? 0) + 1;
    }
    return [...found.values()];
  }

  /** Writes a job that is not in the book; false when it is there already. */
  async insert(job: ProviderJob): Promise<boolean> {
    return await this.#inOrder(
      job.jobId,
      async () => this.#held(job.jobId) === undefined && (await this.#write(job, undefined)),
    );
  }

  /**
   * Changes a job: `change` sees its latest state and returns the next, or undefined to leave it. Returns the job as it is now;
   * undefined when there is none.
   */
  async change(
    jobId: Hex,
    change: (job: ProviderJob) => ProviderJob | undefined,
  ): Promise<{ readonly job: ProviderJob; readonly changed: boolean } | undefined> {
    return await this.#inOrder(jobId, async () => {
      const entry = await this.#entry(jobId);
      if (entry === undefined) return undefined;
      const next = change(entry.job);
      if (next === undefined) return { job: entry.job, changed: false };
      if (!(await this.#write(next, entry))) throw new JobConflictError(jobId);
      return { job: next, changed: true };
    });
  }

  #held(jobId: Hex): Entry | undefined {
    return this.#open.get(jobId) ?? this.#ended.get(jobId);
  }

  async #entry(jobId: Hex): Promise<Entry | undefined> {
    const held = this.#held(jobId);
    if (held !== undefined) return held;
    const row = await this.#journal.job("provider", jobId);
    return row === undefined ? undefined : { job: parse(row), row };
  }

  /** Writes the next revision; false when the journal holds another than `previous`. */
  async #write(job: ProviderJob, previous: Entry | undefined): Promise<boolean> {
    const now = this.#clock.now();
    const row: JobRow = {
      collection: "provider",
      id: job.jobId,
      jobId: job.jobId,
      status: job.stage,
      open: !isTerminal(job.stage),
      document: JSON.stringify(job),
      revision: (previous?.row.revision ?? 0) + 1,
      createdAt: previous?.row.createdAt ?? now,
      updatedAt: now,
    };
    if (!(await this.#journal.casJob(row))) return false;
    if (row.open) {
      this.#ended.delete(job.jobId);
      this.#open.set(job.jobId, { job, row });
    } else this.#end({ job, row });
    for (const listener of this.#listeners) listener(job);
    return true;
  }

  #end(entry: Entry): void {
    this.#open.delete(entry.job.jobId);
    this.#ended.set(entry.job.jobId, entry);
    if (this.#ended.size <= endedHeld) return;
    const [oldest] = this.#ended.keys();
    if (oldest !== undefined) this.#ended.delete(oldest);
  }

  async #inOrder<T>(jobId: Hex, task: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(jobId) ?? Promise.resolve();
    const run = before.then(task, task);
    const tail = run.catch(() => undefined);
    this.#tails.set(jobId, tail);
    try {
      return await run;
    } finally {
      if (this.#tails.get(jobId) === tail) this.#tails.delete(jobId);
    }
  }
}

function parse(row: JobRow): ProviderJob {
  return JSON.parse(row.document) as ProviderJob;
}
