import { parentPort, workerData } from "node:worker_threads";
import type { DatabaseSync } from "node:sqlite";
import { type JournalOperations, journalOperations } from "./journal-database.ts";
import { migrations } from "./schema.ts";

/**
 * The thread that owns the journal's database, so that a slow disk never holds up the streams of the main thread. While one commit
 * runs, further calls gather at the other side and become the next commit.
 */

/** One call of a journal method. */
export type WorkerCall = { readonly method: keyof JournalOperations; readonly args: readonly unknown[] };

/** Calls that are committed together, in order; `close` ends the thread. */
export type WorkerRequest = { readonly calls: readonly WorkerCall[] } | { readonly close: true };

/** Outcome of one call. */
export type WorkerResult =
  | { readonly value: unknown }
  | { readonly error: { readonly name: string; readonly message: string } };

/** What the thread says. */
export type WorkerAnswer =
  | { readonly kind: "opened" }
  | {
      readonly kind: "refused";
      readonly reason: "locked" | "version" | "storage";
      readonly message: string;
      readonly found?: number;
      readonly known?: number;
    }
  | { readonly kind: "results"; readonly results: readonly WorkerResult[] }
  | { readonly kind: "closed" };

const reads: ReadonlySet<keyof JournalOperations> = new Set([
  "transaction",
  "openTransactions",
  "minedTransactions",
  "job",
  "openJobs",
  "recentJobs",
  "getValue",
]);

function say(answer: WorkerAnswer): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(answer);
}

function failure(error: unknown): WorkerResult {
  const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
  return { error: { name, message } };
}

/** Node 22 warns once that `node:sqlite` is experimental; Node 24 does not. Other warnings go on. */
function silenceSqliteWarning(): void {
  const emitWarning = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void;
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (String(warning).includes("SQLite is an experimental feature")) return;
    emitWarning(warning, ...rest);
  };
}

class Refusal extends Error {
  readonly answer: WorkerAnswer;

  constructor(answer: WorkerAnswer) {
    super("refused");
    this.answer = answer;
  }
}

function migrate(database: DatabaseSync): void {
  database.exec("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)");
  const found = Number(database.prepare("SELECT max(version) AS version FROM schema_version").get()?.version ?? 0);
  if (found > migrations.length) {
    throw new Refusal({ kind: "refused", reason: "version", message: "newer schema", found, known: migrations.length });
  }
  for (const [index, statements] of migrations.entries()) {
    if (index < found) continue;
    database.exec("BEGIN IMMEDIATE");
    for (const statement of statements) database.exec(statement);
    database.prepare("INSERT INTO schema_version (version) VALUES (?)").run(index + 1);
    database.exec("COMMIT");
  }
}

async function open(path: string): Promise<{ readonly database: DatabaseSync; readonly lock: DatabaseSync }> {
  silenceSqliteWarning();
  const { DatabaseSync } = await import("node:sqlite");
  // A file of its own carries the lock, so that a running node's journal can still be read from outside. The kernel drops the lock
  // with the process, so a crash leaves nothing to clean up.
  const lock = new DatabaseSync(`${path}.lock`);
  try {
    lock.exec("PRAGMA busy_timeout = 0");
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if (error instanceof Error && /locked|busy/i.test(error.message)) {
      throw new Refusal({ kind: "refused", reason: "locked", message: error.message });
    }
    throw error;
  }
  const database = new DatabaseSync(path);
  database.exec("PRAGMA journal_mode = WAL");
  // Every commit reaches the disk before it is answered.
  database.exec("PRAGMA synchronous = FULL");
  database.exec("PRAGMA busy_timeout = 5000");
  migrate(database);
  return { database, lock };
}

/**
 * A call that failed so that SQLite has ended the transaction around it, as it does when the disk is full: each call after it would be a
 * transaction of its own, and stay although it is told as refused.
 */
class LostTransactionError extends Error {}

/** @param isUnharmed Whether the other calls still stand when one has failed. */
function runAll(
  operations: JournalOperations,
  calls: readonly WorkerCall[],
  isUnharmed: () => boolean,
): WorkerResult[] {
  return calls.map(({ method, args }) => {
    try {
      const operation = operations[method] as (...given: readonly unknown[]) => unknown;
      return { value: operation(...args) };
    } catch (error) {
      if (!isUnharmed()) throw new LostTransactionError("the transaction is lost", { cause: error });
      // A call that is refused (unknown key) changed nothing; its neighbours stand.
      return failure(error);
    }
  });
}

function commit(database: DatabaseSync, operations: JournalOperations, calls: readonly WorkerCall[]): WorkerResult[] {
  if (calls.every((call) => reads.has(call.method))) return runAll(operations, calls, () => true);
  try {
    database.exec("BEGIN IMMEDIATE");
    const results = runAll(operations, calls, () => database.isTransaction);
    database.exec("COMMIT");
    return results;
  } catch (error) {
    // The disk refused, or another program holds the file: nothing of this group was written.
    rollBack(database);
    const isLost = error instanceof LostTransactionError;
    // One was too much: the others may find room without it.
    if (isLost && calls.length > 1) return calls.flatMap((call) => commit(database, operations, [call]));
    const failed = failure(isLost ? error.cause : error);
    return calls.map(() => failed);
  }
}

function rollBack(database: DatabaseSync): void {
  try {
    database.exec("ROLLBACK");
  } catch (error) {
    // SQLite has rolled back by itself, as it does when the disk is full. Else nothing can be written any more: the thread ends, and
    // its process with it.
    if (database.isTransaction) throw error;
  }
}

async function main(): Promise<void> {
  const { path } = workerData as { readonly path: string };
  let opened: Awaited<ReturnType<typeof open>>;
  try {
    opened = await open(path);
  } catch (error) {
    say(
      error instanceof Refusal
        ? error.answer
        : { kind: "refused", reason: "storage", message: error instanceof Error ? error.message : String(error) },
    );
    return;
  }
  const { database, lock } = opened;
  const operations = journalOperations(database);
  parentPort?.on("message", (request: WorkerRequest) => {
    if ("close" in request) {
      database.close();
      lock.close();
      say({ kind: "closed" });
      parentPort?.close();
      return;
    }
    say({ kind: "results", results: commit(database, operations, request.calls) });
  });
  say({ kind: "opened" });
}

await main();
