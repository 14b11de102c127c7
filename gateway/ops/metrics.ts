import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Usage } from "../../protocol/usage.ts";
import type { WaitOutcome } from "../capacity/capacity-lines.ts";
import type { AttemptState } from "../jobs/job-document.ts";
import type { RequestStep } from "../jobs/request-context.ts";
import type { JanitorStep } from "../jobs/next-step.ts";
import { decisionLabels } from "../routing/decision-record.ts";
import type { GaugeDefinition } from "../routing/statistics/metrics.ts";
import type { Selection } from "../routing/types.ts";
import type { StatusFault } from "../routing/status-message.ts";
import { ModelLabels } from "./model-labels.ts";
import { registerGauges } from "./prometheus-gauges.ts";

/** What gauges read when the metrics page is asked for. */
export interface MetricsSource {
  readonly waiting: () => ReadonlyMap<string, number>;
  readonly running: () => number;
  readonly openJobs: () => number;
  /** Wei held by jobs that are not over, as the journal knows. */
  readonly locked: () => bigint;
  /** The wallet's account in the escrow as last read. */
  readonly account: () => { readonly free: bigint; readonly locked: bigint } | undefined;
  readonly pendingTransactions: () => number;
  readonly pendingSettlements: () => number;
  readonly isReady: () => boolean;
  readonly index: () =>
    | {
        readonly blockNumber: number | undefined;
        readonly sinceLastPollMs: number | undefined;
        readonly reorganisations: number;
        readonly drift: number;
      }
    | undefined;
  readonly statistics: readonly GaugeDefinition[];
}

const secondsBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900];
const tokenSecondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/**
 * Metrics of one gateway, by the names of OpenTelemetry's GenAI conventions where there are some. Labels are bounded: words of this
 * program and a bounded number of model ids; never a job, a key or a client.
 */
export class GatewayMetrics {
  readonly registry = new Registry();
  readonly #models = new ModelLabels();
  readonly #duration: Histogram<"gen_ai_request_model" | "gen_ai_operation_name" | "error_type">;
  readonly #firstToken: Histogram<"gen_ai_request_model">;
  readonly #perToken: Histogram<"gen_ai_request_model">;
  readonly #tokens: Counter<"gen_ai_request_model" | "gen_ai_token_type">;
  readonly #answers: Counter<"route" | "status">;
  readonly #waited: Histogram<"outcome">;
  readonly #steps: Histogram<"step">;
  readonly #attempts: Counter<"reason">;
  readonly #decisions: Counter<"policy" | "reason" | "verdict">;
  readonly #leftOut: Counter<"reason">;
  readonly #ended: Counter<"state">;
  readonly #paid: Counter;
  readonly #receipts: Counter<"outcome">;
  readonly #disagreements: Counter<"kind">;
  readonly #janitor: Counter<"step">;
  readonly #statusesRefused: Counter<"fault">;
  readonly #faults: Counter<"where">;

