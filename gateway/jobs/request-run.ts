import { T4tError } from "../../protocol/errors.ts";
import type { WaitOutcome } from "../capacity/capacity-lines.ts";
import { decisionRecord } from "../routing/decision-record.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { JobAttempts } from "./job-attempts.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import { type Next, OpenRequest } from "./open-request.ts";
import type { RequestContext } from "./request-context.ts";
import { chainUnavailableError, deadlineError, waitError } from "./request-errors.ts";
import { anyModelLine, type Grant } from "./selection.ts";

/**
 * One request from selection to its answer: select, wait, post, ask, relay; on a failure before the first byte, once more with
 * another provider, within one deadline. Never rejects: what goes wrong is told to the sink.
 */
export async function runRequest(
  context: RequestContext,
  request: JobRequest,
  record: JobRecord,
  sink: AnswerSink,
  signal: AbortSignal,
): Promise<void> {
  await new RequestRun(new OpenRequest(context, request, record, sink, signal)).run();
}

class RequestRun {
  readonly #open: OpenRequest;
  readonly #context: RequestContext;
  readonly #request: JobRequest;
  readonly #record: JobRecord;
  readonly #signal: AbortSignal;
  readonly #attempts: JobAttempts;
  #waitedMs = 0;

  constructor(open: OpenRequest) {
    this.#open = open;
    this.#context = open.context;
    this.#request = open.request;
    this.#record = open.record;
    this.#signal = open.signal;
    this.#attempts = new JobAttempts(open);
  }

  async run(): Promise<void> {
    try {
      this.#open.tell({ type: "selecting_provider", model: this.#open.model });
      for (let next: Next = "again"; next === "again"; ) next = await this.#turn();
    } catch (error) {
      this.#open.fail(
        error instanceof T4tError
          ? error
          : new T4tError("internal_error", "The gateway failed to handle the request.", { cause: error }),
      );
    } finally {
      // Nobody else answered it: the word of the one stands, and costs it nothing.
      this.#open.endRejection("caller");
      this.#record.active = false;
      // A request that nobody was asked for leaves nothing to remember, and may come by the thousand.
      if (this.#record.document.attempts.length > 0 || this.#record.document.source === "jobs") {
        this.#record.saveLater();
      }
    }
  }

  /** One round: wait for capacity, post, ask. */
  async #turn(): Promise<Next> {
    if (this.#open.leftMs <= 0) return this.#open.giveUp(this.#open.failure ?? deadlineError());
    if (this.#open.jobs >= this.#context.limits.maxAttempts)
      return this.#open.giveUp(this.#open.failure ?? deadlineError());
    if (this.#context.published() === undefined) return this.#open.giveUp(chainUnavailableError());
    const asked = this.#context.clock.monotonic();
    const waitedBefore = this.#waitedMs;
    const outcome = await this.#capacity();
    if (outcome.kind === "granted") {
      const inLine = outcome.waitedMs - waitedBefore;
      this.#context.observer.step("select", this.#context.clock.monotonic() - asked - inLine);
      this.#context.observer.step("wait", inLine);
    }
    switch (outcome.kind) {
      case "granted":
        this.#waitedMs = outcome.waitedMs;
        if (this.#signal.aborted) {
          this.#attempts.giveBack(outcome.grant, "aborted");
          return this.#open.gone();
        }
        return await this.#attempts.serve(outcome.grant);
      case "aborted":
        return this.#open.gone();
      case "none":
        return this.#open.giveUp(this.#open.nobodyError());
      default:
        // A request that nobody could serve any better than the one that failed is told of the failure, not of the line.
        return this.#open.giveUp(
          outcome.kind === "timeout" && this.#open.leftMs <= 0
            ? (this.#open.failure ?? deadlineError())
            : waitError(outcome, this.#request.completion.modelId, this.#open.selector.last),
        );
    }
  }

  async #capacity(): Promise<WaitOutcome<Grant>> {
    const { lines, observer, statistics } = this.#context;
    const { completion, sequence, waitLimitMs } = this.#request;
    // A second opinion is asked of a provider that is free, and never waited for.
    const limitMs =
      this.#open.rejection === undefined ? Math.min(waitLimitMs, this.#waitedMs + Math.max(0, this.#open.leftMs)) : 0;
    const outcome = await lines.enter({
      line: completion.modelId ?? anyModelLine,
      sequence,
      needs: this.#open.selector.needs(),
      take: () => this.#open.selector.take(),
      onWaiting: (state) =>
        this.#open.tell({
          type: "waiting_for_capacity",
          model: this.#open.model,
          busyProviders: this.#open.selector.last?.busyCount ?? 0,
          position: state.position,
          waitedMs: Math.round(state.waitedMs),
          limitMs: Math.round(state.limitMs),
        }),
      limitMs,
      alreadyWaitedMs: this.#waitedMs,
      signal: this.#signal,
    });
    observer.waited(completion.modelId, outcome.kind, "waitedMs" in outcome ? outcome.waitedMs : 0);
    if (outcome.kind === "granted") {
      observer.decided(this.#request.requestId, outcome.grant.selection, outcome.grant.decision);
    } else {
      const last = this.#open.selector.look();
      if (last === undefined) return outcome;
      const decision = decisionRecord(last, statistics);
      observer.decided(this.#request.requestId, last, decision);
      // There is no job to keep it with.
      this.#record.decided(decision);
    }
    return outcome;
  }
}
