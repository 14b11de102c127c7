import type { Address, Hex } from "viem";
import type { T4tError } from "../../protocol/errors.ts";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { Lease } from "../routing/statistics/routing-statistics.ts";
import type { Candidate } from "../routing/types.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { inputBoundAt, outputBoundAt } from "./escrow-plan.ts";
import { decisionOf } from "./job-document.ts";
import { JobPosting } from "./job-posting.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import type { RequestContext } from "./request-context.ts";
import { chainUnavailableError, escrowLimitError, noCandidateError, providerFaultError } from "./request-errors.ts";
import { anyModelLine, Selector } from "./selection.ts";
import type { UsageBounds } from "./usage-check.ts";

/** How often a provider without a place for a job that the index or the chain gave it is asked again. */
export const maxBusyRefusals = 1;

/** Whether another provider shall be tried. */
export type Next = "again" | "over";

/** The first provider that called the request itself wrong: believed only when a second one says so too. */
interface Rejection {
  readonly error: T4tError;
  readonly lease: Lease;
  readonly durationMs: number;
  readonly isOfContext: boolean;
}

/** A request that has no answer yet: what its steps share, what is known of its providers so far, and how it ends. */
export class OpenRequest {
  readonly context: RequestContext;
  readonly request: JobRequest;
  readonly record: JobRecord;
  readonly sink: AnswerSink;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
  readonly selector: Selector;
  readonly posting: JobPosting;
  /** Jobs that came onto the chain. */
  jobs = 0;
  /** The newest failure of a provider: what the client is told when nobody is left. */
  failure: T4tError | undefined;
  rejection: Rejection | undefined;
  /** How often each provider had no place for a job that the index or the chain gave it. */
  readonly busyRefusals = new Map<Address, number>();

  constructor(context: RequestContext, request: JobRequest, record: JobRecord, sink: AnswerSink, signal: AbortSignal) {
    this.context = context;
    this.request = request;
    this.record = record;
    this.sink = sink;
    this.signal = signal;
    this.selector = new Selector(context, request);
    this.posting = new JobPosting({
      context,
      request,
      record,
      tell: (event) => this.tell(event),
      leftMs: () => this.leftMs,
      signal,
    });
  }

  /** The model that was asked for, as progress names it. */
  get model(): string {
    return this.request.completion.modelId ?? "auto";
  }

  /** Ms until the request's time is up; negative after it. */
  get leftMs(): number {
    return this.request.budgetMs - (this.context.clock.monotonic() - this.request.arrivedAt);
  }

  /** Tells the client, and who reads the job's events later. */
  tell(event: ProgressEvent): void {
    this.record.progress(event);
    this.sink.progress(event);
  }

  /** What an answer of a candidate may state at most, tokens. */
  boundsAt(candidate: Candidate): UsageBounds {
    const { completion } = this.request;
    return {
      inputTokens: inputBoundAt(completion, candidate.contextLength),
      outputTokens: outputBoundAt(completion, candidate.contextLength, this.context.escrow()),
    };
  }

  /** Whether the provider that rejected the request was right shows when another one has, or has not, answered it. */
  endRejection(outcome: "caller" | "fault"): void {
    this.rejection?.lease.end({ outcome, durationMs: this.rejection.durationMs });
    this.rejection = undefined;
  }

  /** This provider will not answer; its job is given up and another one is tried. */
  providerFailed(jobId: Hex, provider: Address, reason: string, brokeItsWord: boolean, tried = true): Next {
    if (tried) this.selector.tried.add(provider);
    this.failure ??= providerFaultError(reason, false, false);
    this.context.observer.attemptFailed(jobId, provider, reason);
    this.record.updateAttempt(jobId, { state: "abandoned", ...(brokeItsWord ? { fault: true } : {}) });
    this.record.saveSoon();
    this.tell({ type: "provider_failed", provider, code: reason, message: this.failure.message });
    this.context.lines.capacityFreed(this.request.completion.modelId ?? anyModelLine);
    return "again";
  }

  /** What the client is told when there is nobody to ask, or nobody left. */
  nobodyError(): T4tError {
    if (this.selector.overEscrowLimit) return escrowLimitError();
    if (this.failure !== undefined) return this.failure;
    const { last } = this.selector;
    return last === undefined ? chainUnavailableError() : noCandidateError(this.request.completion, last);
  }

  /** Nobody is left to ask. Of a provider that called the request wrong, and that nobody has contradicted, the word stands. */
  giveUp(error: T4tError): Next {
    return this.fail(this.rejection?.error ?? error);
  }

  /** Ends the request with an error. */
  fail(error: T4tError): Next {
    this.#closeUnposted();
    this.record.finish({ status: "failed", code: error.code, message: error.message });
    this.sink.fail(error, decisionOf(this.record.document));
    return "over";
  }

  /** Ends the request without a word, as nobody hears it any more. */
  gone(): Next {
    this.#closeUnposted();
    this.record.finish({ status: "cancelled", code: "cancelled", message: "The client closed the connection." });
    return "over";
  }

  /** An attempt that never came to a post has nothing on chain: its last transaction was refused, or never made. */
  #closeUnposted(): void {
    const last = this.record.document.attempts.at(-1);
    if (last?.state === "posting" && !this.posting.undecided) {
      this.record.updateAttempt(last.jobId, { state: "not_posted" });
    }
  }
}
