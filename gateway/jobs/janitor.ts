import { type Address, type Hex, keccak256 } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { TransactionOutcome } from "../../chain/transactions/types.ts";
import type { ChainTime } from "./chain-time.ts";
import type { EscrowCalls, EscrowTerms, JobOnChain } from "./escrow-calls.ts";
import { type AttemptDocument, type AttemptState, isTerminalState } from "./job-document.ts";
import { applyEnd, type JobEnd, type JobEndListener } from "./chain-events.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobStore } from "./job-store.ts";
import { KeyedLimit } from "./keyed-limit.ts";
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
/** Talks with one provider at once: one that does not answer holds up its own jobs only. */
const talksPerProvider = 4;
/** How long a job stands in such a line before it is looked at anew: its deadline may come meanwhile. */
const talkPatienceMs = 20_000;
/** Most jobs of one `expireJobs`. */
const maxBatch = 20;
/** Within this time a delivered job is settled in the ordinary way, seen by the index. */
const settlingMs = 15_000;
const firstRetryMs = 2000;
const maxRetryMs = 60_000;
/** Failures in a row after which a payment that the chain's events do not tell is left untold. */
const maxUntold = 8;

/** What the chain says of a step whose time has not come by its own clock. */
const tooEarly: ReadonlySet<string> = new Set(["CancelTooEarly", "ResponseWindowOpen"]);

/** A step to take now. */
type DueStep = Exclude<JanitorStep, { readonly kind: "wait" }>;

interface Look {
  /** What the last look led to is still under way. */
  busy: boolean;
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
  readonly #talks: KeyedLimit;
  /** Steps under way. */
  readonly #acts = new Set<Promise<void>>();
  #cancelTimer: () => void = () => undefined;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: JanitorOptions) {
    this.#options = options;
    this.#talks = new KeyedLimit({ clock: options.clock, most: talksPerProvider, patienceMs: talkPatienceMs });
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

  /** Begins no further look or step. */
  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  /**
   * Resolves when no look and no step is under way. A step may wait for a block: after `stop`, close what it waits for first (the
   * transaction queue, the connections to providers).
   */
  async idle(): Promise<void> {
    await this.#running;
    while (this.#acts.size > 0) await Promise.all(this.#acts);
  }

  /** One look at everything that is due. What the looks lead to goes on beside it: no job waits for another's provider or transaction. */
  async tick(): Promise<void> {
    const due = this.#due();
    const expiring: Hex[] = [];
    for (let at = 0; at < due.length && !this.#stopped; at += parallel) {
      await Promise.all(
        due.slice(at, at + parallel).map(async ({ record, attempt }) => {
          try {
            const step = await this.#look(record, attempt);
            if (step?.kind === "expire") expiring.push(attempt.jobId);
            else if (step !== undefined)
              this.#begin([attempt.jobId], async () => await this.#take(record, attempt, step));
          } catch (error) {
            this.#failed(attempt.jobId, error);
          }
        }),
      );
    }
    for (let at = 0; at < expiring.length; at += maxBatch) {
      const jobIds = expiring.slice(at, at + maxBatch);
      this.#begin(jobIds, async () => await this.#expire(jobIds));
    }
  }

  #due(): { readonly record: JobRecord; readonly attempt: AttemptDocument }[] {
    const now = this.#options.chainTime.steadySeconds();
    const due: { readonly record: JobRecord; readonly attempt: AttemptDocument }[] = [];
    const alive = new Set<Hex>();
    for (const record of this.#options.store.open()) {
      for (const attempt of record.document.attempts) {
        if (isTerminalState(attempt.state)) continue;
        alive.add(attempt.jobId);
        if (record.active && attempt.state !== "abandoned") continue;
        const look = this.#lookOf(attempt.jobId, attempt.state === "delivered" ? settlingMs : 0);
        if (look.busy || now < look.dueAt || this.#options.clock.monotonic() < look.retryAt) continue;
        due.push({ record, attempt });
      }
    }
    for (const jobId of this.#looks.keys()) if (!alive.has(jobId)) this.#looks.delete(jobId);
    return due;
  }

  /** Does what a look led to, off the round of looks. */
  #begin(jobIds: readonly Hex[], act: () => Promise<void>): void {
    if (this.#stopped) return;
    for (const jobId of jobIds) this.#lookOf(jobId).busy = true;
    const running = act()
      .catch((error: unknown) => {
        for (const jobId of jobIds) this.#failed(jobId, error);
      })
      .finally(() => {
        for (const jobId of jobIds) this.#lookOf(jobId).busy = false;
        this.#acts.delete(running);
      });
    this.#acts.add(running);
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#cancelTimer = this.#options.clock.after(this.#options.intervalMs, () => {
      this.#running = this.tick()
        .catch((error: unknown) => this.#options.onStep("wait", "0x", error))
        .finally(() => this.#schedule());
    });
  }

  /** Looks at one job; undefined when there is nothing to do for now. */
  async #look(record: JobRecord, attempt: AttemptDocument): Promise<DueStep | undefined> {
    const { chainTime, clock, calls } = this.#options;
    const terms = this.#options.terms();
    if (terms === undefined) return undefined;
    const job = await calls.jobOf(attempt.jobId);
    if (job.status === "None") {
      await this.#notOnChain(record, attempt);
      return undefined;
    }
    const step = nextStep(this.#note(record, attempt, job), job, chainTime.steadySeconds(), clock.now(), {
      ...defaultWindows,
      ...terms,
      slashes: this.#options.maxSlashFee !== 0n,
    });
    if (step.kind === "wait") {
      this.#lookOf(attempt.jobId).dueAt = step.until;
      return undefined;
    }
    this.#options.onStep(step.kind, attempt.jobId);
    return step;
  }

