import { type Address, type Hex, keccak256 } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { TransactionOutcome } from "../../chain/transactions/types.ts";
import type { ChainTime } from "./chain-time.ts";
import type { EscrowCalls, EscrowTerms, JobOnChain } from "./escrow-calls.ts";
import { type AttemptDocument, type AttemptState, isTerminalState } from "./job-document.ts";
import { applyEnd, type JobEndListener } from "./chain-events.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobStore } from "./job-store.ts";
import { defaultWindows, type JanitorStep, nextStep } from "./next-step.ts";
import type { ProviderSigners } from "./provider-signatures.ts";
import type { Settlement } from "./settlement.ts";

/** Options of `Janitor`. */
export interface JanitorOptions {
  readonly store: JobStore;
  readonly calls: Pick<
    EscrowCalls,
    "jobOf" | "completionOf" | "outcomeOfPost" | "requestCancel" | "finalizeCancel" | "expire" | "slash" | "gasPrice"
  >;
  readonly settlement: Settlement;
  readonly chainTime: ChainTime;
  readonly terms: () => EscrowTerms | undefined;
  /** Wei per gas above which a slash is not worth it; 0 = none ever is, undefined = each is. */
  readonly maxSlashFee: bigint | undefined;
  readonly clock: Clock;
  /** Rhythm at which it looks for something due, ms. */
  readonly intervalMs: number;
  /** Who may sign for a provider now, and where it answers. */
  readonly providerNow: (
    provider: Address,
  ) => { readonly signers: ProviderSigners; readonly endpoint: string } | undefined;
  readonly onEnd: JobEndListener;
  /** Told of each step taken, for logs and metrics. */
  readonly onStep: (step: JanitorStep["kind"], jobId: Hex, error?: unknown) => void;
}

/** Most jobs looked at together. */
const parallel = 8;
/** Most jobs of one `expireJobs`. */
const maxBatch = 20;
/** Within this time a delivered job is settled in the ordinary way, seen by the index. */
const settlingMs = 15_000;
const firstRetryMs = 2000;
const maxRetryMs = 60_000;

interface Look {
  /** Monotonic ms of the next look, by our own clock. */
  retryAt: number;
  /** Chain time of the next look, Unix seconds. */
  dueAt: number;
  failures: number;
}

/**
 * Brings every job to an end whose request is over or has gone on with another provider: hands receipts over, cancels, expires,
 * slashes. Works from the journal's documents, so that a later process goes on where this one was killed.
 */
