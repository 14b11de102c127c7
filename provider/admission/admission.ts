import type { Hex } from "viem";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import type { Clock } from "../../protocol/clock.ts";
import { authorizationDigest } from "../../protocol/message-digest.ts";
import { modelKeyOf } from "../../protocol/model-key.ts";
import type { Prices } from "../../protocol/money.ts";
import type { ProviderErrorCode } from "../../protocol/wire.ts";
import type { Backend } from "../upstream/backends.ts";
import { ProviderError } from "../errors.ts";
import { type JobReader, readPostedJob } from "../escrow/job-reader.ts";
import type { OnChainJob } from "../escrow/on-chain-job.ts";
import type { OfferingConfig } from "../settings/endpoints-source.ts";
import type { ProviderJob } from "../settlement/job.ts";
import type { JobBook } from "../settlement/job-book.ts";
import type { ProviderSigner } from "../signer.ts";
import type { ClientSignatures } from "./client-signature.ts";
import { type CompletionRequest, readCompletionRequest } from "./completion-request.ts";
import { checkAuthorizationTime, checkJob, paidOutputTokens } from "./decide.ts";
import type { JobHeaders } from "./request-headers.ts";
import type { SlotLease, Slots } from "./slots.ts";

/** A job that this node has bound itself to: acknowledged, journaled, with a slot. The holder must release the lease. */
export interface AdmittedJob {
  readonly jobId: Hex;
  readonly job: ProviderJob;
  readonly request: CompletionRequest;
  readonly body: Buffer;
  readonly offering: OfferingConfig;
  readonly backend: Backend;
  readonly acknowledgement: Hex;
  /** Bound to lay down for the backend where the request sets none; undefined: none is needed. */
  readonly maxOutputTokens: number | undefined;
  readonly lease: SlotLease;
}

/** Options of `Admission`. */
export interface AdmissionOptions {
  readonly book: JobBook;
  readonly slots: Slots;
  readonly reader: JobReader;
  readonly signatures: ClientSignatures;
  readonly signer: ProviderSigner;
  readonly clock: Clock;
  /** The offering of a model in the configuration in force. */
  readonly offeringOf: (model: string) => OfferingConfig | undefined;
  readonly backendOf: (name: string) => Backend | undefined;
  /** Prices of one of our own offering records, with its model. */
  readonly recordOf: (offeringId: number) => { readonly modelKey: Hex; readonly prices: Prices } | undefined;
  /** How far chain time runs ahead of the clock, ms. */
  readonly aheadMs: () => number;
  /** Newest block that this node has seen. */
  readonly block: () => number | undefined;
  readonly isDraining: () => boolean;
  readonly maxAuthorizationSeconds: number;
  /** Least time to the deadline for a new job. */
  readonly minRemainingSeconds: number;
}

/** How long a job that our node of the chain does not know yet is asked for. */
const jobPatienceMs = 2_500;
/** How long, when we have seen blocks after the one that the gateway says it is in. */
const pastJobPatienceMs = 250;
/** Refusals of one of our jobs, asked for by its client, after which no request can be expected for it. */
const isGivenBack: ReadonlySet<ProviderErrorCode> = new Set([
  "backend_unavailable",
  "provider_busy",
  "provider_draining",
  "insufficient_payment",
  "deadline_too_close",
]);
/** Chain reads of admission at once: strangers can cause them. */
const maxReads = 64;

