import type { Address, Hex } from "viem";
import { T4tError } from "../../protocol/errors.ts";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { WaitOutcome } from "../capacity/capacity-lines.ts";
import { decisionRecord } from "../routing/decision-record.ts";
import type { StreamOutcome } from "../routing/statistics/outcomes.ts";
import type { Lease } from "../routing/statistics/routing-statistics.ts";
import type { Candidate } from "../routing/types.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import type { AnswerHead, AnswerSink } from "./answer-sink.ts";
import type { PostOutcome, PostRefusal } from "./escrow-calls.ts";
import { candidateOf, type EscrowPlan, inputBoundAt, mayExceedContext, outputBoundAt } from "./escrow-plan.ts";
import { handBack } from "./hand-back.ts";
import { decisionOf, type PartialObservation } from "./job-document.ts";
import { JobPosting, type Posted } from "./job-posting.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import { askProvider, type ProviderAnswerListener, type ProviderResult, type Seen } from "./provider-answer.ts";
import { providerCall } from "./provider-call.ts";
import type { ProviderSigners } from "./provider-signatures.ts";
import { type RequestContext, signersOf } from "./request-context.ts";
import {
  chainUnavailableError,
  deadlineError,
  escrowLimitError,
  insufficientBalanceError,
  noCandidateError,
  noTakerError,
  providerFaultError,
  rejectedError,
  unfundedWalletError,
  waitError,
} from "./request-errors.ts";
import { anyModelLine, type Grant, Selector } from "./selection.ts";
import { outputTokensAtMost, type UsageBounds } from "./usage-check.ts";

/** How often a provider without a place for a job that the index or the chain gave it is asked again. */
const maxBusyRefusals = 1;

/** Whether another provider shall be tried. */
type Next = "again" | "over";

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
  await new RequestRun(context, request, record, sink, signal).run();
}

class RequestRun {
  readonly #context: RequestContext;
  readonly #request: JobRequest;
  readonly #record: JobRecord;
  readonly #sink: AnswerSink;
  readonly #signal: AbortSignal;
  readonly #selector: Selector;
  #waitedMs = 0;
  /** Jobs that came onto the chain. */
  #jobs = 0;
  readonly #posting: JobPosting;
  /** The newest failure of a provider: what the client is told when nobody is left. */
  #failure: T4tError | undefined;
  /** Ms from the first content to the end of the newest answer. */
  #generatingMs: number | undefined;
  readonly #busyRefusals = new Map<Address, number>();
  /** The first provider that called the request itself wrong: believed only when a second one says so too. */
  #rejection:
    | {
        readonly error: T4tError;
        readonly lease: Lease;
        readonly durationMs: number;
        readonly isOfContext: boolean;
      }
    | undefined;