  constructor(source: MetricsSource) {
    const registers = [this.registry];
    const counter = <T extends string>(name: string, help: string, labelNames: readonly T[] = []): Counter<T> =>
      new Counter({ name, help, labelNames, registers });
    const histogram = <T extends string>(
      name: string,
      help: string,
      labelNames: readonly T[],
      buckets = secondsBuckets,
    ): Histogram<T> => new Histogram({ name, help, labelNames, buckets, registers });
    this.#duration = histogram(
      "gen_ai_client_operation_duration_seconds",
      "From a request's arrival to the end of its answer.",
      ["gen_ai_request_model", "gen_ai_operation_name", "error_type"],
    );
    this.#firstToken = histogram(
      "gen_ai_server_time_to_first_token_seconds",
      "From sending a request to its provider to the first content of the answer.",
      ["gen_ai_request_model"],
    );
    this.#perToken = histogram(
      "gen_ai_server_time_per_output_token_seconds",
      "Time between output tokens after the first.",
      ["gen_ai_request_model"],
      tokenSecondsBuckets,
    );
    this.#tokens = counter("gen_ai_client_token_usage_total", "Tokens that were signed for.", [
      "gen_ai_request_model",
      "gen_ai_token_type",
    ]);
    this.#answers = counter("t4t_gateway_answers_total", "HTTP answers by route and status.", ["route", "status"]);
    this.#waited = histogram("t4t_gateway_queue_duration_seconds", "Time in the line by how it ended.", ["outcome"]);
    this.#steps = histogram(
      "t4t_gateway_step_seconds",
      "Where the time of requests goes, by step.",
      ["step"],
      [0.0005, 0.001, 0.0025, ...secondsBuckets],
    );
    this.#attempts = counter("t4t_gateway_attempt_failures_total", "Jobs given up with one provider, by reason.", [
      "reason",
    ]);
    this.#decisions = counter("t4t_gateway_decisions_total", "Selections that requests went by, by the branch taken.", [
      "policy",
      "reason",
      "verdict",
    ]);
    this.#leftOut = counter(
      "t4t_gateway_left_out_total",
      "Providers that those selections left out, by reason; an estimate where a decision looks at few of many.",
      ["reason"],
    );
    this.#ended = counter("t4t_gateway_jobs_ended_total", "Jobs that ended on chain, by end.", ["state"]);
    this.#paid = counter("t4t_gateway_paid_wei_total", "Paid to providers, in the token's smallest unit.");
    this.#receipts = counter("t4t_gateway_receipts_total", "Receipts handed over, by how they were taken.", [
      "outcome",
    ]);
    this.#disagreements = counter("t4t_gateway_disagreements_total", "Usage statements that did not hold, by kind.", [
      "kind",
    ]);
    this.#janitor = counter("t4t_gateway_janitor_steps_total", "Steps taken for jobs that were given up.", ["step"]);
    this.#statusesRefused = counter(
      "t4t_gateway_statuses_refused_total",
      "Providers' statuses that were not believed, by fault.",
      ["fault"],
    );
    this.#faults = counter("t4t_gateway_faults_total", "Faults of the gateway itself, by place.", ["where"]);
    this.#gauges(source);
  }

  /** An HTTP answer ended. */
  answered(route: string, status: number): void {
    this.#answers.inc({ route, status: String(status) });
  }

  /** A completion ended for its client. @param errorType Empty when it was whole. */
  completed(model: string | undefined, operation: "chat" | "text_completion", errorType: string, tookMs: number): void {
    this.#duration.observe(
      { gen_ai_request_model: this.#models.label(model), gen_ai_operation_name: operation, error_type: errorType },
      tookMs / 1000,
    );
  }

  firstByte(model: string, sinceSentMs: number): void {
    this.#firstToken.observe({ gen_ai_request_model: this.#models.label(model) }, sinceSentMs / 1000);
  }

  /** Usage was signed. @param generatingMs From the first content to the end; undefined when it was not streamed. */
  used(model: string, usage: Usage, generatingMs: number | undefined): void {
    const label = this.#models.label(model);
    this.#tokens.inc({ gen_ai_request_model: label, gen_ai_token_type: "input" }, usage.inputTokens);
    this.#tokens.inc({ gen_ai_request_model: label, gen_ai_token_type: "output" }, usage.outputTokens);
    if (generatingMs !== undefined && usage.outputTokens > 1) {
      this.#perToken.observe({ gen_ai_request_model: label }, generatingMs / 1000 / (usage.outputTokens - 1));
    }
  }

  waited(outcome: WaitOutcome<unknown>["kind"], waitedMs: number): void {
    this.#waited.observe({ outcome }, waitedMs / 1000);
  }

  step(step: RequestStep, tookMs: number): void {
    this.#steps.observe({ step }, Math.max(0, tookMs) / 1000);
  }

  decided(selection: Selection): void {
    this.#decisions.inc(decisionLabels(selection));
    for (const [reason, count] of Object.entries(selection.excludedCounts)) this.#leftOut.inc({ reason }, count);
  }

  attemptFailed(reason: string): void {
    this.#attempts.inc({ reason });
  }

  jobEnded(state: AttemptState, payment: bigint): void {
    this.#ended.inc({ state });
    this.#paid.inc(Number(payment));
  }

  receipt(outcome: string): void {
    this.#receipts.inc({ outcome });
  }

  disagreement(kind: string): void {
    this.#disagreements.inc({ kind });
  }

  janitorStep(step: JanitorStep["kind"]): void {
    this.#janitor.inc({ step });
  }

  statusRefused(fault: StatusFault): void {
    this.#statusesRefused.inc({ fault });
  }

  fault(where: string): void {
    this.#faults.inc({ where });
  }

  #gauges(source: MetricsSource): void {
    const gauge = (name: string, help: string, value: () => number | undefined): void => {
      const collected = new Gauge({
        name,
        help,
        registers: [],
        collect() {
          const now = value();
          if (now === undefined) this.remove();
          else this.set(now);
        },
      });
      this.registry.registerMetric(collected);
    };
    const models = this.#models;
    const queueSize = new Gauge({
      name: "t4t_gateway_queue_size",
      help: "Requests that wait for capacity, by model.",
      labelNames: ["gen_ai_request_model"],
      registers: [],
      collect() {
        this.reset();
        for (const [model, size] of source.waiting())
          this.inc({ gen_ai_request_model: models.label(model || "auto") }, size);
      },
    });
    this.registry.registerMetric(queueSize);
    gauge("t4t_gateway_running_requests", "Requests under way.", source.running);
    gauge("t4t_gateway_open_jobs", "Requests with a job that is not over.", source.openJobs);
    gauge("t4t_gateway_locked_wei", "Held by jobs that are not over, as the journal knows.", () =>
      Number(source.locked()),
    );
    gauge("t4t_gateway_escrow_free_wei", "Free balance in the escrow.", () => numberOf(source.account()?.free));
    gauge("t4t_gateway_escrow_locked_wei", "Locked balance in the escrow, as the chain says.", () =>
      numberOf(source.account()?.locked),
    );
    gauge("t4t_gateway_pending_transactions", "Transactions that are not final.", source.pendingTransactions);
    gauge("t4t_gateway_pending_settlements", "Answers whose receipt is under way.", source.pendingSettlements);
    gauge("t4t_gateway_ready", "1 when requests can be served.", () => (source.isReady() ? 1 : 0));
    gauge(
      "t4t_index_block_number",
      "Block up to which the registry index is complete.",
      () => source.index()?.blockNumber,
    );
    gauge("t4t_index_age_seconds", "Time since the last successful look at the chain.", () => {
      const age = source.index()?.sinceLastPollMs;
      return age === undefined ? undefined : age / 1000;
    });
    gauge(
      "t4t_index_reorganisations",
      "Reorganisations unwound since the start.",
      () => source.index()?.reorganisations,
    );
    gauge("t4t_index_drift", "Providers that the audit found different since the start.", () => source.index()?.drift);
    registerGauges(this.registry, source.statistics);
  }
}

function numberOf(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}
