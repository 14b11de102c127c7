import type { Hex } from "viem";
import { T4tError } from "../../protocol/errors.ts";
import type { Usage } from "../../protocol/usage.ts";
import { setMember } from "../relay/set-member.ts";
import type { Lease } from "../routing/statistics/routing-statistics.ts";
import type { Candidate } from "../routing/types.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import type { AnswerHead, AnswerSink } from "./answer-sink.ts";
import { mayExceedContext } from "./escrow-plan.ts";
import type { PartialObservation } from "./job-document.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import { maxBusyRefusals, type Next, type OpenRequest } from "./open-request.ts";
import { askProvider, type ProviderAnswerListener, type ProviderResult, type Seen } from "./provider-answer.ts";
import { providerCall } from "./provider-call.ts";
import { type RequestContext, signersOf } from "./request-context.ts";
import { providerFaultError, rejectedError } from "./request-errors.ts";
import { firstHorizon, nextHorizon, outputTokensAtMost, type UsageBounds } from "./usage-check.ts";

/** Asks the providers of one request's jobs, and judges what comes of it: an answer, or whether another is tried. */
export class ProviderInquiry {
  readonly #open: OpenRequest;
  readonly #context: RequestContext;
  readonly #request: JobRequest;
  readonly #record: JobRecord;
  readonly #sink: AnswerSink;
  readonly #signal: AbortSignal;
  /** Ms from the first content to the end of the newest answer. */
  #generatingMs: number | undefined;

  constructor(open: OpenRequest) {
    this.#open = open;
    this.#context = open.context;
    this.#request = open.request;
    this.#record = open.record;
    this.#sink = open.sink;
    this.#signal = open.signal;
  }

