import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { Journal } from "../../store/journal.ts";
import { isOpen, type JobDocument, lockedBy } from "./job-document.ts";
import { JobRecord } from "./job-record.ts";

/** Options of `JobStore`. */
export interface JobStoreOptions {
  readonly journal: Journal;
  readonly clock: Clock;
  readonly onSaveError: (error: unknown) => void;
  /** Requests that are over and kept in memory for readers; older ones are read from the journal. */
  readonly maxFinished?: number;
}

/** All requests of this gateway: those with something left to do in memory, the others in the journal. */
export class JobStore {
  readonly #options: JobStoreOptions;
  readonly #records = new Map<Hex, JobRecord>();
  /** Job id of any attempt -> request. */
  readonly #byJob = new Map<Hex, JobRecord>();
  readonly #open = new Set<JobRecord>();
  /** Oldest first. */
  readonly #finished = new Set<JobRecord>();

  constructor(options: JobStoreOptions) {
    this.#options = options;
  }

  /** Takes back what an earlier process left open. Call once, before anything else. */
  async restore(): Promise<number> {
    const rows = await this.#options.journal.openJobs("gateway");
    for (const row of rows) this.#keep(JobRecord.restore(this.#context(), row));
    return rows.length;
  }

  create(document: JobDocument): JobRecord {
    const record = JobRecord.create(this.#context(), document);
    this.#keep(record);
    return record;
  }

  /** Requests with something left to do. */
  open(): Iterable<JobRecord> {
    return this.#open;
  }

  get openCount(): number {
    return this.#open.size;
  }

  /** A request by its own id or by the id of any of its jobs on chain; from the journal when it is no longer in memory. */
  async find(id: string): Promise<JobRecord | undefined> {
    const key = id.toLowerCase() as Hex;
    const known = this.#byJob.get(key);
    if (known !== undefined) return known;
    const row = await this.#options.journal.job("gateway", key);
    return row === undefined ? undefined : JobRecord.restore(this.#context(), row);
  }

  /** The request in memory that a job on chain belongs to. */
  byJob(jobId: Hex): JobRecord | undefined {
    return this.#byJob.get(jobId.toLowerCase() as Hex);
  }

  /** Wei locked in the escrow by attempts that are not over, as far as this gateway knows. */
  get locked(): bigint {
    let sum = 0n;
    for (const record of this.#open) sum += lockedBy(record.document);
    return sum;
  }

  /** Resolves when every change of the requests in memory is durable, or cannot be made so. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.#records.values()].map(async (record) => await record.saved()));
  }

  #context() {
    return {
      journal: this.#options.journal,
      clock: this.#options.clock,
      onSaveError: this.#options.onSaveError,
      onChange: (record: JobRecord) => this.#changed(record),
    };
  }

  #keep(record: JobRecord): void {
    this.#records.set(record.id, record);
    this.#byJob.set(record.id, record);
    for (const { jobId } of record.document.attempts) this.#byJob.set(jobId, record);
    this.#changed(record);
  }

  #changed(record: JobRecord): void {
    if (this.#records.get(record.id) !== record) return;
    const newest = record.document.attempts.at(-1);
    if (newest !== undefined) this.#byJob.set(newest.jobId, record);
    if (isOpen(record.document)) {
      // One that was over may be open again: it must not be forgotten with those that are over.
      this.#finished.delete(record);
      this.#open.add(record);
      return;
    }
    this.#open.delete(record);
    this.#finished.delete(record);
    this.#finished.add(record);
    for (const oldest of this.#finished) {
      if (this.#finished.size <= (this.#options.maxFinished ?? 1000)) break;
      this.#finished.delete(oldest);
      this.#records.delete(oldest.id);
      this.#byJob.delete(oldest.id);
      for (const { jobId } of oldest.document.attempts) this.#byJob.delete(jobId);
    }
  }
}
