import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import {
  JournalClosedError,
  JournalLockedError,
  JournalStorageError,
  JournalVersionError,
  UnknownIntentError,
} from "./errors.ts";
import type { Journal } from "./journal.ts";
import type { WorkerAnswer, WorkerCall, WorkerRequest, WorkerResult } from "./journal-worker.ts";

interface PendingCall {
  readonly call: WorkerCall;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Most calls of one commit: bounds how long a single caller waits for its neighbours. */
const maxGroup = 512;

/**
 * Opens (or creates, with its directory) a journal in an SQLite file. Resolved writes survive `kill -9` and a power cut; writes in
 * flight at once share one commit. Calls take effect in the order in which they were made.
 *
 * @throws JournalLockedError when another process has it open, JournalVersionError when a newer program wrote it,
 * JournalStorageError when the file cannot be used.
 */
export async function openSqliteJournal(
  path: string,
  options: {
    /** The journal's thread is gone, and with it the lock on the file: nothing will ever be written again. */
    readonly onLost?: (error: Error) => void;
  } = {},
): Promise<Journal> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const worker = new Worker(new URL("./journal-worker.ts", import.meta.url), { workerData: { path }, name: "journal" });
  await opened(path, worker);
  return journalOf(path, worker, options.onLost ?? (() => undefined));
}

function opened(path: string, worker: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAnswer = (answer: WorkerAnswer): void => {
      if (answer.kind === "opened") settled(resolve);
      else settled(() => reject(refusal(path, answer)));
    };
    const onError = (cause: unknown): void =>
      settled(() => reject(new JournalStorageError(`cannot open the journal ${path}`, { cause })));
    const onExit = (): void => settled(() => reject(new JournalStorageError(`cannot open the journal ${path}`)));
    const settled = (end: () => void): void => {
      worker.off("message", onAnswer).off("error", onError).off("exit", onExit);
      end();
    };
    worker.on("message", onAnswer).on("error", onError).on("exit", onExit);
  });
}

function refusal(path: string, answer: WorkerAnswer): Error {
  if (answer.kind !== "refused") return new JournalStorageError(`the journal ${path} answered out of turn`);
  if (answer.reason === "locked") return new JournalLockedError(path);
  if (answer.reason === "version") return new JournalVersionError(path, answer.found ?? 0, answer.known ?? 0);
  return new JournalStorageError(`cannot open the journal ${path}: ${answer.message}`);
}

function journalOf(path: string, worker: Worker, onLost: (error: Error) => void): Journal {
  let waiting: PendingCall[] = [];
  let running: readonly PendingCall[] = [];
  let closing: Promise<void> | undefined;
  let gone: Error | undefined;
  let onClosed: (() => void) | undefined;

  const post = (request: WorkerRequest): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    worker.postMessage(request);
  };

  const runNext = (): void => {
    if (running.length > 0) return;
    if (waiting.length === 0) {
      // An idle journal does not keep a process alive; one with work does.
      worker.unref();
      if (onClosed !== undefined) {
        worker.ref();
        post({ close: true });
      }
      return;
    }
    running = waiting.slice(0, maxGroup);
    waiting = waiting.slice(maxGroup);
    worker.ref();
    post({ calls: running.map((pending) => pending.call) });
  };

  const failAll = (error: Error): void => {
    const isNew = gone === undefined;
    gone ??= error;
    for (const pending of [...running, ...waiting]) pending.reject(error);
    running = [];
    waiting = [];
    onClosed?.();
    if (isNew && closing === undefined) onLost(error);
  };

  worker.on("message", (answer: WorkerAnswer) => {
    if (answer.kind === "closed") {
      failAll(new JournalClosedError("the journal is closed"));
      return;
    }
    if (answer.kind !== "results") return;
    const finished = running;
    running = [];
    for (const [index, pending] of finished.entries()) settle(pending, answer.results[index]);
    runNext();
  });
  worker.on("error", (cause) => failAll(new JournalStorageError(`the journal ${path} failed`, { cause })));
  worker.on("exit", () => failAll(new JournalClosedError(`the journal ${path} is closed`)));
  worker.unref();

  const ask = (method: WorkerCall["method"], args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (gone !== undefined || closing !== undefined) {
        reject(gone ?? new JournalClosedError("the journal is closing"));
        return;
      }
      waiting.push({ call: { method, args }, resolve, reject });
      // Calls made in the same turn of the event loop share a commit.
      if (waiting.length === 1) setImmediate(runNext);
    });

  return {
    insertTransaction: (row) => ask("insertTransaction", [row]) as Promise<boolean>,
    updateTransaction: (key, change) => ask("updateTransaction", [key, change]) as Promise<void>,
    transaction: (key) => ask("transaction", [key]) as ReturnType<Journal["transaction"]>,
    openTransactions: (sender, chainId) =>
      ask("openTransactions", [sender, chainId]) as ReturnType<Journal["openTransactions"]>,
    minedTransactions: (sender, chainId, fromNonce) =>
      ask("minedTransactions", [sender, chainId, fromNonce]) as ReturnType<Journal["minedTransactions"]>,
    putJob: (job) => ask("putJob", [job]) as Promise<void>,
    casJob: (job) => ask("casJob", [job]) as Promise<boolean>,
    job: (collection, id) => ask("job", [collection, id]) as ReturnType<Journal["job"]>,
    openJobs: (collection) => ask("openJobs", [collection]) as ReturnType<Journal["openJobs"]>,
    recentJobs: (collection, limit, before) =>
      ask("recentJobs", [collection, limit, before]) as ReturnType<Journal["recentJobs"]>,
    prune: (before, limit) => ask("prune", [before, limit]) as Promise<number>,
    getValue: (key) => ask("getValue", [key]) as Promise<string | undefined>,
    setValue: (key, value) => ask("setValue", [key, value]) as Promise<void>,
    nextCounter: (key) => ask("nextCounter", [key]) as Promise<bigint>,
    close: () => {
      closing ??= new Promise<void>((resolve) => {
        onClosed = resolve;
        if (gone !== undefined) resolve();
        else setImmediate(runNext);
      });
      return closing;
    },
  };
}

function settle(pending: PendingCall, result: WorkerResult | undefined): void {
  if (result === undefined) pending.reject(new JournalStorageError("the journal lost an answer"));
  else if ("value" in result) pending.resolve(result.value);
  else if (result.error.name === "UnknownIntentError")
    pending.reject(new UnknownIntentError(String(pending.call.args[0])));
  else pending.reject(new JournalStorageError(`the journal refused ${pending.call.method}: ${result.error.message}`));
}