  /**
   * Asks the provider of a posted job and relays its answer. `unheard`: the client went before the provider had heard of the request,
   * and the lease is the caller's. Rejects for a fault of our own: then the caller ends the lease too.
   */
  async ask(jobId: Hex, candidate: Candidate, lease: Lease, blockNumber: number): Promise<Next | "unheard"> {
    const { clock, observer } = this.#context;
    const endpoint = parseEndpoint(candidate.endpoint, this.#context.allowPrivateEndpoints);
    if (typeof endpoint === "string") {
      lease.end({ outcome: "fault", durationMs: 0 });
      return this.#open.providerFailed(jobId, candidate.provider, `endpoint_${endpoint}`, false);
    }
    const { call, requestHash } = await providerCall(this.#context, {
      request: this.#request,
      jobId,
      candidate,
      endpoint,
      blockNumber,
      leftMs: this.#open.leftMs,
      chunkId: this.#sink.chunkId,
      signal: this.#signal,
    }).catch((error: unknown): never => {
      // Our own fault: the provider was never asked, so it neither counts as loaded nor keeps the job.
      lease.end({ outcome: "aborted", durationMs: 0 });
      this.#record.updateAttempt(jobId, { state: "abandoned" });
      throw error;
    });
    let horizon = firstHorizon;
    const isSeen = this.#request.completion.stream;
    this.#record.updateAttempt(jobId, { sent: true, requestHash, ...(isSeen ? { outputHorizon: horizon } : {}) });
    const sentAt = clock.monotonic();
    let acknowledgedAt = sentAt;
    let firstByteAt: number | undefined;
    const listener: ProviderAnswerListener = {
      acknowledged: (acknowledgement) => {
        acknowledgedAt = clock.monotonic();
        observer.step("acknowledge", acknowledgedAt - sentAt);
        this.#record.updateAttempt(jobId, { state: "acknowledged", acknowledgement });
        this.#record.saveLater();
        this.#open.tell({ type: "provider_acked", jobId, provider: candidate.provider });
      },
      start: () => {
        firstByteAt = clock.monotonic();
        observer.step("first_byte", firstByteAt - acknowledgedAt);
        lease.firstToken(firstByteAt - sentAt);
        observer.firstByte(candidate.modelId, firstByteAt - this.#request.arrivedAt, firstByteAt - sentAt);
        this.#sink.start(this.#head(jobId, candidate));
      },
      seen: (stream) => {
        const next = nextHorizon(horizon, outputTokensAtMost(stream));
        if (next === undefined) return;
        horizon = next;
        this.#record.updateAttempt(jobId, { outputHorizon: next });
        this.#record.saveLater();
      },
      write: (bytes) => this.#sink.write(bytes),
      onDrain: (callback) => this.#sink.onDrain(callback),
      done: () => this.#sink.end(),
    };
    let result = await askProvider(call, listener);
    // An idle connection that the provider closed says nothing of the provider; the job id keeps it from running twice.
    if (result.kind === "fault" && result.staleConnection) result = await askProvider(call, listener);
    if (result.kind === "aborted" && result.unsent) return "unheard";
    const endedAt = clock.monotonic();
    if (firstByteAt !== undefined) {
      this.#generatingMs = endedAt - firstByteAt;
      observer.step("deliver", endedAt - firstByteAt);
    }
    return await this.#answered(jobId, candidate, lease, result, endedAt - sentAt);
  }

  /** The answer to a client that named no model says which one served it, by the name that it can ask for. */
  #named(body: Buffer | undefined, { modelId }: Candidate): Buffer | undefined {
    if (body === undefined || this.#request.completion.modelId !== undefined) return body;
    return Buffer.from(setMember(body.toString("utf8"), "model", modelId));
  }

  #head(jobId: Hex, { provider, modelId }: Candidate): AnswerHead {
    return { jobId, provider, modelId, decision: this.#record.attempt(jobId)?.decision };
  }

  async #answered(
    jobId: Hex,
    candidate: Candidate,
    lease: Lease,
    result: ProviderResult,
    durationMs: number,
  ): Promise<Next> {
    const bounds = this.#open.boundsAt(candidate);
    switch (result.kind) {
      case "delivered": {
        // An answer proves the first wrong, but not one that lacked the context which this one has.
        this.#open.endRejection(this.#open.rejection?.isOfContext === true ? "caller" : "fault");
        const body = this.#named(result.body, candidate);
        if (body !== undefined) this.#sink.answer(this.#head(jobId, candidate), body);
        const usage = await this.#agreed(jobId, candidate, result, bounds);
        lease.end({
          outcome: "success",
          durationMs,
          ...(usage === undefined ? {} : { outputTokens: usage.outputTokens }),
        });
        if (usage !== undefined) this.#context.observer.delivered(candidate.modelId, usage, this.#generatingMs);
        const keep = this.#record.document.source === "jobs" && body !== undefined;
        this.#record.finish({ status: "completed" }, keep ? body.toString("utf8") : null);
        return "over";
      }
      case "refused":
        return this.#refused(jobId, candidate, lease, result.refusal, durationMs);
      case "aborted":
        lease.end({ outcome: "aborted", durationMs, streamed: this.#request.completion.stream });
        this.#record.updateAttempt(jobId, {
          state: "abandoned",
          partial: this.#partial(bounds, result),
        });
        this.#context.settlement.agreeOnPart(this.#record, jobId, signersOf(this.#context, candidate.provider));
        return this.#open.gone();
      case "fault": {
        lease.end({ outcome: "fault", durationMs, acknowledged: result.acknowledged });
        if (result.reason === "closed_address") {
          this.#context.statistics.refuseEndpoint(candidate.provider, candidate.endpoint);
        }
        if (!result.started) {
          this.#open.failure = providerFaultError(result.reason, result.timedOut, false);
          // One that went as it had announced is not held to be broken: the request may wait until it is back.
          const hasLeft = !result.acknowledged && this.#context.statistics.isDraining(candidate.provider);
          return this.#open.providerFailed(jobId, candidate.provider, result.reason, result.acknowledged, !hasLeft);
        }
        this.#open.endRejection(this.#open.rejection?.isOfContext === true ? "caller" : "fault");
        this.#context.observer.attemptFailed(jobId, candidate.provider, result.reason);
        this.#record.updateAttempt(jobId, {
          state: "abandoned",
          fault: true,
          partial: this.#partial(bounds, result),
        });
        this.#context.settlement.agreeOnPart(this.#record, jobId, signersOf(this.#context, candidate.provider));
        return this.#open.fail(providerFaultError(result.reason, result.timedOut, true));
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
        signers: signersOf(this.#context, candidate.provider),
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

  #partial(bounds: UsageBounds, seen: Seen): PartialObservation {
    // Of a stream every token is seen as it comes; of a JSON answer nothing before all of it is there.
    const isSeen = seen.started || this.#request.completion.stream;
    const outputTokens = isSeen ? Math.min(bounds.outputTokens, outputTokensAtMost(seen)) : bounds.outputTokens;
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
        this.#open.failure = rejectedError(refusal, completion.kind);
        if (this.#open.rejection !== undefined) {
          lease.end({ outcome: "caller", durationMs });
          this.#record.updateAttempt(jobId, { state: "abandoned" });
          return this.#open.fail(this.#open.failure);
        }
        const isOfContext =
          this.#open.failure.code === "context_length_exceeded" &&
          mayExceedContext(completion, candidate.contextLength, this.#context.escrow());
        this.#open.rejection = { error: this.#open.failure, lease, durationMs, isOfContext };
        // Nobody with as little context will find it any shorter: another job would only cost two more transactions.
        if (isOfContext) this.#open.selector.contextTooShort(candidate.contextLength);
        return this.#open.providerFailed(jobId, provider, refusal.code, false);
      case "busy": {
        lease.end({ outcome: "busy", durationMs });
        const isDraining = refusal.code === "provider_draining";
        const times = (this.#open.busyRefusals.get(provider) ?? 0) + 1;
        this.#open.busyRefusals.set(provider, times);
        // A node that has no place although the chain gave it the job is asked once more later, then left alone.
        if (times > maxBusyRefusals) this.#open.selector.tried.add(provider);
        if (isDraining) statistics.noteDraining(provider);
        else statistics.fullAtNode(provider, limits.fullForMs);
        this.#open.failure = new T4tError("server_is_overloaded", "The provider had no place for the request.", {
          retryAfterSeconds: 5,
        });
        return this.#open.providerFailed(jobId, provider, refusal.code, false, false);
      }
      case "mismatch":
        // Ours or its own, nobody can say of one: but of a provider with which it is the rule, others are the better choice.
        lease.end({ outcome: "fault", durationMs });
        this.#open.failure = providerFaultError(refusal.code, false, false);
        return this.#open.providerFailed(jobId, provider, refusal.code, false);
      case "fault":
        lease.end({ outcome: "fault", durationMs });
        this.#open.failure = providerFaultError(refusal.code, refusal.code === "backend_timeout", false);
        return this.#open.providerFailed(jobId, provider, refusal.code, false);
    }
  }
}
