import type { ServerResponse } from "node:http";
import type { Hex } from "viem";
import { BodyHasher } from "../../protocol/body-hash.ts";
import type { Clock } from "../../protocol/clock.ts";
import { inputTokensEstimate } from "../../protocol/money.ts";
import { formatSse, formatSseComment, sseContentType } from "../../protocol/sse.ts";
import { sameUsage, type Usage } from "../../protocol/usage.ts";
import { encodeDelivered, usageCommentPrefix, wireHeaders } from "../../protocol/wire.ts";
import type { AdmittedJob } from "../admission/admission.ts";
import { failureOf, openAnswer, RunAbort } from "../upstream/answer.ts";
import { backendBody } from "../upstream/backend-request.ts";
import { firstOutputOf } from "../upstream/engine-timings.ts";
import { readJsonAnswer, singleHeader } from "../upstream/read-json-answer.ts";
import { relayStream } from "../upstream/relay-stream.ts";
import { type MeteredUsage, UsageMeter, usageOfAnswer } from "../upstream/usage-meter.ts";
import { ProviderError } from "../errors.ts";
import { isTerminal, type Delivery } from "../settlement/job.ts";
import type { JobBook } from "../settlement/job-book.ts";
import type { ProviderSigner } from "../signer.ts";
import type { StreamStatistics } from "../statistics/model-statistics.ts";
import type { LiveJobs } from "./live-jobs.ts";
import type { StreamEnds } from "./stream-ends.ts";

/** How a run ended, as a bounded word: also a metric label. */
export type RunOutcome =
  | "delivered"
  | "cut_by_backend"
  | "cut_by_gateway"
  | "cut_by_deadline"
  | "cut_by_drain"
  | "rejected"
  | "failed";

/** What a run tells the outside. */
export interface RunEvents {
  /** The model's first output, ms after the request was sent to the backend. */
  firstOutput(job: AdmittedJob, afterMs: number): void;
  ended(job: AdmittedJob, outcome: RunOutcome, usage: Usage, tookMs: number, error: unknown): void;
}

/** Options of `JobRunner`. */
export interface JobRunnerOptions {
  readonly book: JobBook;
  readonly live: LiveJobs;
  readonly ends: StreamEnds;
  readonly signer: ProviderSigner;
  readonly clock: Clock;
  readonly idleMs: number;
  readonly firstByteMs: number;
  /** Seconds before a job's deadline at which its answer is cut, so that it can still be settled. */
  readonly settleMarginSeconds: number;
  /** How far chain time runs ahead of the clock, ms. */
  readonly aheadMs: () => number;
  /** Starts the statistics of one run. */
  readonly begin: (job: AdmittedJob, estimatedInputTokens: number) => StreamStatistics;
  readonly events: RunEvents;
}

/** How often the usage of a running stream is journaled. */
const checkpointMs = 2_000;
/** How long a cut stream's last bytes may take to leave. */
const flushMs = 5_000;

/** Where a run's answer goes. */
export interface RunTarget {
  readonly response: ServerResponse;
  /** OpenAI route, such as `/v1/chat/completions`. */
  readonly path: string;
  readonly requestId: string;
}

/** Runs admitted jobs: backend, metering, the signed statement, the journal, and the slot's return. */
export class JobRunner {
  readonly #options: JobRunnerOptions;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
  }

  /** Runs a job to its end; the answer has ended and the slot is free when it resolves. */
  async run(admitted: AdmittedJob, target: RunTarget): Promise<void> {
    const run = new Run(this.#options, admitted, target);
    await run.execute();
  }
}

class Run {
  readonly #options: JobRunnerOptions;
  readonly #admitted: AdmittedJob;
  readonly #target: RunTarget;
  readonly #abort = new RunAbort();
  readonly #meter: UsageMeter;
  readonly #hasher = new BodyHasher();
  readonly #startedAt: number;
  readonly #estimatedInput: number;

  constructor(options: JobRunnerOptions, admitted: AdmittedJob, target: RunTarget) {
    this.#options = options;
    this.#admitted = admitted;
    this.#target = target;
    this.#estimatedInput = inputTokensEstimate(admitted.request.promptBytes);
    this.#meter = new UsageMeter(this.#estimatedInput);
    this.#startedAt = options.clock.monotonic();
  }

