import type { Hex } from "viem";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { PostOutcome } from "./escrow-calls.ts";
import type { EscrowPlan } from "./escrow-plan.ts";
import type { AttemptDocument } from "./job-document.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import type { RequestContext } from "./request-context.ts";

/** Ms in which a post must reach the chain's node: an outage of the RPC is told to the client instead of waited out. */
const longestSendMs = 30_000;
/** Ms after which a client is not kept waiting for a post to be mined any longer: the RPC is gone, or the chain makes no blocks. */
const longestPostMs = 60_000;

/** How one post went, and under which id. */
export interface Posted {
  readonly outcome: PostOutcome;
  readonly jobId: Hex;
}

/** What posting needs of the request that it posts for. */
export interface JobPostingParts {
  readonly context: RequestContext;
  readonly request: JobRequest;
  readonly record: JobRecord;
  readonly tell: (event: ProgressEvent) => void;
  /** Ms that the request still has. */
  readonly leftMs: () => number;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
}

/** Seconds that a deadline keeps from the bounds of the escrow, as the block that mines it has another time. */
const deadlineMarginSeconds = 30;

/** Puts one request's jobs onto the chain. */
export class JobPosting {
  readonly #parts: JobPostingParts;
  /** Transactions handed to the queue, each under a key of its own. */
  #postings = 0;
  #undecided = false;

  constructor(parts: JobPostingParts) {
    this.#parts = parts;
  }

  /** A transaction was handed over and its end is not known: it may still come onto the chain, even after a restart. */
  get undecided(): boolean {
    return this.#undecided;
  }

  /** Posts, correcting what can be corrected: a deadline out of bounds, an empty escrow account. */
  async post(plan: EscrowPlan): Promise<Posted> {
    const { calls, treasury, limits, chainTime } = this.#parts.context;
    const { jobId, nonce } = this.#nextJob();
    const terms = this.#parts.context.terms();
    let deadline =
      chainTime.nowSeconds() +
      clamp(
        limits.deadlineSeconds,
        terms.minDuration + deadlineMarginSeconds,
        terms.maxDuration - deadlineMarginSeconds,
      );
    this.#parts.tell({
      type: "posting_job",
      model: plan.modelId,
      candidates: plan.candidates.map(({ provider }) => provider),
      maxPayment: String(plan.maxPayment),
    });
    let toppedUp = false;
    let deadlineCorrected = false;
    for (;;) {
      this.#postings += 1;
      const key = `post:${jobId}:${this.#postings}`;
      this.#parts.record.updateAttempt(jobId, {
        state: "posting",
        postKey: key,
        modelId: plan.modelId,
        candidates: plan.candidates.map(({ provider }) => provider),
        maxPayment: String(plan.maxPayment),
        deadline,
      });
      // What is about to be sent must be known after a crash.
      await this.#parts.record.save();
      this.#undecided = true;
      const sendWithinMs = clamp(this.#parts.leftMs(), 1, longestSendMs);
      const answerWithinMs = clamp(this.#parts.leftMs(), 1, longestPostMs);
      const outcome = await calls.post({ key, nonce, plan, deadline, sendWithinMs, answerWithinMs });
      this.#undecided = outcome.kind === "abandoned" && outcome.undecided;
      if (outcome.kind === "failed" && outcome.errorName === "JobAlreadyPosted") {
        // The chain says that it has the job, whatever it shows: it is ended like any other that is given up.
        this.#parts.record.updateAttempt(jobId, { state: "abandoned" });
        await this.#parts.record.save();
      }
      if (outcome.kind === "bad_deadline" && !deadlineCorrected) {
        deadlineCorrected = true;
        deadline = clamp(deadline, outcome.earliest + deadlineMarginSeconds, outcome.latest - deadlineMarginSeconds);
        continue;
      }
      if (outcome.kind === "insufficient_balance" && !toppedUp) {
        toppedUp = true;
        if (await this.#inTime(async (signal) => await treasury.topUp(outcome.required, signal))) continue;
      }
      return { outcome, jobId };
    }
  }

  /** Whether the account was filled while the request has time, and its client is there. */
  async #inTime(fill: (signal: AbortSignal) => Promise<boolean>): Promise<boolean> {
    const late = new AbortController();
    const told = Promise.withResolvers<boolean>();
    const leave = (): void => {
      late.abort();
      told.resolve(false);
    };
    const cancel = this.#parts.context.clock.after(clamp(this.#parts.leftMs(), 1, longestPostMs), leave);
    const { signal } = this.#parts;
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const filled = fill(late.signal);
    // Whoever was late must not end the process with it.
    filled.catch(() => undefined);
    try {
      return await Promise.race([told.promise, filled]);
    } finally {
      cancel();
      signal.removeEventListener("abort", leave);
    }
  }

  /** The job of this attempt: one that was never posted is used again, so that a refusal of the chain costs no new id. */
  #nextJob(): { readonly jobId: Hex; readonly nonce: bigint } {
    const last = this.#parts.record.document.attempts.at(-1);
    if (last?.state === "posting") return { jobId: last.jobId, nonce: BigInt(last.nonce) };
    const nonce = last === undefined ? this.#parts.request.nonce : this.#parts.context.nextNonce();
    const jobId = last === undefined ? this.#parts.request.id : this.#parts.context.calls.jobIdOf(nonce);
    const attempt: AttemptDocument = {
      jobId,
      nonce: String(nonce),
      state: "posting",
      modelId: "",
      candidates: [],
      maxPayment: "0",
      deadline: 0,
    };
    this.#parts.record.addAttempt(attempt);
    return { jobId, nonce };
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, value));
}