  async #take(record: JobRecord, { jobId }: AttemptDocument, step: DueStep): Promise<void> {
    const { calls, settlement, providerNow } = this.#options;
    const attempt = record.attempt(jobId);
    if (attempt === undefined) return;
    switch (step.kind) {
      case "ended":
        await this.#ended(record, attempt, step.state);
        break;
      case "agree_on_part":
        await this.#talk(attempt, async () => {
          const signers = attempt.provider === undefined ? undefined : providerNow(attempt.provider)?.signers;
          return signers !== undefined && (await settlement.tryPart(record, jobId, signers));
        });
        break;
      case "hand_over_receipt":
        await this.#talk(attempt, async () => await settlement.tryReceipt(record, jobId));
        break;
      case "request_cancel":
        this.#judge(jobId, await calls.requestCancel(this.#key("cancel", jobId), jobId));
        break;
      case "finalize_cancel":
        this.#judge(jobId, await calls.finalizeCancel(this.#key("finalize", jobId), jobId));
        break;
      case "slash":
        await this.#slash(attempt);
        break;
      case "expire":
        await this.#expire([jobId]);
    }
  }

  /** One try with a provider, when its turn comes. */
  async #talk({ jobId, provider }: AttemptDocument, talk: () => Promise<boolean>): Promise<void> {
    const isDone = await this.#talks.run(provider ?? jobId, async () => this.#stopped || (await talk()));
    if (isDone !== true) throw new NotYetError();
  }

  async #slash({ jobId, requestHash, acknowledgement }: AttemptDocument): Promise<void> {
    if (requestHash !== undefined && acknowledgement !== undefined && !(await this.#isSlashTooDear())) {
      const outcome = await this.#options.calls.slash(this.#key("slash", jobId), jobId, requestHash, acknowledgement);
      // An operator that was replaced in the meantime cannot be held to it, nor whoever else the chain excuses: the money still
      // comes back.
      if (outcome.status !== "reverted") {
        this.#judge(jobId, outcome);
        return;
      }
    }
    await this.#expire([jobId]);
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
  #judge(jobId: Hex, outcome: TransactionOutcome): void {
    if (outcome.status === "reverted" && outcome.errorName !== undefined && tooEarly.has(outcome.errorName)) {
      // Our clock is ahead of the newest block, on which the node tried it: the next one may be late enough.
      throw new NotYetError();
    }
    if (outcome.status !== "success") throw new NotYetError(outcome.message);
    this.#lookOf(jobId).failures = 0;
  }

  /**
   * Nothing on chain under this id. For ever, when no transaction can have brought it, or when the chain has got past the deadline:
   * it takes no post with one that is over. Else it is too early: under way, shown late, or taken back by a reorganisation.
   */
  async #notOnChain(record: JobRecord, attempt: AttemptDocument): Promise<void> {
    const { calls, chainTime, onEnd } = this.#options;
    if (chainTime.blockSeconds() <= attempt.deadline && attempt.postKey !== undefined) {
      const outcome = await calls.outcomeOfPost(attempt.postKey, attempt.candidates, attempt.jobId);
      if (outcome?.kind === "pending") throw new NotYetError();
      // Any state but `posting` says that the chain has had it.
      const isPosted =
        attempt.state !== "posting" ||
        outcome?.kind === "posted" ||
        (outcome?.kind === "abandoned" && outcome.undecided);
      if (isPosted) throw new NotYetError("the chain does not show a job that it has taken");
    }
    applyEnd(record, attempt, { ...nothingPaid, state: "not_posted" }, onEnd);
  }

  /** The chain ended it and its event passed us by: we were not running, or the index started after it. */
  async #ended(record: JobRecord, attempt: AttemptDocument, state: AttemptState): Promise<void> {
    const end = state === "settled" ? await this.#payment(attempt) : nothingPaid;
    const current = record.attempt(attempt.jobId) ?? attempt;
    applyEnd(record, current, { ...end, state }, this.#options.onEnd);
  }

  /** What a completed job has paid. A node that cannot tell now is asked again before that is left open. */
  async #payment({ jobId, postBlock }: AttemptDocument): Promise<Omit<JobEnd, "state">> {
    try {
      return (await this.#options.calls.completionOf(jobId, postBlock)) ?? untold;
    } catch (error) {
      if (this.#lookOf(jobId).failures < maxUntold) throw error;
      return untold;
    }
  }

  /** Takes over what the chain says of a job whose post we did not see the end of. */
  #note(record: JobRecord, attempt: AttemptDocument, job: JobOnChain): AttemptDocument {
    // The chain keeps next to nothing of a job that was paid.
    if (job.status === "Completed") return attempt;
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

  #failed(jobId: Hex, error: unknown): void {
    // What was closed under it says nothing of the job.
    if (this.#stopped) return;
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
    const look: Look = { busy: false, retryAt: this.#options.clock.monotonic() + firstAfterMs, dueAt: 0, failures: 0 };
    this.#looks.set(jobId, look);
    return look;
  }
}

/** Nothing is wrong, it is only too early. */
class NotYetError extends Error {
  override readonly name = "NotYetError";
}

const nothingPaid = { payment: 0n, usage: undefined, transactionHash: undefined } as const;
const untold = { payment: undefined, usage: undefined, transactionHash: undefined } as const;

/** A request whose process was killed: its client is gone, its answer was cut, its provider is still to be agreed with. */
function adopt(record: JobRecord, nowMs: number): void {
  for (const attempt of record.document.attempts) {
    const { jobId, state, sent, bounds, outputHorizon, partial, receipt } = attempt;
    if (state !== "posted" && state !== "acknowledged") continue;
    const left = sent === true && receipt === undefined && partial === undefined ? bounds : undefined;
    if (left === undefined) {
      record.updateAttempt(jobId, { state: "abandoned" });
      continue;
    }
    const outputTokens = Math.min(left.outputTokens, outputHorizon ?? left.outputTokens);
    record.updateAttempt(jobId, { state: "abandoned", partial: { atMost: { ...left, outputTokens }, at: nowMs } });
  }
  record.finish({
    status: "failed",
    code: "gateway_restarted",
    message: "The gateway was restarted before the answer was complete.",
  });
  record.saveSoon();
}
