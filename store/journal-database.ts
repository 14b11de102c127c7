import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite";
import type { Address, Hex } from "viem";
import { UnknownIntentError } from "./errors.ts";
import type { JobCollection, JobRow, Journal, TransactionRow } from "./journal.ts";

/** What the journal's methods do, run one after another on the thread that owns the database. */
export type JournalOperations = {
  readonly [K in Exclude<keyof Journal, "close">]: (...args: Parameters<Journal[K]>) => Awaited<ReturnType<Journal[K]>>;
};

type Row = Record<string, SQLOutputValue>;

/** Columns of the fields that `updateTransaction` may change. */
const changeable = {
  nonce: "nonce",
  hashes: "hashes",
  status: "status",
  outcome: "outcome",
  gas: "gas",
  updatedAt: "updated_at",
} as const;

/** The journal's operations on an open database with the current schema. Each is one or two statements and assumes a transaction around it. */
export function journalOperations(database: DatabaseSync): JournalOperations {
  const prepared = new Map<string, StatementSync>();
  const statement = (sql: string): StatementSync => {
    let found = prepared.get(sql);
    if (found === undefined) {
      found = database.prepare(sql);
      prepared.set(sql, found);
    }
    return found;
  };
  const changes = (sql: string, ...values: SQLInputValue[]): number => Number(statement(sql).run(...values).changes);
  const one = (sql: string, ...values: SQLInputValue[]): Row | undefined => statement(sql).get(...values);
  const all = (sql: string, ...values: SQLInputValue[]): Row[] => statement(sql).all(...values);

  return {
    insertTransaction: (row) =>
      changes(
        `INSERT INTO transaction_intents
          (intent_key, sender, chain_id, kind, recipient, data, gas, nonce, hashes, status, outcome, created_at, updated_at)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (intent_key) DO NOTHING`,
        row.key,
        row.sender,
        row.chainId,
        row.kind,
        row.to,
        row.data,
        row.gas,
        row.nonce,
        JSON.stringify(row.hashes),
        row.status,
        row.outcome,
        Math.round(row.createdAt),
        Math.round(row.updatedAt),
      ) === 1,

    updateTransaction: (key, change) => {
      const columns: string[] = [];
      const values: SQLInputValue[] = [];
      for (const [field, column] of Object.entries(changeable)) {
        const value = change[field as keyof typeof changeable];
        if (value === undefined) continue;
        columns.push(`${column} = ?`);
        if (typeof value === "object" && value !== null) values.push(JSON.stringify(value));
        else values.push(typeof value === "number" ? Math.round(value) : value);
      }
      if (columns.length === 0) columns.push("intent_key = intent_key");
      if (changes(`UPDATE transaction_intents SET ${columns.join(", ")} WHERE intent_key = ?`, ...values, key) === 0) {
        throw new UnknownIntentError(key);
      }
    },

    transaction: (key) => {
      const row = one("SELECT * FROM transaction_intents WHERE intent_key = ?", key);
      return row === undefined ? undefined : transactionOf(row);
    },

    openTransactions: (sender, chainId) =>
      all(
        `SELECT * FROM transaction_intents
          WHERE status IN ('queued', 'allocated', 'sent', 'given_up') AND lower(sender) = lower(?) AND chain_id = ?
          ORDER BY CASE WHEN nonce IS NULL THEN 1 ELSE 0 END, nonce, created_at, intent_key`,
        sender,
        chainId,
      ).map(transactionOf),

    minedTransactions: (sender, chainId, fromNonce) =>
      all(
        `SELECT * FROM transaction_intents
          WHERE status IN ('success', 'reverted') AND lower(sender) = lower(?) AND chain_id = ? AND nonce >= ?
          ORDER BY nonce, updated_at DESC`,
        sender,
        chainId,
        fromNonce,
      ).map(transactionOf),

    putJob: (job) => {
      changes(
        `INSERT INTO jobs (collection, id, job_id, status, is_open, document, revision, created_at, updated_at)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (collection, id) DO UPDATE SET job_id = excluded.job_id, status = excluded.status, is_open = excluded.is_open,
            document = excluded.document, revision = excluded.revision, created_at = excluded.created_at, updated_at = excluded.updated_at`,
        ...jobValues(job),
      );
    },

    casJob: (job) => {
      const updated = changes(
        `UPDATE jobs SET job_id = ?, status = ?, is_open = ?, document = ?, revision = ?, created_at = ?, updated_at = ?
          WHERE collection = ? AND id = ? AND revision = ?`,
        ...jobValues(job).slice(2),
        job.collection,
        job.id,
        job.revision - 1,
      );
      if (updated === 1 || job.revision !== 1) return updated === 1;
      // The first revision: nothing may be stored yet.
      return (
        changes(
          `INSERT INTO jobs (collection, id, job_id, status, is_open, document, revision, created_at, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (collection, id) DO NOTHING`,
          ...jobValues(job),
        ) === 1
      );
    },

    job: (collection, id) => {
      const row = one("SELECT * FROM jobs WHERE collection = ? AND id = ?", collection, id);
      return row === undefined ? undefined : jobOf(row);
    },

    openJobs: (collection) =>
      all("SELECT * FROM jobs WHERE collection = ? AND is_open = 1 ORDER BY created_at, id", collection).map(jobOf),

    recentJobs: (collection, limit, before) =>
      all(
        "SELECT * FROM jobs WHERE collection = ? AND updated_at < ? ORDER BY updated_at DESC, id DESC LIMIT ?",
        collection,
        before ?? Number.MAX_SAFE_INTEGER,
        limit,
      ).map(jobOf),

    prune: (before, limit) => {
      const jobs = changes(
        `DELETE FROM jobs WHERE (collection, id) IN (
          SELECT collection, id FROM jobs WHERE is_open = 0 AND updated_at < ? ORDER BY updated_at LIMIT ?)`,
        Math.round(before),
        limit,
      );
      const left = limit - jobs;
      if (left === 0) return jobs;
      return (
        jobs +
        changes(
          `DELETE FROM transaction_intents WHERE intent_key IN (
            SELECT intent_key FROM transaction_intents
              WHERE status IN ('success', 'reverted', 'abandoned') AND updated_at < ?
                AND updated_at < COALESCE((SELECT MIN(created_at) FROM jobs WHERE is_open = 1), ?)
              ORDER BY updated_at LIMIT ?)`,
          Math.round(before),
          Math.round(before),
          left,
        )
      );
    },

    getValue: (key) => {
      const content = one("SELECT content FROM named_values WHERE name = ?", key)?.content;
      return content === undefined ? undefined : text(content);
    },

    setValue: (key, value) => {
      changes(
        "INSERT INTO named_values (name, content) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content",
        key,
        value,
      );
    },

    nextCounter: (key) => {
      const count = statement(
        `INSERT INTO counters (name, current) VALUES (?, 1)
          ON CONFLICT (name) DO UPDATE SET current = counters.current + 1 RETURNING current`,
      );
      count.setReadBigInts(true);
      return BigInt(text(count.get(key)?.current ?? null));
    },
  };
}

