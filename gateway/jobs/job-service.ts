import type { Clock } from "../../protocol/clock.ts";
import { T4tError } from "../../protocol/errors.ts";
import type { CompletionRequest } from "../openai/completion-request.ts";
import type { RequestWishes } from "../openai/request-headers.ts";
import { PolicyNotAllowedError, type RoutingPolicies, routingHeader } from "../routing/policy-file.ts";
import type { Policy } from "../routing/types.ts";
import type { AnswerSink } from "./answer-sink.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import type { JobStore } from "./job-store.ts";
import { chainUnavailableError, drainingError } from "./request-errors.ts";
import type { RequestContext } from "./request-context.ts";
import { runRequest } from "./request-run.ts";
import { WaitBudgets } from "./wait-budgets.ts";

/** Options of `JobService`. Times in ms. */
export interface JobServiceOptions {
  /** undefined until the chain could be read for the first time. */
  readonly context: () => RequestContext | undefined;
  readonly store: JobStore;
  readonly clock: Clock;
  /** Policies in force now. */
  readonly policies: () => RoutingPolicies;
  readonly waitLimitMs: number;
  readonly deadlineSeconds: number;
  /** Told when a request is over for its client. */
  readonly onFinished: (record: JobRecord, tookMs: number) => void;
}

/** Who asks for what. */
export interface Submission {
  readonly completion: CompletionRequest;
  readonly wishes: RequestWishes;
  readonly requestId: string;
  readonly requestIdGiven: boolean;
  readonly owner: string | null;
  readonly source: "openai" | "jobs";
}

/** A request that was taken in. */
export interface SubmittedJob {
  readonly record: JobRecord;
  /** Runs it to its end. Never rejects. Call once. */
  readonly run: (sink: AnswerSink, signal: AbortSignal) => Promise<void>;
}

/** Takes requests in, and knows which of them run. */
export class JobService {
  readonly #options: JobServiceOptions;
  readonly #running = new Map<JobRecord, { readonly abort: AbortController; readonly done: Promise<void> }>();
  readonly #budgets: WaitBudgets;
  #sequence = 0;
  #draining = false;

  constructor(options: JobServiceOptions) {
    this.#options = options;
    this.#budgets = new WaitBudgets(options.clock);
  }

  /** Requests that run. */
  get running(): number {
    return this.#running.size;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Takes a request in. Throws `server_draining`, `chain_unavailable`, or `invalid_value` for a strategy that is not allowed. */
  submit(submission: Submission): SubmittedJob {
    const { completion, wishes, requestId } = submission;
    if (this.#draining) throw drainingError();
    const policy = this.#policyFor(completion.modelId, wishes.strategy);
    const context = this.#options.context();
    if (context === undefined) throw chainUnavailableError();
    const arrivedAt = context.clock.monotonic();
    const createdAt = context.clock.now();
    this.#sequence += 1;
    const sequence = this.#sequence;
    const nonce = context.nextNonce();
    const id = context.calls.jobIdOf(nonce);
    const { waitLimitMs } = this.#options;
    const request: JobRequest = {
      id,
      nonce,
      completion,
      requestId,
      policy,
      affinityKey: wishes.affinityKey ?? completion.affinityKey,
      sequence,
      arrivedAt,
      budgetMs: Math.min(this.#options.deadlineSeconds * 1000, wishes.timeoutMs ?? Number.POSITIVE_INFINITY),
      waitLimitMs: submission.requestIdGiven ? this.#budgets.left(requestId, waitLimitMs) : waitLimitMs,
    };
    const record = this.#options.store.create({
      version: 1,
      id,
      kind: completion.kind,
      model: completion.modelId ?? null,
      stream: completion.stream,
      source: submission.source,
      requestId,
      owner: submission.owner,
      createdAt,
      attempts: [],
      events: [],
      outcome: null,
      result: null,
    });
    return {
      record,
      run: async (sink, signal) => {
        await this.#run(context, request, record, sink, signal);
        if (submission.requestIdGiven && record.document.outcome?.code === "capacity_timeout") {
          this.#budgets.spend(requestId, request.waitLimitMs);
        }
      },
    };
  }

  /** Takes no more requests in. */
  drain(): void {
    this.#draining = true;
  }

  /** Ends a running request as if its client had gone; false when it does not run. */
  cancel(record: JobRecord): boolean {
    const running = this.#running.get(record);
    running?.abort.abort();
    return running !== undefined;
  }

  /** Ends every running request as if its client had gone. */
  cancelAll(): void {
    for (const { abort } of this.#running.values()) abort.abort();
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all([...this.#running.values()].map(async ({ done }) => await done));
  }

  async #run(
    context: RequestContext,
    request: JobRequest,
    record: JobRecord,
    sink: AnswerSink,
    signal: AbortSignal,
  ): Promise<void> {
    const abort = new AbortController();
    const onAbort = (): void => abort.abort();
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    const done = runRequest(context, request, record, sink, abort.signal).finally(() => {
      signal.removeEventListener("abort", onAbort);
      this.#running.delete(record);
      this.#options.onFinished(record, context.clock.monotonic() - request.arrivedAt);
    });
    this.#running.set(record, { abort, done });
    await done;
  }

  /** The request's own choice where it may choose, else its model's strategy, else the default. */
  #policyFor(modelId: string | undefined, name: string | undefined): Policy {
    try {
      return this.#options.policies().policyFor(modelId, name);
    } catch (error) {
      if (!(error instanceof PolicyNotAllowedError)) throw error;
      throw new T4tError("invalid_value", error.message, { param: routingHeader, cause: error });
    }
  }
}
