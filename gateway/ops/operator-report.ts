import type { Logger } from "pino";
import type { Address } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { T4tError } from "../../protocol/errors.ts";
import type { HttpExchange } from "../http/http-server.ts";
import type { RouteName } from "../http/router.ts";
import type { JobEndListener } from "../jobs/chain-events.ts";
import type { JobRecord } from "../jobs/job-record.ts";
import type { JanitorStep } from "../jobs/next-step.ts";
import type { RequestObserver } from "../jobs/request-context.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import { describeError } from "./log.ts";
import type { GatewayMetrics } from "./metrics.ts";

/** What the operator learns of a gateway's work: each event is counted in the metrics, and written into the log where it is worth a line. */
export class OperatorReport {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #metrics: () => GatewayMetrics;
  readonly #allowPrivateEndpoints: boolean;

  /** @param parts.metrics Asked at each event: the metrics read what is built with this report. */
  constructor(parts: {
    readonly logger: Logger;
    readonly clock: Clock;
    readonly metrics: () => GatewayMetrics;
    readonly allowPrivateEndpoints: boolean;
  }) {
    this.#logger = parts.logger;
    this.#clock = parts.clock;
    this.#metrics = parts.metrics;
    this.#allowPrivateEndpoints = parts.allowPrivateEndpoints;
  }

  /** What happens while requests are served. */
  readonly observer: RequestObserver = {
    decided: (requestId, selection, decision) => {
      this.#metrics().decided(selection);
      this.#logger.debug({ requestId, decision }, "a selection was made");
    },
    waited: (_model, outcome, waitedMs) => this.#metrics().waited(outcome, waitedMs),
    attemptFailed: (jobId, provider, reason) => {
      this.#metrics().attemptFailed(reason);
      this.#logger.warn({ jobId, provider, reason }, "a job was given up with its provider");
    },
    firstByte: (modelId, _sinceArrivalMs, sinceSentMs) => this.#metrics().firstByte(modelId, sinceSentMs),
    step: (step, tookMs) => this.#metrics().step(step, tookMs),
    delivered: (modelId, usage, generatingMs) => this.#metrics().used(modelId, usage, generatingMs),
  };

  /** A request has ended after `tookMs`. */
  requestEnded(record: JobRecord, tookMs: number): void {
    const { outcome, kind, attempts } = record.document;
    const delivering = attempts.findLast(({ receipt }) => receipt !== undefined);
    const errorType = outcome?.status === "completed" ? "" : (outcome?.code ?? outcome?.status ?? "");
    this.#metrics().completed(
      attempts.at(-1)?.modelId,
      kind === "chat" ? "chat" : "text_completion",
      errorType,
      tookMs,
    );
    this.#logger.info(
      {
        jobId: record.id,
        requestId: record.document.requestId,
        model: record.document.model,
        provider: delivering?.provider,
        outcome: outcome?.status,
        code: outcome?.code,
        jobs: attempts.length,
        ...delivering?.usage,
        tookMs: Math.round(tookMs),
      },
      "request ended",
    );
  }

  /** A job has ended on chain. */
  readonly jobEnded: JobEndListener = (state, payment, attempt) => {
    this.#metrics().jobEnded(state, payment ?? 0n);
    if (state === "settled" && attempt.deliveredAt !== undefined) {
      this.#metrics().step("settle", this.#clock.now() - attempt.deliveredAt);
    }
    this.#logger.info({ jobId: attempt.jobId, state, payment: payment?.toString() }, "job ended");
  };

  /** An HTTP request was answered. */
  answered(
    { response, requestId }: Pick<HttpExchange, "response" | "requestId">,
    route: RouteName | "none",
    error: unknown,
    tookMs: number,
  ): void {
    this.#metrics().answered(route, response.statusCode);
    if (error !== undefined && !(error instanceof T4tError) && response.statusCode >= 500) {
      this.fault("http", error);
    }
    this.#logger.debug({ requestId, route, status: response.statusCode, tookMs: Math.round(tookMs) }, "answered");
  }

  /** The janitor did something for a job, or failed to. */
  janitorStep(step: JanitorStep["kind"], jobId: string, error: unknown): void {
    this.#metrics().janitorStep(step);
    if (error === undefined) this.#logger.info({ step, jobId }, "janitor");
    else this.fault("janitor", error);
  }

  /** A provider's usage statement is not what was seen. */
  disagreement(provider: Address, kind: string): void {
    this.#metrics().disagreement(kind);
    this.#logger.warn({ provider, kind }, "a provider's usage statement does not hold");
  }

  /** Without a word of it, a market whose providers are all left out looks like one that has none. */
  endpointRefused(provider: Address, endpoint: string): void {
    const reason = parseEndpoint(endpoint, this.#allowPrivateEndpoints);
    const cure =
      reason === "private_address" ? "on a local network, set T4T_ALLOW_PRIVATE_ENDPOINTS=true to call it" : undefined;
    this.#logger.warn({ provider, endpoint, reason, cure }, "a provider is left out, as its endpoint is never called");
  }

  /** Something failed that nobody was told of otherwise. `where` is a bounded word. */
  fault(where: string, error: unknown): void {
    this.#metrics().fault(where);
    this.#logger.error({ where, error: describeError(error) }, "a fault");
  }
}
