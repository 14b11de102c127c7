import type { Hex } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { JobRow, Journal } from "../../store/journal.ts";
import {
  type AttemptDocument,
  isOpen,
  isTerminalState,
  type JobDocument,
  type RequestOutcome,
  statusOf,
} from "./job-document.ts";
import type { DecisionRecord } from "../routing/decision-record.ts";
import { JobEvents } from "./job-events.ts";

/** What a record needs of its surroundings. */
export interface JobRecordContext {
  readonly journal: Pick<Journal, "putJob">;
  readonly clock: Clock;
  /** Told after every change, for gauges and the janitor. */
  readonly onChange: (record: JobRecord) => void;
  /** Told when a write that nobody waits for failed. */
  readonly onSaveError: (error: unknown) => void;
}

const saveLaterMs = 200;

/** One request in memory: its document, its events, and how both become durable. */
export class JobRecord {
  readonly events = new JobEvents();
  readonly #context: JobRecordContext;
  #document: JobDocument;
  #revision: number;
  #dirty = false;
  #isWriting = false;
  /** The newest row of writes. */
  #saving: Promise<void> = Promise.resolve();
  #cancelLater: (() => void) | undefined;
  /** Somebody in this process is at work on it: the janitor keeps away. */
  active: boolean;

  private constructor(context: JobRecordContext, document: JobDocument, revision: number, active: boolean) {
    this.#context = context;
    this.#document = document;
    this.#revision = revision;
    this.active = active;
    for (const { id, at, event } of document.events) {
      this.events.restore({ id, name: event.type, data: JSON.stringify({ ...event, at }) });
    }
    if (isFinal(document)) this.events.close();
  }

  /** A request that just came. Nothing is written yet. */
  static create(context: JobRecordContext, document: JobDocument): JobRecord {
    return new JobRecord(context, document, 0, true);
  }

  /** A request of an earlier process. */
  static restore(context: JobRecordContext, row: JobRow): JobRecord {
    return new JobRecord(context, JSON.parse(row.document) as JobDocument, row.revision, false);
  }

  get id(): Hex {
    return this.#document.id;
  }

  get document(): JobDocument {
    return this.#document;
  }

  /** The job on chain with this id. */
  attempt(jobId: Hex): AttemptDocument | undefined {
    return this.#document.attempts.find((attempt) => attempt.jobId === jobId);
  }

  /** Tells readers, and remembers it; of a row of waits only the last is remembered. */
  progress(event: ProgressEvent): void {
    const at = this.#context.clock.now();
    const id = this.events.add(event.type, JSON.stringify({ ...event, at }));
    const stored = { id, at, event };
    const { events } = this.#document;
    const repeated = event.type === "waiting_for_capacity" && events.at(-1)?.event.type === event.type;
    this.#change({ events: [...(repeated ? events.slice(0, -1) : events), stored] });
  }

  addAttempt(attempt: AttemptDocument): void {
    this.#change({ attempts: [...this.#document.attempts, attempt] });
  }

  updateAttempt(jobId: Hex, change: Partial<AttemptDocument>): void {
    this.#change({
      attempts: this.#document.attempts.map((attempt) =>
        attempt.jobId === jobId ? { ...attempt, ...change } : attempt,
      ),
    });
    if (isFinal(this.#document)) this.events.close();
  }

  /** Takes out what was only known while the provider was to be agreed with. */
  clearPartial(jobId: Hex): void {
    this.#change({
      attempts: this.#document.attempts.map((attempt) => {
        if (attempt.jobId !== jobId) return attempt;
        const { partial: _partial, ...rest } = attempt;
        return rest;
      }),
    });
  }

  /** A selection found nobody. */
  decided(decision: DecisionRecord): void {
    this.#change({ decision });
  }

  /** The request is over for its client. Only the first call counts. */
  finish(outcome: RequestOutcome, result: string | null = null): void {
    if (this.#document.outcome !== null) return;
    if (outcome.status !== "completed") {
      this.progress({ type: "failed", code: outcome.code ?? "failed", message: outcome.message ?? "" });
    }
    this.#change({ outcome, result });
    if (isFinal(this.#document)) this.events.close();
  }

  /** Resolves when everything up to now is durable. Rejects when it cannot be written. */
  async save(): Promise<void> {
    this.#cancelLater?.();
    this.#cancelLater = undefined;
    this.#dirty = true;
    if (!this.#isWriting) this.#saving = this.#writeAll();
    await this.#saving;
  }

  /** Makes it durable without anybody waiting. */
  saveSoon(): void {
    this.save().catch((error: unknown) => this.#context.onSaveError(error));
  }

  /**
   * Makes it durable within a moment, together with what else happens until then: for changes that a crash may lose, because the
   * chain or the provider tells them again.
   */
  saveLater(): void {
    this.#cancelLater ??= this.#context.clock.after(saveLaterMs, () => this.saveSoon());
  }

  /** Resolves when everything that was to be written is. */
  async saved(): Promise<void> {
    if (this.#cancelLater !== undefined) await this.save();
    else if (this.#isWriting) await this.#saving;
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    try {
      while (this.#dirty) await this.#write();
    } finally {
      // In the same turn as the last look at what is dirty: whoever saves from now on starts a write of its own.
      this.#isWriting = false;
    }
  }

  async #write(): Promise<void> {
    this.#dirty = false;
    this.#revision += 1;
    const document = this.#document;
    await this.#context.journal.putJob({
      collection: "gateway",
      id: document.id,
      jobId: document.attempts.at(-1)?.jobId ?? document.id,
      status: statusOf(document),
      open: isOpen(document),
      document: JSON.stringify(document),
      revision: this.#revision,
      createdAt: document.createdAt,
      updatedAt: this.#context.clock.now(),
    });
  }

  #change(change: Partial<JobDocument>): void {
    this.#document = { ...this.#document, ...change };
    this.#context.onChange(this);
  }
}

/** Whether readers of its events have nothing more to expect. */
function isFinal(document: JobDocument): boolean {
  const { outcome, attempts } = document;
  if (outcome === null) return false;
  const delivering = attempts.find(
    ({ receipt, state, partial }) => receipt !== undefined || state === "delivered" || partial !== undefined,
  );
  return delivering === undefined || isTerminalState(delivering.state);
}