export class Janitor {
  readonly #options: JanitorOptions;
  readonly #looks = new Map<Hex, Look>();
  #cancelTimer: () => void = () => undefined;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: JanitorOptions) {
    this.#options = options;
  }

  /** Takes what earlier processes left as given up by their clients, and starts to look. */
  start(): void {
    for (const record of this.#options.store.open()) {
      if (record.active) continue;
      adopt(record, this.#options.clock.now());
      // Its end may have passed while nobody listened: the index does not tell it again.
      for (const { jobId, state } of record.document.attempts) if (!isTerminalState(state)) this.#lookOf(jobId);
    }
    this.#schedule();
  }

  /** Stops; resolves when the look under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    await this.#running;
  }

  /** One look at everything that is due. */
  async tick(): Promise<void> {
    const now = this.#options.chainTime.nowSeconds();
    const due: { readonly record: JobRecord; readonly attempt: AttemptDocument }[] = [];
    const alive = new Set<Hex>();
    for (const record of this.#options.store.open()) {
      for (const attempt of record.document.attempts) {
        if (isTerminalState(attempt.state)) continue;
        alive.add(attempt.jobId);
        if (record.active && attempt.state !== "abandoned") continue;
        const look = this.#lookOf(attempt.jobId, attempt.state === "delivered" ? settlingMs : 0);
        if (now >= look.dueAt && this.#options.clock.monotonic() >= look.retryAt) due.push({ record, attempt });
      }
    }
    for (const jobId of this.#looks.keys()) if (!alive.has(jobId)) this.#looks.delete(jobId);
    const expiring: { readonly record: JobRecord; readonly attempt: AttemptDocument }[] = [];
    for (let at = 0; at < due.length && !this.#stopped; at += parallel) {
      await Promise.all(
        due.slice(at, at + parallel).map(async (item) => {
          if (await this.#guarded(item.attempt.jobId, async () => await this.#look(item.record, item.attempt))) {
            expiring.push(item);
          }
        }),
      );
    }
    for (let at = 0; at < expiring.length && !this.#stopped; at += maxBatch) {
      await this.#expire(expiring.slice(at, at + maxBatch).map(({ attempt }) => attempt.jobId));
    }
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#cancelTimer = this.#options.clock.after(this.#options.intervalMs, () => {
      this.#running = this.tick()
        .catch((error: unknown) => this.#options.onStep("wait", "0x", error))
        .finally(() => this.#schedule());
    });
  }

  /** Looks at one job; true when it is to be expired. */
  async #look(record: JobRecord, attempt: AttemptDocument): Promise<boolean> {
    const { chainTime, clock, calls } = this.#options;
    const terms = this.#options.terms();
    if (terms === undefined) return false;
    const job = await calls.jobOf(attempt.jobId);
    if (job.status === "None") {
      await this.#notOnChain(record, attempt);
      return false;
    }
    const known = this.#note(record, attempt, job);
    const step = nextStep(known, job, chainTime.nowSeconds(), clock.now(), {
      ...defaultWindows,
      ...terms,
      slashes: this.#options.maxSlashFee !== 0n,
    });
    if (step.kind !== "wait") this.#options.onStep(step.kind, attempt.jobId);
    return await this.#take(record, known, step);
  }

  async #take(record: JobRecord, attempt: AttemptDocument, step: JanitorStep): Promise<boolean> {
    const { calls, settlement, providerNow } = this.#options;
    const { jobId } = attempt;
    switch (step.kind) {
      case "ended":
        await this.#ended(record, attempt, step.state);
        return false;
      case "wait":
        this.#lookOf(jobId).dueAt = step.until;
        return false;
      case "agree_on_part": {
        const signers = attempt.provider === undefined ? undefined : providerNow(attempt.provider)?.signers;
        if (signers !== undefined && (await settlement.tryPart(record, jobId, signers))) return false;
        throw new NotYetError();
      }
      case "hand_over_receipt":
        if (!(await settlement.tryReceipt(record, jobId))) throw new NotYetError();
        return false;
      case "request_cancel":
        this.#judge(jobId, await calls.requestCancel(this.#key("cancel", jobId), jobId));
        return false;
      case "finalize_cancel":
        this.#judge(jobId, await calls.finalizeCancel(this.#key("finalize", jobId), jobId));
        return false;
      case "slash": {
        const { requestHash, acknowledgement } = attempt;
        if (requestHash === undefined || acknowledgement === undefined || (await this.#isSlashTooDear())) return true;
        const outcome = await calls.slash(this.#key("slash", jobId), jobId, requestHash, acknowledgement);
        // An operator that was replaced in the meantime cannot be held to it, nor whoever else the chain excuses: the money still
        // comes back.
        return outcome.status === "reverted" ? true : this.#judge(jobId, outcome);
      }
      case "expire":
        return true;
    }
  }

  async #isSlashTooDear(): Promise<boolean> {
    const { maxSlashFee, calls } = this.#options;
    return maxSlashFee !== undefined && (await calls.gasPrice()) > maxSlashFee;
  }

  async #expire(jobIds: readonly Hex[]): Promise<void> {
    const all = keccak256(`0x${jobIds.map((id) => id.slice(2)).join("")}`);
    const expired = await this.#options.calls
      .expire(this.#key("expire", all), jobIds)
      .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    for (const jobId of jobIds) {
      if (expired instanceof Error) this.#failed(jobId, expired);
      // A block that came before the deadline skips a job without reverting: the chain's clock is behind ours.
      else if (!expired.has(jobId)) this.#failed(jobId, new NotYetError("the chain has not expired it yet"));
      else this.#lookOf(jobId).retryAt = this.#options.clock.monotonic() + firstRetryMs;
    }
  }

  /**
   * A key of its own for each try: the queue answers a known key with what became of the first transaction, which for a second try
   * would be a success that changed nothing. What a try does twice the chain refuses.
   */
  #key(step: string, id: Hex): string {
    return `${step}:${id}:${this.#options.clock.now()}`;
  }

  /** A refused transaction means that the chain is elsewhere than we thought: look again. */
  #judge(jobId: Hex, outcome: TransactionOutcome): false {
    if (outcome.status !== "success") throw new NotYetError(outcome.message);
    this.#lookOf(jobId).failures = 0;
    return false;
  }

  /** Nothing on chain under this id: for ever, unless a transaction is still under way. */
  async #notOnChain(record: JobRecord, attempt: AttemptDocument): Promise<void> {
    const outcome =
      attempt.postKey === undefined
        ? undefined
        : await this.#options.calls.outcomeOfPost(attempt.postKey, attempt.candidates, attempt.jobId);
    if (outcome?.kind === "pending") throw new NotYetError();
    // Any state but `posting` says that the chain has had it.
    const isPosted =
      attempt.state !== "posting" || outcome?.kind === "posted" || (outcome?.kind === "abandoned" && outcome.undecided);
    if (isPosted) throw new NotYetError("the chain does not show a job that it has taken");
    applyEnd(record, attempt, { ...nothingPaid, state: "not_posted" }, this.#options.onEnd);
  }

  /** The chain ended it and its event passed us by: we were not running, or the index started after it. */
  async #ended(record: JobRecord, attempt: AttemptDocument, state: AttemptState): Promise<void> {
    const completion =
      state === "settled"
        ? await this.#options.calls.completionOf(attempt.jobId, attempt.postBlock ?? 0).catch(() => undefined)
        : undefined;
    const current = record.attempt(attempt.jobId) ?? attempt;
    applyEnd(record, current, { ...nothingPaid, ...completion, state }, this.#options.onEnd);
  }

  /** Takes over what the chain says of a job whose post we did not see the end of. */
  #note(record: JobRecord, attempt: AttemptDocument, job: JobOnChain): AttemptDocument {
    if (attempt.provider === job.provider && attempt.endpoint !== undefined) return attempt;
    const endpoint = this.#options.providerNow(job.provider)?.endpoint;
    record.updateAttempt(attempt.jobId, {
      ...(attempt.state === "posting" ? { state: "abandoned" as const } : {}),
      provider: job.provider,
      deadline: job.deadline,
      ...(endpoint === undefined ? {} : { endpoint }),
    });
    record.saveSoon();
    return record.attempt(attempt.jobId) ?? attempt;
  }

  async #guarded(jobId: Hex, work: () => Promise<boolean>): Promise<boolean> {
    try {
      return await work();
    } catch (error) {
      this.#failed(jobId, error);
      return false;
    }
  }

  #failed(jobId: Hex, error: unknown): void {
    const look = this.#lookOf(jobId);
    look.failures += 1;
    look.retryAt =
      this.#options.clock.monotonic() + Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(look.failures - 1, 10));
    if (!(error instanceof NotYetError && error.message === "")) this.#options.onStep("wait", jobId, error);
  }

  /** @param firstAfterMs For a job not looked at before: how long it is left alone. */
  #lookOf(jobId: Hex, firstAfterMs = 0): Look {
    const known = this.#looks.get(jobId);
    if (known !== undefined) return known;
    const look: Look = { retryAt: this.#options.clock.monotonic() + firstAfterMs, dueAt: 0, failures: 0 };
    this.#looks.set(jobId, look);
    return look;
  }
}

/** Nothing is wrong, it is only too early. */
class NotYetError extends Error {
  override readonly name = "NotYetError";
}

const nothingPaid = { payment: 0n, usage: undefined, transactionHash: undefined } as const;

/** A request whose process was killed: its client is gone, its answer was cut, its provider is still to be agreed with. */
function adopt(record: JobRecord, nowMs: number): void {
  for (const { jobId, state, sent, bounds, partial, receipt } of record.document.attempts) {
    if (state !== "posted" && state !== "acknowledged") continue;
    const left = sent === true && receipt === undefined && partial === undefined && bounds !== undefined;
    record.updateAttempt(jobId, { state: "abandoned", ...(left ? { partial: { atMost: bounds, at: nowMs } } : {}) });
  }
  record.finish({
    status: "failed",
    code: "gateway_restarted",
    message: "The gateway was restarted before the answer was complete.",
  });
  record.saveSoon();
}