  async execute(): Promise<void> {
    const { live, clock, settleMarginSeconds, aheadMs, events } = this.#options;
    const { jobId, job, lease, request } = this.#admitted;
    const { response } = this.#target;
    const ended = live.add(jobId, this.#abort);
    const onClose = (): void => {
      if (!response.writableFinished) this.#abort.abort("gateway");
    };
    response.on("close", onClose);
    if (response.destroyed) onClose();
    const leftMs = (job.deadline - settleMarginSeconds) * 1000 - clock.now() - aheadMs();
    const cancelDeadline = clock.after(Math.max(0, leftMs), () => this.#abort.abort("deadline"));
    const statistics = this.#options.begin(this.#admitted, this.#estimatedInput);
    let outcome: RunOutcome = "failed";
    let failure: unknown;
    try {
      outcome = request.stream ? await this.#stream(statistics) : await this.#answer(statistics);
    } catch (error) {
      failure = error;
      outcome = failedAs(error, this.#abort.cause);
      await this.#fail(error);
    } finally {
      cancelDeadline();
      response.off("close", onClose);
      statistics.end(undefined);
      lease.release();
      ended();
      events.ended(this.#admitted, outcome, this.#meter.read().usage, clock.monotonic() - this.#startedAt, failure);
    }
  }

  async #stream(statistics: StreamStatistics): Promise<RunOutcome> {
    const { clock, idleMs, firstByteMs } = this.#options;
    const { response } = this.#target;
    // At once: the gateway must be able to tell a provider that has taken the job from one that is dead.
    response.writeHead(200, {
      ...this.#headers(),
      "content-type": sseContentType,
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    response.flushHeaders();
    const head = await this.#open(firstByteMs);
    if (!(singleHeader(head.headers["content-type"]) ?? "").toLowerCase().startsWith("text/event-stream")) {
      head.body.on("error", () => undefined);
      head.body.destroy();
      throw new ProviderError("backend_unavailable", "the backend failed", {
        cause: new Error("its answer is no event stream"),
      });
    }
    const stopCheckpoints = this.#checkpoints();
    const end = await relayStream({
      head,
      response,
      meter: this.#meter,
      hasher: this.#hasher,
      abort: this.#abort,
      clock,
      idleMs,
      firstByteMs,
      onFirstOutput: () => this.#firstOutput(statistics, clock.monotonic()),
    }).finally(stopCheckpoints);
    const metered = this.#meter.read();
    statistics.end(uncachedTokens(metered));
    if (end === "complete" && !this.#meter.hasFailed) {
      const statement = await this.#deliver(metered, this.#hasher.digest(), false);
      response.end(formatSseComment(`${usageCommentPrefix}${statement}`));
      return "delivered";
    }
    return await this.#cut(metered);
  }

  /** The stream broke: what was delivered is settled, and the gateway sees that it is not whole. */
  async #cut(metered: MeteredUsage): Promise<RunOutcome> {
    if (!this.#meter.hasOutput) {
      if (this.#abort.cause === "gateway" || this.#abort.cause === "drain") {
        await this.#giveBack(this.#abort.cause);
        this.#target.response.destroy();
        return cutBy(this.#abort.cause);
      }
      throw failureOf(
        new Error("the backend's stream was cut before its first token"),
        this.#abort,
        this.#admitted.backend.health,
      );
    }
    await this.#deliver(metered, this.#hasher.digest(), true);
    breakOff(this.#target.response, this.#options.clock);
    return cutBy(this.#abort.cause);
  }

  async #answer(statistics: StreamStatistics): Promise<RunOutcome> {
    const { response } = this.#target;
    // A JSON answer's head comes when all of it was generated: only the job's deadline bounds it.
    const head = await this.#open(undefined);
    let answer: Awaited<ReturnType<typeof readJsonAnswer>>;
    try {
      answer = await readJsonAnswer(head);
    } catch (error) {
      throw error instanceof ProviderError ? error : failureOf(error, this.#abort, this.#admitted.backend.health);
    }
    const endedAt = this.#options.clock.monotonic();
    const metered = usageOfAnswer(answer.value, this.#estimatedInput);
    const firstOutputAt = firstOutputOf(answer.value, metered, { startedAt: this.#startedAt, endedAt });
    if (firstOutputAt !== undefined) this.#firstOutput(statistics, firstOutputAt);
    statistics.end(uncachedTokens(metered));
    this.#hasher.update(answer.body);
    const statement = await this.#deliver(metered, this.#hasher.digest(), false);
    this.#meter.note(metered);
    response.writeHead(200, {
      ...this.#headers(),
      "content-type": answer.contentType,
      "content-length": answer.body.length,
      [wireHeaders.usage]: statement,
    });
    response.end(answer.body);
    return "delivered";
  }

  #firstOutput(statistics: StreamStatistics, at: number): void {
    statistics.firstOutput(at);
    this.#options.events.firstOutput(this.#admitted, at - this.#startedAt);
  }

  async #open(limitMs: number | undefined) {
    const { clock } = this.#options;
    const { request, offering, body, backend, maxOutputTokens } = this.#admitted;
    const cancel =
      limitMs === undefined ? () => undefined : clock.after(limitMs, () => this.#abort.abort("first_byte_timeout"));
    try {
      const accept = request.stream ? "text/event-stream" : "application/json";
      const headers = {
        "content-type": "application/json",
        accept,
        "accept-encoding": "identity",
        [wireHeaders.requestId]: this.#target.requestId,
      };
      const sent = backendBody(body, request, { model: offering.backendModel, maxOutputTokens });
      return await openAnswer(backend, { path: this.#target.path, body: sent, headers }, this.#abort);
    } finally {
      cancel();
    }
  }

  #headers(): Record<string, string> {
    return {
      [wireHeaders.acknowledgement]: this.#admitted.acknowledgement,
      [wireHeaders.requestId]: this.#target.requestId,
    };
  }

  /**
   * Signs and journals what was delivered, durable before the gateway hears of it unless the journal fails: then the statement must not
   * wait for it, as the client's receipt makes good what a crash would lose. Returns the statement's JSON.
   */
  async #deliver(metered: MeteredUsage, responseHash: Hex, partial: boolean): Promise<string> {
    const { signer, ends, clock } = this.#options;
    const { jobId } = this.#admitted;
    const { usage, estimated } = metered;
    const signature = await signer.stateUsage({ jobId, usage, responseHash });
    const delivery: Delivery = { usage, responseHash, statement: signature, estimated, partial, at: clock.now() };
    await ends.write(jobId, (job) => {
      const { checkpoint: _checkpoint, ...rest } = job;
      if (job.stage === "accepted") return { ...rest, stage: "delivered", delivery };
      // Others ended the job meanwhile. Where the chain takes that back, the work is still to be paid.
      return isTerminal(job.stage) && job.delivery === undefined ? { ...rest, delivery } : undefined;
    });
    return encodeDelivered(usage, responseHash, signature);
  }

  /** Nothing was delivered: the client gets its money back. */
  async #giveBack(reason: string): Promise<void> {
    await this.#options.ends.write(this.#admitted.jobId, (job) =>
      job.stage === "accepted" ? { ...job, stage: "declining", reason } : undefined,
    );
  }

  async #fail(error: unknown): Promise<void> {
    const { response } = this.#target;
    const shown =
      error instanceof ProviderError
        ? error
        : new ProviderError("backend_unavailable", "the provider failed", { cause: error });
    await this.#giveBack(this.#abort.cause === "gateway" ? "gateway" : shown.code);
    if (!response.headersSent) {
      const body = shown.toBody();
      response.writeHead(shown.status, { ...this.#headers(), "content-type": "application/json" });
      response.end(body);
    } else if (!response.writableEnded && !response.destroyed) {
      // The head is gone; the error is the stream's only block, and its missing `[DONE]` says the rest.
      response.end(formatSse({ data: shown.toBody() }));
    }
  }

  /** Journals the usage now and then while the stream runs; returns the way to stop. */
  #checkpoints(): () => void {
    const { clock, book } = this.#options;
    let saved: Usage | undefined;
    let cancel = (): void => undefined;
    const arm = (): void => {
      cancel = clock.after(checkpointMs, () => {
        const { usage } = this.#meter.read();
        if (this.#meter.hasOutput && (saved === undefined || !sameUsage(saved, usage))) {
          saved = usage;
          book
            .change(this.#admitted.jobId, (job) =>
              job.stage === "accepted" ? { ...job, checkpoint: usage } : undefined,
            )
            .catch(() => {
              // The end of the stream writes too, and its failure is seen.
            });
        }
        arm();
      });
    };
    arm();
    return () => cancel();
  }
}

/** Prompt tokens that the backend computed; undefined where it did not say its usage. */
function uncachedTokens({ estimated, usage, cachedInputTokens }: MeteredUsage): number | undefined {
  return estimated ? undefined : usage.inputTokens - cachedInputTokens;
}

function failedAs(error: unknown, cause: RunAbort["cause"]): RunOutcome {
  if (cause === "gateway" || cause === "drain") return cutBy(cause);
  return error instanceof ProviderError && error.code === "backend_rejected" ? "rejected" : "failed";
}

/** Breaks the connection once what was written has left, so that the gateway sees a cut and loses nothing. */
function breakOff(response: ServerResponse, clock: Clock): void {
  if (response.writableLength === 0 || response.destroyed) {
    response.destroy();
    return;
  }
  const cancel = clock.after(flushMs, () => response.destroy());
  response.once("drain", () => response.destroy());
  response.once("close", cancel);
}

function cutBy(cause: RunAbort["cause"]): RunOutcome {
  switch (cause) {
    case "gateway":
    case "stalled_reader":
      return "cut_by_gateway";
    case "deadline":
      return "cut_by_deadline";
    case "drain":
      return "cut_by_drain";
    default:
      return "cut_by_backend";
  }
}