function jobValues(job: JobRow): SQLInputValue[] {
  return [
    job.collection,
    job.id,
    job.jobId,
    job.status,
    job.open ? 1 : 0,
    job.document,
    job.revision,
    Math.round(job.createdAt),
    Math.round(job.updatedAt),
  ];
}

function text(value: SQLOutputValue | undefined): string {
  return typeof value === "string" ? value : String(value);
}

function textOrNull(value: SQLOutputValue | undefined): string | null {
  return value === null || value === undefined ? null : text(value);
}

/** Rows come from this program's own writes, so words are taken as the types that were written. */
function transactionOf(row: Row): TransactionRow {
  return {
    key: text(row.intent_key),
    sender: text(row.sender) as Address,
    chainId: Number(row.chain_id),
    kind: text(row.kind),
    to: text(row.recipient) as Address,
    data: text(row.data) as Hex,
    gas: textOrNull(row.gas),
    nonce: row.nonce === null ? null : Number(row.nonce),
    hashes: JSON.parse(text(row.hashes)) as Hex[],
    status: text(row.status) as TransactionRow["status"],
    outcome: textOrNull(row.outcome),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

function jobOf(row: Row): JobRow {
  return {
    collection: text(row.collection) as JobCollection,
    id: text(row.id),
    jobId: textOrNull(row.job_id) as Hex | null,
    status: text(row.status),
    open: Number(row.is_open) === 1,
    document: text(row.document),
    revision: Number(row.revision),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}
