import type { JobRow, Journal, TransactionRow } from "../../../store/journal.ts";

/** A journal in memory. What was written stays readable after `close`, as if by the next process. */
export class MemoryJournal implements Journal {
  readonly jobs = new Map<string, JobRow>();
  readonly transactions = new Map<string, TransactionRow>();
  readonly values = new Map<string, string>();
  /** Set to make every write of a job fail. */
  failure: Error | undefined;
  /** Writes that failed so. */
  refused = 0;

  async insertTransaction(row: TransactionRow): Promise<boolean> {
    if (this.transactions.has(row.key)) return false;
    this.transactions.set(row.key, row);
    return true;
  }

  async updateTransaction(key: string, change: Partial<TransactionRow>): Promise<void> {
    const row = this.transactions.get(key);
    if (row === undefined) throw new Error(`unknown intent ${key}`);
    this.transactions.set(key, { ...row, ...change });
  }

  async transaction(key: string): Promise<TransactionRow | undefined> {
    return this.transactions.get(key);
  }

  async openTransactions(): Promise<readonly TransactionRow[]> {
    return [];
  }

  async minedTransactions(): Promise<readonly TransactionRow[]> {
    return [];
  }

  async putJob(job: JobRow): Promise<void> {
    if (this.failure !== undefined) {
      this.refused += 1;
      throw this.failure;
    }
    this.jobs.set(job.id, job);
  }

  async casJob(job: JobRow): Promise<boolean> {
    const stored = this.jobs.get(job.id);
    if ((stored?.revision ?? 0) !== job.revision - 1) return false;
    await this.putJob(job);
    return true;
  }

  async job(_collection: string, id: string): Promise<JobRow | undefined> {
    return this.jobs.get(id);
  }

  async openJobs(): Promise<readonly JobRow[]> {
    return [...this.jobs.values()].filter(({ open }) => open);
  }

  async recentJobs(_collection: string, limit: number, before = Number.MAX_SAFE_INTEGER): Promise<readonly JobRow[]> {
    return [...this.jobs.values()]
      .filter(({ updatedAt }) => updatedAt < before)
      .toSorted((a, b) => b.updatedAt - a.updatedAt)
      .slice(0, limit);
  }

  async prune(before: number, limit: number): Promise<number> {
    const old = [...this.jobs.values()].filter(({ open, updatedAt }) => !open && updatedAt < before).slice(0, limit);
    for (const { id } of old) this.jobs.delete(id);
    return old.length;
  }

  async getValue(key: string): Promise<string | undefined> {
    return this.values.get(key);
  }

  async setValue(key: string, value: string): Promise<void> {
    this.values.set(key, value);
  }

  async nextCounter(key: string): Promise<bigint> {
    const next = BigInt(this.values.get(key) ?? "0") + 1n;
    this.values.set(key, String(next));
    return next;
  }

  async close(): Promise<void> {
    // Nothing to close.
  }
}