  constructor(context: RequestContext, request: JobRequest, record: JobRecord, sink: AnswerSink, signal: AbortSignal) {
    this.#context = context;
    this.#request = request;
    this.#record = record;
    this.#sink = sink;
    this.#signal = signal;
    this.#selector = new Selector(context, request);
    this.#posting = new JobPosting({
      context,
      request,
      record,
      tell: (event) => this.#tell(event),
      leftMs: () => this.#leftMs,
    });
  }

  async run(): Promise<void> {
    try {
      this.#tell({ type: "selecting_provider", model: this.#model });
      for (let next: Next = "again"; next === "again"; ) next = await this.#turn();
    } catch (error) {
      this.#fail(
        error instanceof T4tError
          ? error
          : new T4tError("internal_error", "The gateway failed to handle the request.", { cause: error }),
      );
    } finally {
      // Nobody else answered it: the word of the one stands, and costs it nothing.
      this.#endRejection("caller");
      this.#record.active = false;
      // A request that nobody was asked for leaves nothing to remember, and may come by the thousand.
      if (this.#record.document.attempts.length > 0 || this.#record.document.source === "jobs") {
        this.#record.saveLater();
      }
    }
  }

  get #model(): string {
    return this.#request.completion.modelId ?? "auto";
  }

  get #leftMs(): number {
    return this.#request.budgetMs - (this.#context.clock.monotonic() - this.#request.arrivedAt);
  }

  #tell(event: ProgressEvent): void {
    this.#record.progress(event);
    this.#sink.progress(event);
  }

  /** One round: wait for capacity, post, ask. */
  async #turn(): Promise<Next> {
    if (this.#leftMs <= 0) return this.#giveUp(this.#failure ?? deadlineError());
    if (this.#jobs >= this.#context.limits.maxAttempts) return this.#giveUp(this.#failure ?? deadlineError());
    if (this.#context.published() === undefined) return this.#giveUp(chainUnavailableError());
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
          this.#giveBack(outcome.grant, "aborted");
          return this.#gone();
        }
        return await this.#serve(outcome.grant);
      case "aborted":
        return this.#gone();
      case "none":
        return this.#giveUp(this.#nobodyError());
      default:
        // A request that nobody could serve any better than the one that failed is told of the failure, not of the line.
        return this.#giveUp(
          outcome.kind === "timeout" && this.#leftMs <= 0
            ? (this.#failure ?? deadlineError())
            : waitError(outcome, this.#request.completion.modelId, this.#selector.last),
        );
    }
  }

  async #capacity(): Promise<WaitOutcome<Grant>> {
    const { lines, observer, statistics } = this.#context;
    const { completion, sequence, waitLimitMs } = this.#request;
    // A second opinion is asked of a provider that is free, and never waited for.
    const limitMs =
      this.#rejection === undefined ? Math.min(waitLimitMs, this.#waitedMs + Math.max(0, this.#leftMs)) : 0;
    const outcome = await lines.enter({
      line: completion.modelId ?? anyModelLine,
      sequence,
      needs: this.#selector.needs(),
      take: () => this.#selector.take(),
      onWaiting: (state) =>
        this.#tell({
          type: "waiting_for_capacity",
          model: this.#model,
          busyProviders: this.#selector.last?.busyCount ?? 0,
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
      const last = this.#selector.look();
      if (last === undefined) return outcome;
      const decision = decisionRecord(last, statistics);
      observer.decided(this.#request.requestId, last, decision);
      // There is no job to keep it with.
      this.#record.decided(decision);
    }
    return outcome;
  }

  #nobodyError(): T4tError {
    if (this.#selector.overEscrowLimit) return escrowLimitError();
    if (this.#failure !== undefined) return this.#failure;
    const { last } = this.#selector;
    return last === undefined ? chainUnavailableError() : noCandidateError(this.#request.completion, last);
  }

  async #serve(grant: Grant): Promise<Next> {
    const { plan, selection } = grant;
    const first = plan.candidates[0];
    if (first === undefined) return this.#giveUp(this.#nobodyError());
    this.#tell({
      type: "provider_selected",
      model: plan.modelId,
      provider: first.provider,
      policy: selection.policy,
      reason: selection.reason,
    });
    let posted: Posted;
    const posting = this.#context.clock.monotonic();
    try {
      posted = await this.#posting.post(plan);
    } catch (error) {
      this.#giveBack(grant, "aborted");
      throw error;
    }
    this.#context.observer.step("post", this.#context.clock.monotonic() - posting);
    if (posted.outcome.kind !== "posted") {
      this.#giveBack(grant, "busy");
      return this.#notPosted(posted.outcome, plan);
    }
    const { outcome, jobId } = posted;
    grant.post.mined(outcome.provider, outcome.blockNumber);
    this.#context.posted();
    const candidate = candidateOf(plan, outcome.provider) ?? { ...first, provider: outcome.provider };
    const lease = this.#leaseFor(grant, candidate);
    this.#jobs += 1;
    this.#record.updateAttempt(jobId, {
      state: "posted",
      provider: candidate.provider,
      endpoint: candidate.endpoint,
      postTransaction: outcome.transactionHash,
      postBlock: outcome.blockNumber,
      postedAt: this.#context.clock.now(),
      bounds: this.#boundsAt(candidate),
      decision: grant.decision,
    });
    this.#tell({
      type: "job_posted",
      jobId,
      provider: candidate.provider,
      maxPayment: String(plan.maxPayment),
      transactionHash: outcome.transactionHash,
      blockNumber: outcome.blockNumber,
    });
    try {
      return this.#signal.aborted
        ? await this.#handBack(jobId, candidate, lease, outcome.blockNumber)
        : await this.#ask(jobId, candidate, lease, outcome.blockNumber);
    } catch (error) {
      // A fault of our own: the provider does not count as loaded by it for ever.
      lease.end({ outcome: "aborted", durationMs: 0 });
      throw error;
    }
  }

  /** The client went while its job was posted. */
  async #handBack(jobId: Hex, candidate: Candidate, lease: Lease, blockNumber: number): Promise<Next> {
    this.#record.updateAttempt(jobId, { state: "abandoned" });
    this.#gone();
    this.#record.saveSoon();
    const endpoint = parseEndpoint(candidate.endpoint, this.#context.allowPrivateEndpoints);
    if (typeof endpoint !== "string") {
      this.#record.updateAttempt(jobId, { sent: true });
      const { result, asked, requestHash } = await handBack(this.#context, {
        request: this.#request,
        jobId,
        candidate,
        endpoint,
        blockNumber,
      });
      if (result.kind !== "refused") {
        const atMost = {
          inputTokens: inputBoundAt(asked, candidate.contextLength),
          outputTokens: outputTokensAtMost(result),
        };
        const partial = { atMost, at: this.#context.clock.now() };
        this.#record.updateAttempt(jobId, { requestHash, bounds: atMost, partial });
        this.#context.settlement.agreeOnPart(this.#record, jobId, this.#signers(candidate.provider));
      }
    }
    lease.end({ outcome: "aborted", durationMs: 0 });
    return "over";
  }

  /** The place that was held at the first candidate moves to the one that the chain chose. */
  #leaseFor(grant: Grant, candidate: Candidate): Lease {
    if (grant.lease.provider === candidate.provider) return grant.lease;
    grant.lease.end({ outcome: "busy", durationMs: 0 });
    const { inputTokensEstimate } = this.#request.completion;
    return this.#context.statistics.acquire(
      candidate.provider,
      candidate.generation,
      candidate.modelId,
      inputTokensEstimate,
    );
  }

  #giveBack(grant: Grant, outcome: StreamOutcome): void {
    grant.post.drop();
    grant.lease.end({ outcome, durationMs: 0 });
    this.#context.lines.capacityFreed(this.#request.completion.modelId ?? anyModelLine);
  }

  // ------------------------------------------------------------------------------------------------------------ posting

  async #notPosted(outcome: Exclude<PostOutcome, { kind: "posted" }>, plan: EscrowPlan): Promise<Next> {
    if (this.#signal.aborted) return this.#gone();
    switch (outcome.kind) {
      case "refused":
        for (const [provider, refusal] of outcome.refusals) this.#noteRefusal(provider, refusal);
        return "again";
      case "insufficient_balance":
        // Without gas no tokens of the wallet come into the escrow: to name them alone would send the operator after the wrong thing.
        if (!(await this.#context.hasGas())) return this.#giveUp(unfundedWalletError());
        return this.#giveUp(insufficientBalanceError(outcome.required, outcome.free));
      case "abandoned":
        if (!outcome.undecided && !(await this.#context.hasGas())) return this.#giveUp(unfundedWalletError());
        return this.#giveUp(chainUnavailableError(new Error(outcome.message)));
      case "bad_deadline":
        return this.#giveUp(chainUnavailableError(new Error(`deadline out of bounds for ${plan.modelId}`)));
      case "failed":
        return this.#giveUp(chainUnavailableError(new Error(`${outcome.errorName ?? "revert"}: ${outcome.message}`)));
    }
  }

  /** What the chain said of a candidate, for the next selection. None of it costs a provider anything. */
  #noteRefusal(provider: Address, refusal: PostRefusal): void {
    const { statistics, limits } = this.#context;
    if (refusal === "full") {
      statistics.fullOnChain(provider, this.#context.published()?.snapshot.version ?? 0, limits.fullForMs);
      return;
    }
    const times = (this.#busyRefusals.get(provider) ?? 0) + 1;
    this.#busyRefusals.set(provider, times);
    if (refusal === "low_stake" && times <= maxBusyRefusals) {
      // Its other jobs hold the stake; it comes free with them.
      statistics.fullAtNode(provider, limits.fullForMs);
      return;
    }
    this.#selector.tried.add(provider);
    this.#failure = noTakerError();
  }

  // ------------------------------------------------------------------------------------------------------------- asking

  async #ask(jobId: Hex, candidate: Candidate, lease: Lease, blockNumber: number): Promise<Next> {
    const { clock, observer } = this.#context;
    const endpoint = parseEndpoint(candidate.endpoint, this.#context.allowPrivateEndpoints);
    if (typeof endpoint === "string") {
      lease.end({ outcome: "fault", durationMs: 0 });
      return this.#providerFailed(jobId, candidate.provider, `endpoint_${endpoint}`, false);
    }
    const { call, requestHash } = await providerCall(this.#context, {
      request: this.#request,
      jobId,
      candidate,
      endpoint,
      blockNumber,
      leftMs: this.#leftMs,
      chunkId: this.#sink.chunkId,
      signal: this.#signal,
    }).catch((error: unknown): never => {
      // Our own fault: the provider was never asked, so it neither counts as loaded nor keeps the job.
      lease.end({ outcome: "aborted", durationMs: 0 });
      this.#record.updateAttempt(jobId, { state: "abandoned" });
      throw error;
    });
    this.#record.updateAttempt(jobId, { sent: true, requestHash });
    const sentAt = clock.monotonic();
    let acknowledgedAt = sentAt;
    let firstByteAt: number | undefined;
    const listener: ProviderAnswerListener = {
      acknowledged: (acknowledgement) => {
        acknowledgedAt = clock.monotonic();
        observer.step("acknowledge", acknowledgedAt - sentAt);
        this.#record.updateAttempt(jobId, { state: "acknowledged", acknowledgement });
        this.#record.saveLater();
        this.#tell({ type: "provider_acked", jobId, provider: candidate.provider });
      },
      start: () => {
        firstByteAt = clock.monotonic();
        observer.step("first_byte", firstByteAt - acknowledgedAt);
        lease.firstToken(firstByteAt - sentAt);
        observer.firstByte(candidate.modelId, firstByteAt - this.#request.arrivedAt, firstByteAt - sentAt);
        this.#sink.start(this.#head(jobId, candidate));
      },
      write: (bytes) => this.#sink.write(bytes),
      onDrain: (callback) => this.#sink.onDrain(callback),
      done: () => this.#sink.end(),
    };
    let result = await askProvider(call, listener);
    // An idle connection that the provider closed says nothing of the provider; the job id keeps it from running twice.
    if (result.kind === "fault" && result.staleConnection) result = await askProvider(call, listener);
    const endedAt = clock.monotonic();
    if (firstByteAt !== undefined) {
      this.#generatingMs = endedAt - firstByteAt;
      observer.step("deliver", endedAt - firstByteAt);
    }
    return await this.#answered(jobId, candidate, lease, result, endedAt - sentAt);
  }

  #head(jobId: Hex, { provider, modelId }: Candidate): AnswerHead {
    return { jobId, provider, modelId, decision: this.#record.attempt(jobId)?.decision };
  }

  #signers(provider: Address): ProviderSigners {
    return signersOf(this.#context, provider);
  }

  async #answered(
    jobId: Hex,
    candidate: Candidate,
    lease: Lease,
    result: ProviderResult,
    durationMs: number,
  ): Promise<Next> {
    const bounds = this.#boundsAt(candidate);
    switch (result.kind) {
      case "delivered": {
        // An answer proves the first wrong, but not one that lacked the context which this one has.
        this.#endRejection(this.#rejection?.isOfContext === true ? "caller" : "fault");
        if (result.body !== undefined) this.#sink.answer(this.#head(jobId, candidate), result.body);
        const usage = await this.#agreed(jobId, candidate, result, bounds);
        lease.end({
          outcome: "success",
          durationMs,
          ...(usage === undefined ? {} : { outputTokens: usage.outputTokens }),
        });
        if (usage !== undefined) this.#context.observer.delivered(candidate.modelId, usage, this.#generatingMs);
        const keep = this.#record.document.source === "jobs" && result.body !== undefined;
        this.#record.finish({ status: "completed" }, keep ? result.body.toString("utf8") : null);
        return "over";
      }
      case "refused":
        return this.#refused(jobId, candidate, lease, result.refusal, durationMs);
      case "aborted":
        lease.end({ outcome: "aborted", durationMs });
        this.#record.updateAttempt(jobId, {
          state: "abandoned",
          partial: this.#partial(bounds, result),
        });
        this.#context.settlement.agreeOnPart(this.#record, jobId, this.#signers(candidate.provider));
        return this.#gone();
      case "fault": {
        lease.end({ outcome: "fault", durationMs, acknowledged: result.acknowledged });
        if (result.reason === "closed_address") {
          this.#context.statistics.refuseEndpoint(candidate.provider, candidate.endpoint);
        }
        if (!result.started) {
          this.#failure = providerFaultError(result.reason, result.timedOut, false);
          // One that went as it had announced is not held to be broken: the request may wait until it is back.
          const hasLeft = !result.acknowledged && this.#context.statistics.isDraining(candidate.provider);
          return this.#providerFailed(jobId, candidate.provider, result.reason, result.acknowledged, !hasLeft);
        }
        this.#endRejection(this.#rejection?.isOfContext === true ? "caller" : "fault");
        this.#context.observer.attemptFailed(jobId, candidate.provider, result.reason);
        this.#record.updateAttempt(jobId, {
          state: "abandoned",
          fault: true,
          partial: this.#partial(bounds, result),
        });
        this.#context.settlement.agreeOnPart(this.#record, jobId, this.#signers(candidate.provider));
        return this.#fail(providerFaultError(result.reason, result.timedOut, true));
      }
    }
  }

  /** Agrees on a whole answer. A journal that fails now takes nothing from a client that has its answer: the janitor goes on with it. */
  async #agreed(
    jobId: Hex,
    candidate: Candidate,
    delivered: Extract<ProviderResult, { kind: "delivered" }>,
    bounds: UsageBounds,
  ): Promise<Usage | undefined> {
    try {
      return await this.#context.settlement.delivered(this.#record, jobId, {
        signers: this.#signers(candidate.provider),
        delivered,
        bounds,
        streamed: this.#request.completion.stream,
      });
    } catch {
      // Tries to write once more, and tells the operator when that fails too.
      this.#record.saveSoon();
      return this.#record.attempt(jobId)?.usage;
    }
  }

  #boundsAt(candidate: Candidate): UsageBounds {
    const { completion } = this.#request;
    return {
      inputTokens: inputBoundAt(completion, candidate.contextLength),
      outputTokens: outputBoundAt(completion, candidate.contextLength, this.#context.escrow()),
    };
  }

  #partial(bounds: UsageBounds, seen: Seen): PartialObservation {
    const outputTokens = seen.started ? Math.min(bounds.outputTokens, outputTokensAtMost(seen)) : bounds.outputTokens;
    return { atMost: { inputTokens: bounds.inputTokens, outputTokens }, at: this.#context.clock.now() };
  }

  #refused(
    jobId: Hex,
    candidate: Candidate,
    lease: Lease,
    refusal: Extract<ProviderResult, { kind: "refused" }>["refusal"],
    durationMs: number,
  ): Next {
    const { statistics, limits } = this.#context;
    const { completion } = this.#request;
    const { provider } = candidate;
    switch (refusal.kind) {
      case "rejected":
        this.#failure = rejectedError(refusal, completion.kind);
        if (this.#rejection !== undefined) {
          lease.end({ outcome: "caller", durationMs });
          this.#record.updateAttempt(jobId, { state: "abandoned" });
          return this.#fail(this.#failure);
        }
        const isOfContext =
          this.#failure.code === "context_length_exceeded" &&
          mayExceedContext(completion, candidate.contextLength, this.#context.escrow());
        this.#rejection = { error: this.#failure, lease, durationMs, isOfContext };
        // Nobody with as little context will find it any shorter: another job would only cost two more transactions.
        if (isOfContext) this.#selector.contextTooShort(candidate.contextLength);
        return this.#providerFailed(jobId, provider, refusal.code, false);
      case "busy": {
        lease.end({ outcome: "busy", durationMs });
        const isDraining = refusal.code === "provider_draining";
        const times = (this.#busyRefusals.get(provider) ?? 0) + 1;
        this.#busyRefusals.set(provider, times);
        // A node that has no place although the chain gave it the job is asked once more later, then left alone.
        if (times > maxBusyRefusals) this.#selector.tried.add(provider);
        if (isDraining) statistics.noteDraining(provider);
        else statistics.fullAtNode(provider, limits.fullForMs);
        this.#failure = new T4tError("server_is_overloaded", "The provider had no place for the request.", {
          retryAfterSeconds: 5,
        });
        return this.#providerFailed(jobId, provider, refusal.code, false, false);
      }
      case "mismatch":
        // Ours or its own, nobody can say of one: but of a provider with which it is the rule, others are the better choice.
        lease.end({ outcome: "fault", durationMs });
        this.#failure = providerFaultError(refusal.code, false, false);
        return this.#providerFailed(jobId, provider, refusal.code, false);
      case "fault":
        lease.end({ outcome: "fault", durationMs });
        this.#failure = providerFaultError(refusal.code, refusal.code === "backend_timeout", false);
        return this.#providerFailed(jobId, provider, refusal.code, false);
    }
  }

  /** Whether the provider that rejected the request was right shows when another one has, or has not, answered it. */
  #endRejection(outcome: "caller" | "fault"): void {
    this.#rejection?.lease.end({ outcome, durationMs: this.#rejection.durationMs });
    this.#rejection = undefined;
  }

  /** This provider will not answer; its job is given up and another one is tried. */
  #providerFailed(jobId: Hex, provider: Address, reason: string, brokeItsWord: boolean, tried = true): Next {
    if (tried) this.#selector.tried.add(provider);
    this.#failure ??= providerFaultError(reason, false, false);
    this.#context.observer.attemptFailed(jobId, provider, reason);
    this.#record.updateAttempt(jobId, { state: "abandoned", ...(brokeItsWord ? { fault: true } : {}) });
    this.#record.saveSoon();
    this.#tell({ type: "provider_failed", provider, code: reason, message: this.#failure.message });
    this.#context.lines.capacityFreed(this.#request.completion.modelId ?? anyModelLine);
    return "again";
  }

  // -------------------------------------------------------------------------------------------------------------- ends

  /** Nobody is left to ask. Of a provider that called the request wrong, and that nobody has contradicted, the word stands. */
  #giveUp(error: T4tError): Next {
    return this.#fail(this.#rejection?.error ?? error);
  }

  #fail(error: T4tError): Next {
    this.#closeUnposted();
    this.#record.finish({ status: "failed", code: error.code, message: error.message });
    this.#sink.fail(error, decisionOf(this.#record.document));
    return "over";
  }

  #gone(): Next {
    this.#closeUnposted();
    this.#record.finish({ status: "cancelled", code: "cancelled", message: "The client closed the connection." });
    return "over";
  }

  /** An attempt that never came to a post has nothing on chain: its last transaction was refused, or never made. */
  #closeUnposted(): void {
    const last = this.#record.document.attempts.at(-1);
    if (last?.state === "posting" && !this.#posting.undecided) {
      this.#record.updateAttempt(last.jobId, { state: "not_posted" });
    }
  }
}
