import type { Address, Hex } from "viem";

/** A transaction intent as persisted: written before sending, finished only after a receipt. Amounts are decimal strings. */
export interface TransactionRow {
  readonly key: string;
  readonly sender: Address;
  readonly chainId: number;
  readonly kind: string;
  readonly to: Address;
  readonly data: Hex;
  readonly gas: string | null;
  readonly nonce: number | null;
  /** All hashes ever signed, oldest first (fee bumps, new nonces). */
  readonly hashes: readonly Hex[];
  readonly status: "queued" | "allocated" | "sent" | "given_up" | "success" | "reverted" | "abandoned";
  /** JSON of the outcome once final. */
  readonly outcome: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/**
 * The durable memory of one process: transaction intents, and one document per job. Asynchronous, so that the same interface fits
 * SQLite and PostgreSQL; every method is atomic; a resolved write survives `kill -9` and a power cut.
 */
export interface Journal {
  /** Inserts a new intent; false when the key exists. */
  insertTransaction(row: TransactionRow): Promise<boolean>;
  /** Replaces the mutable fields of an intent. Rejects when the key is unknown. */
  updateTransaction(
    key: string,
    change: Partial<Pick<TransactionRow, "nonce" | "hashes" | "status" | "outcome" | "gas" | "updatedAt">>,
  ): Promise<void>;
  transaction(key: string): Promise<TransactionRow | undefined>;
  /** Intents of a sender that are not final, by nonce then age. */
  openTransactions(sender: Address, chainId: number): Promise<readonly TransactionRow[]>;
  /** Intents of a sender that were mined with a nonce from `fromNonce` on, by nonce. */
  minedTransactions(sender: Address, chainId: number, fromNonce: number): Promise<readonly TransactionRow[]>;

  /** Writes a job document whole. `collection` is `gateway` or `provider`; `open` false takes it out of `openJobs`. */
  putJob(job: JobRow): Promise<void>;
  /** Compare-and-set: writes only when the stored revision is `job.revision - 1`. */
  casJob(job: JobRow): Promise<boolean>;
  job(collection: JobCollection, id: string): Promise<JobRow | undefined>;
  openJobs(collection: JobCollection): Promise<readonly JobRow[]>;
  /** Newest first, for pages. `before` is an `updatedAt` bound in ms. */
  recentJobs(collection: JobCollection, limit: number, before?: number): Promise<readonly JobRow[]>;

  /**
   * Takes out at most `limit` rows that were last written before a time (Unix ms), oldest first: jobs that are not open, and final
   * intents older than every open job, as an open job may still ask for its own. Returns how many.
   */
  prune(before: number, limit: number): Promise<number>;

  /** Small durable values such as cursors and counters. */
  getValue(key: string): Promise<string | undefined>;
  setValue(key: string, value: string): Promise<void>;
  /** Atomically adds one to a counter that starts at 0 and returns the new value (client nonces). */
  nextCounter(key: string): Promise<bigint>;

  close(): Promise<void>;
}

export type JobCollection = "gateway" | "provider";

export interface JobRow {
  readonly collection: JobCollection;
  /** Gateway: the request's job id before posting; provider: the on-chain job id. */
  readonly id: string;
  readonly jobId: Hex | null;
  readonly status: string;
  readonly open: boolean;
  /** JSON document. */
  readonly document: string;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}
