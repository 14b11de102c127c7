import type { Address, Hex } from "viem";
import type { StreamOutcome } from "../routing/statistics/outcomes.ts";
import type { Lease } from "../routing/statistics/routing-statistics.ts";
import type { Candidate } from "../routing/types.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import type { PostOutcome, PostRefusal } from "./escrow-calls.ts";
import { candidateOf, type EscrowPlan, inputBoundAt } from "./escrow-plan.ts";
import { handBack } from "./hand-back.ts";
import type { Posted } from "./job-posting.ts";
import type { JobRecord } from "./job-record.ts";
import type { JobRequest } from "./job-request.ts";
import { maxBusyRefusals, type Next, type OpenRequest } from "./open-request.ts";
import { ProviderInquiry } from "./provider-inquiry.ts";
import { type RequestContext, signersOf } from "./request-context.ts";
import {
  chainUnavailableError,
  insufficientBalanceError,
  noTakerError,
  unfundedWalletError,
} from "./request-errors.ts";
import { anyModelLine, type Grant } from "./selection.ts";
import { outputTokensAtMost } from "./usage-check.ts";

/** The jobs of one request: each is posted for a place that was granted, and its provider asked. */
export class JobAttempts {
  readonly #open: OpenRequest;
  readonly #context: RequestContext;
  readonly #request: JobRequest;
  readonly #record: JobRecord;
  readonly #signal: AbortSignal;
  readonly #inquiry: ProviderInquiry;

  constructor(open: OpenRequest) {
    this.#open = open;
    this.#context = open.context;
    this.#request = open.request;
    this.#record = open.record;
    this.#signal = open.signal;
    this.#inquiry = new ProviderInquiry(open);
  }

  /** Posts a job for a granted place and asks the provider that the chain chose; gives the place back where no job came of it. */
  async serve(grant: Grant): Promise<Next> {
    const { plan, selection } = grant;
    const first = plan.candidates[0];
    if (first === undefined) return this.#open.giveUp(this.#open.nobodyError());
    this.#open.tell({
      type: "provider_selected",
      model: plan.modelId,
      provider: first.provider,
      policy: selection.policy,
      reason: selection.reason,
    });
    let posted: Posted;
    const posting = this.#context.clock.monotonic();
    try {
      posted = await this.#open.posting.post(plan);
    } catch (error) {
      this.giveBack(grant, "aborted");
      throw error;
    }
    this.#context.observer.step("post", this.#context.clock.monotonic() - posting);
    if (posted.outcome.kind !== "posted") {
      this.giveBack(grant, "busy");
      return this.#notPosted(posted.outcome, plan);
    }
    const { outcome, jobId } = posted;
    grant.post.mined(outcome.provider, outcome.blockNumber);
    this.#context.posted();
    const candidate = candidateOf(plan, outcome.provider) ?? { ...first, provider: outcome.provider };
    const lease = this.#leaseFor(grant, candidate);
    this.#open.jobs += 1;
    this.#record.updateAttempt(jobId, {
      state: "posted",
      provider: candidate.provider,
      endpoint: candidate.endpoint,
      postTransaction: outcome.transactionHash,
      postBlock: outcome.blockNumber,
      postedAt: this.#context.clock.now(),
      bounds: this.#open.boundsAt(candidate),
      decision: grant.decision,
    });
    this.#open.tell({
      type: "job_posted",
      jobId,
      provider: candidate.provider,
      maxPayment: String(plan.maxPayment),
      transactionHash: outcome.transactionHash,
      blockNumber: outcome.blockNumber,
    });
    try {
      const next = this.#signal.aborted
        ? "unheard"
        : await this.#inquiry.ask(jobId, candidate, lease, outcome.blockNumber);
      return next === "unheard" ? await this.#handBack(jobId, candidate, lease, outcome.blockNumber) : next;
    } catch (error) {
      // A fault of our own: the provider does not count as loaded by it for ever.
      lease.end({ outcome: "aborted", durationMs: 0 });
      throw error;
    }
  }

  /** Lets go of a place that no job came of, for whoever is next in line. */
  giveBack(grant: Grant, outcome: StreamOutcome): void {
    grant.post.drop();
    grant.lease.end({ outcome, durationMs: 0 });
    this.#context.lines.capacityFreed(this.#request.completion.modelId ?? anyModelLine);
  }

  /** The client went before the provider had heard of its job. */
  async #handBack(jobId: Hex, candidate: Candidate, lease: Lease, blockNumber: number): Promise<Next> {
    this.#record.updateAttempt(jobId, { state: "abandoned" });
    this.#open.gone();
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
        this.#context.settlement.agreeOnPart(this.#record, jobId, signersOf(this.#context, candidate.provider));
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

  async #notPosted(outcome: Exclude<PostOutcome, { kind: "posted" }>, plan: EscrowPlan): Promise<Next> {
    if (this.#signal.aborted) return this.#open.gone();
    switch (outcome.kind) {
      case "refused":
        for (const [provider, refusal] of outcome.refusals) this.#noteRefusal(provider, refusal);
        return "again";
      case "insufficient_balance":
        // Without gas no tokens of the wallet come into the escrow: to name them alone would send the operator after the wrong thing.
        if (!(await this.#context.hasGas())) return this.#open.giveUp(unfundedWalletError());
        return this.#open.giveUp(insufficientBalanceError(outcome.required, outcome.free));
      case "abandoned":
        if (!outcome.undecided && !(await this.#context.hasGas())) return this.#open.giveUp(unfundedWalletError());
        return this.#open.giveUp(chainUnavailableError(new Error(outcome.message)));
      case "bad_deadline":
        return this.#open.giveUp(chainUnavailableError(new Error(`deadline out of bounds for ${plan.modelId}`)));
      case "failed":
        return this.#open.giveUp(
          chainUnavailableError(new Error(`${outcome.errorName ?? "revert"}: ${outcome.message}`)),
        );
    }
  }

  /** What the chain said of a candidate, for the next selection. None of it costs a provider anything. */
  #noteRefusal(provider: Address, refusal: PostRefusal): void {
    const { statistics, limits } = this.#context;
    if (refusal === "full") {
      statistics.fullOnChain(provider, this.#context.published()?.snapshot.version ?? 0, limits.fullForMs);
      return;
    }
    const times = (this.#open.busyRefusals.get(provider) ?? 0) + 1;
    this.#open.busyRefusals.set(provider, times);
    if (refusal === "low_stake" && times <= maxBusyRefusals) {
      // Its other jobs hold the stake; it comes free with them.
      statistics.fullAtNode(provider, limits.fullForMs);
      return;
    }
    this.#open.selector.tried.add(provider);
    this.#open.failure = noTakerError();
  }
}