/**
 * Decides whether this node runs a request. Cheap checks come first; the chain is not asked before the request is well-formed, and
 * nothing that a stranger names is called before the chain has confirmed the job.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  #reads = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Checks that need no body. Throws `ProviderError`. */
  precheck(headers: JobHeaders): void {
    const { isDraining, clock, maxAuthorizationSeconds } = this.#options;
    if (isDraining()) throw new ProviderError("provider_draining", "the provider is shutting down");
    checkAuthorizationTime(headers.expiresAt, clock.now() / 1000, maxAuthorizationSeconds);
  }

  /**
   * Admits a request: all checks, then the slot, then the signed and journaled acknowledgement.
   *
   * @param signal Aborts when the gateway has gone.
   * @throws ProviderError with the reason of the refusal; nothing is held then.
   */
  async admit(headers: JobHeaders, body: Buffer, signal: AbortSignal): Promise<AdmittedJob> {
    const { book, offeringOf } = this.#options;
    const requestHash = bodyHash(body);
    const request = readCompletionRequest(body);
    const offering = offeringOf(request.model);
    if (offering === undefined) {
      throw new ProviderError("model_not_offered", "the provider does not offer this model", { param: "model" });
    }
    // Only what is in memory: the chain tells of jobs that ended, and the journal refuses whatever was begun before.
    const known = book.peek(headers.jobId);
    if (known !== undefined && known.stage !== "posted") throw alreadyStarted();
    const onChain = await this.#readJob(headers, signal);
    if (onChain === undefined) throw new ProviderError("job_not_found", "the chain does not know the job");
    await this.#checkSignature(onChain, headers, requestHash);
    const { backend, lease } = await this.#place(onChain, request, offering);
    try {
      const acknowledgement = await this.#options.signer.acknowledge(headers.jobId, requestHash);
      const job = await this.#record(onChain, request.model, requestHash, acknowledgement);
      const maxOutputTokens = paidOutputTokens(request, onChain, offering.contextLength);
      return {
        jobId: headers.jobId,
        job,
        request,
        body,
        offering,
        backend,
        acknowledgement,
        maxOutputTokens,
        lease,
      };
    } catch (error) {
      lease.release();
      throw error;
    }
  }

  /**
   * The backend and the slot for a job whose client asks for it. A job that cannot have them, or that does not pay for its request, is
   * given back at once: the client gets its money, and nobody else is kept out of a slot by a job that is not served.
   */
  async #place(
    job: OnChainJob,
    request: CompletionRequest,
    offering: OfferingConfig,
  ): Promise<{ readonly backend: Backend; readonly lease: SlotLease }> {
    const { slots, backendOf, isDraining } = this.#options;
    try {
      this.#check(job, request, offering);
      const backend = backendOf(offering.backend);
      if (backend === undefined || backend.health.isDown) {
        throw new ProviderError("backend_unavailable", "the backend of this model is down");
      }
      if (isDraining()) throw new ProviderError("provider_draining", "the provider is shutting down");
      const lease = slots.acquire(offering.backend);
      if (lease === undefined) throw new ProviderError("provider_busy", "all slots of the provider are taken");
      return { backend, lease };
    } catch (error) {
      if (error instanceof ProviderError && isGivenBack.has(error.code)) {
        await this.#giveBack(job, request.model, error.code);
      }
      throw error;
    }
  }

  async #readJob(headers: JobHeaders, signal: AbortSignal): Promise<OnChainJob | undefined> {
    const { reader, clock, block } = this.#options;
    const isPast = headers.blockNumber !== undefined && headers.blockNumber < BigInt(block() ?? 0);
    const patienceMs = isPast ? pastJobPatienceMs : jobPatienceMs;
    if (this.#reads >= maxReads) throw new ProviderError("provider_busy", "too many jobs are being checked");
    this.#reads += 1;
    try {
      return await readPostedJob(reader, clock, headers.jobId, patienceMs, signal);
    } catch (error) {
      throw chainFailure(error);
    } finally {
      this.#reads -= 1;
    }
  }

  async #checkSignature(job: OnChainJob, headers: JobHeaders, requestHash: Hex): Promise<void> {
    const { signatures, signer } = this.#options;
    const { jobId, expiresAt, signature } = headers;
    const digest = authorizationDigest(signer.domain, { jobId, requestHash, expiresAt });
    let isByClient: boolean;
    try {
      isByClient = await signatures.isBy(job.client, digest, signature);
    } catch (error) {
      throw chainFailure(error);
    }
    if (!isByClient) throw new ProviderError("invalid_authorization", "the job's client did not sign this request");
  }

  #check(job: OnChainJob, request: CompletionRequest, offering: OfferingConfig): void {
    const { signer, recordOf, aheadMs, clock, minRemainingSeconds } = this.#options;
    const record = recordOf(job.offeringId);
    checkJob({
      job,
      provider: signer.provider,
      request,
      offered: {
        modelKey: modelKeyOf(request.model),
        prices: offering.prices,
        contextLength: offering.contextLength,
      },
      recordPrices: record?.modelKey === offering.modelKey ? record.prices : undefined,
      nowSeconds: (clock.now() + aheadMs()) / 1000,
      minRemainingSeconds,
    });
  }

  /** Journals the acknowledgement before anyone sees it. Throws when the job was started before, by whichever request. */
  async #record(job: OnChainJob, model: string, requestHash: Hex, acknowledgement: Hex): Promise<ProviderJob> {
    const { book } = this.#options;
    const accepted: ProviderJob = {
      ...documentOf(job, this.#options.clock.now()),
      stage: "accepted",
      model,
      requestHash,
      acknowledgement,
    };
    if (await book.insert(accepted)) return accepted;
    const result = await book.change(job.jobId, (now) =>
      now.stage === "posted" ? { ...accepted, seenAt: now.seenAt } : undefined,
    );
    if (result?.changed !== true) throw alreadyStarted();
    return result.job;
  }

  async #giveBack(job: OnChainJob, model: string, reason: string): Promise<void> {
    const { book, clock } = this.#options;
    const declining: ProviderJob = { ...documentOf(job, clock.now()), stage: "declining", model, reason };
    if (await book.insert(declining)) return;
    await book.change(job.jobId, (now) => (now.stage === "posted" ? { ...declining, seenAt: now.seenAt } : undefined));
  }
}

/** The journal's document of a job on chain, without its stage. */
function documentOf(job: OnChainJob, nowMs: number): Omit<ProviderJob, "stage"> {
  return {
    jobId: job.jobId,
    client: job.client,
    inputPrice: String(job.prices.inputPrice),
    outputPrice: String(job.prices.outputPrice),
    maxPayment: String(job.maxPayment),
    unsignedLimit: String(job.unsignedLimit),
    deadline: job.deadline,
    seenAt: nowMs,
    attempts: 0,
  };
}

function alreadyStarted(): ProviderError {
  return new ProviderError("job_already_started", "a request of this job was taken before");
}

function chainFailure(error: unknown): unknown {
  return chainUnavailableIn(error) === undefined
    ? error
    : new ProviderError("chain_unavailable", "the chain cannot be asked now", { cause: error });
}
