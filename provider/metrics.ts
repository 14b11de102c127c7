import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ModelStatus } from "../protocol/status.ts";
import type { Usage } from "../protocol/usage.ts";
import type { RunOutcome } from "./jobs/job-runner.ts";
import type { JobStage } from "./settlement/job.ts";

/** What gauges read when the metrics page is asked for. */
export interface MetricsSource {
  readonly models: () => readonly ModelStatus[];
  readonly running: () => number;
  readonly maxConcurrentJobs: () => number;
  readonly backends: () => Iterable<{ readonly name: string; readonly isUp: boolean }>;
  readonly jobsByStage: () => ReadonlyMap<JobStage, number>;
  /** Wei that delivered jobs are worth and that is not paid yet. */
  readonly claimable: () => bigint;
  readonly pendingTransactions: () => number;
  readonly isReady: () => boolean;
  /** Open jobs on chain less those in the journal, at the last comparison. */
  readonly drift: () => number | undefined;
  /** Wei earned and not withdrawn, at the last comparison. */
  readonly balance: () => bigint | undefined;
  readonly chainBlock: () => number | undefined;
  /** Markets that are proposed and can be allowed, now or later; undefined until the chain was read. */
  readonly proposedMarkets: () => number | undefined;
  /** Chain time from which the first of them can be allowed, Unix seconds; undefined when there is none. */
  readonly marketAllowableFrom: () => number | undefined;
}

const secondsBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Metrics of one node. Labels are bounded: models of the configuration and words of this program, never a job, key or address. */
export class ProviderMetrics {
  readonly registry = new Registry();
  readonly #refusals: Counter<"code">;
  readonly #runs: Counter<"gen_ai_request_model" | "outcome">;
  readonly #firstToken: Histogram<"gen_ai_request_model">;
  readonly #duration: Histogram<"gen_ai_request_model" | "outcome">;
  readonly #tokens: Counter<"gen_ai_request_model" | "gen_ai_token_type">;
  readonly #ended: Counter<"end" | "reason">;
  readonly #earned: Counter;
  readonly #settlementFailures: Counter<"error">;
  readonly #reopened: Counter;
  readonly #transactions: Counter<"kind">;
  readonly #errors: Counter<"where">;
  readonly #missingSlots: Counter;

  constructor(source: MetricsSource) {
    const registers = [this.registry];
    const model = ["gen_ai_request_model"] as const;
    this.#refusals = new Counter({
      name: "t4t_provider_refusals_total",
      help: "Requests refused, by error code",
      labelNames: ["code"],
      registers,
    });
    this.#runs = new Counter({
      name: "t4t_provider_runs_total",
      help: "Admitted jobs, by how their answer ended",
      labelNames: [...model, "outcome"],
      registers,
    });
    this.#firstToken = new Histogram({
      name: "gen_ai_server_time_to_first_token_seconds",
      help: "From the request to the backend to the first output",
      labelNames: model,
      buckets: secondsBuckets,
      registers,
    });
    this.#duration = new Histogram({
      name: "gen_ai_server_request_duration_seconds",
      help: "From admission to the end of the answer",
      labelNames: [...model, "outcome"],
      buckets: secondsBuckets,
      registers,
    });
    this.#tokens = new Counter({
      name: "gen_ai_client_token_usage_total",
      help: "Tokens delivered, by type",
      labelNames: [...model, "gen_ai_token_type"],
      registers,
    });
    this.#ended = new Counter({
      name: "t4t_provider_jobs_ended_total",
      help: "Jobs that ended on chain, by end and reason",
      labelNames: ["end", "reason"],
      registers,
    });
    this.#earned = new Counter({ name: "t4t_provider_earned_wei_total", help: "Wei paid by settled jobs", registers });
    this.#reopened = new Counter({
      name: "t4t_provider_jobs_reopened_total",
      help: "Jobs whose end a reorganisation took back; they end, and are paid, once more",
      registers,
    });
    this.#settlementFailures = new Counter({
      name: "t4t_provider_settlement_failures_total",
      help: "Settlement transactions without effect, by error",
      labelNames: ["error"],
      registers,
    });
    this.#transactions = new Counter({
      name: "t4t_provider_publications_total",
      help: "Transactions beside settlements, by kind",
      labelNames: ["kind"],
      registers,
    });
    this.#errors = new Counter({
      name: "t4t_provider_errors_total",
      help: "Faults that were logged and survived, by place",
      labelNames: ["where"],
      registers,
    });
    this.#missingSlots = new Counter({
      name: "t4t_provider_missing_slots_total",
      help: "Slots of this provider's jobs that another market had freed; never counts while every market is honest",
      registers,
    });
    this.#gauges(source);
    this.#modelGauges(source);
  }

  /** A request was refused. */
  refused(code: string): void {
    this.#refusals.inc({ code });
  }

  /** First output of a model, ms after the request went to the backend. */
  firstToken(model: string, afterMs: number): void {
    this.#firstToken.observe({ gen_ai_request_model: model }, afterMs / 1000);
  }

  /** An answer ended. */
  ran(model: string, outcome: RunOutcome, usage: Usage, tookMs: number): void {
    this.#runs.inc({ gen_ai_request_model: model, outcome });
    this.#duration.observe({ gen_ai_request_model: model, outcome }, tookMs / 1000);
    this.#tokens.inc({ gen_ai_request_model: model, gen_ai_token_type: "input" }, usage.inputTokens);
    this.#tokens.inc({ gen_ai_request_model: model, gen_ai_token_type: "output" }, usage.outputTokens);
  }

  /** A job ended on chain; `payment` in wei. */
  ended(end: JobStage, reason: string, payment: bigint): void {
    this.#ended.inc({ end, reason });
    this.#earned.inc(Number(payment));
  }

  /** The chain took the end of a job back. */
  reopened(): void {
    this.#reopened.inc();
  }

  settlementFailed(error: string): void {
    this.#settlementFailures.inc({ error });
  }

  published(kind: string): void {
    this.#transactions.inc({ kind });
  }

  fault(where: string): void {
    this.#errors.inc({ where });
  }

  /** Jobs ended whose slots another market had freed. */
  missingSlots(count: number): void {
    this.#missingSlots.inc(count);
  }

  #gauges(source: MetricsSource): void {
    const registers = [this.registry];
    const plain = (name: string, help: string, read: () => number | undefined): void => {
      const gauge: Gauge = new Gauge({
        name,
        help,
        registers,
        collect: () => {
          const value = read();
          if (value === undefined) gauge.remove();
          else gauge.set(value);
        },
      });
    };
    plain("t4t_provider_running_jobs", "Answers running now", source.running);
    plain("t4t_provider_max_concurrent_jobs", "Cap on jobs; 0 = no cap", source.maxConcurrentJobs);
    plain("t4t_provider_ready", "1 when requests are admitted", () => (source.isReady() ? 1 : 0));
    plain("t4t_provider_claimable_wei", "Worth of delivered jobs not paid yet", () => Number(source.claimable()));
    plain("t4t_provider_pending_transactions", "Transactions not final", source.pendingTransactions);
    plain("t4t_provider_open_jobs_drift", "Open jobs on chain less those in the journal", source.drift);
    plain("t4t_provider_escrow_balance_wei", "Earned and not withdrawn from the escrow", () => {
      const balance = source.balance();
      return balance === undefined ? undefined : Number(balance);
    });
    plain("t4t_provider_chain_block", "Newest block seen", source.chainBlock);
    plain(
      "t4t_provider_proposed_markets",
      "Markets that are proposed to get power over the stake, and can be allowed now or later",
      source.proposedMarkets,
    );
    plain(
      "t4t_provider_market_allowable_timestamp_seconds",
      "Chain time from which the first proposed market can be allowed; absent when none is proposed",
      source.marketAllowableFrom,
    );
    const stages: Gauge<"stage"> = new Gauge({
      name: "t4t_provider_open_jobs",
      help: "Jobs in the journal that have not ended, by stage",
      labelNames: ["stage"],
      registers,
      collect: () => {
        stages.reset();
        for (const [stage, count] of source.jobsByStage()) stages.set({ stage }, count);
      },
    });
    const backends: Gauge<"backend"> = new Gauge({
      name: "t4t_provider_backend_up",
      help: "1 when the backend works",
      labelNames: ["backend"],
      registers,
      collect: () => {
        backends.reset();
        for (const { name, isUp } of source.backends()) backends.set({ backend: name }, isUp ? 1 : 0);
      },
    });
  }

  /** A gauge of a value that is not known has no sample: it goes with the model, and with a generation that has not measured yet. */
  #modelGauges(source: MetricsSource): void {
    const ofModels = (name: string, help: string, read: (status: ModelStatus) => number | undefined): void => {
      const gauge: Gauge<"gen_ai_request_model"> = new Gauge({
        name,
        help,
        labelNames: ["gen_ai_request_model"],
        registers: [this.registry],
        collect: () => {
          gauge.reset();
          for (const status of source.models()) {
            const value = read(status);
            if (value !== undefined) gauge.set({ gen_ai_request_model: status.model }, value);
          }
        },
      });
    };
    ofModels(
      "t4t_provider_last_mean_input_tps",
      "Published mean input throughput of the model generation, tokens per second",
      (status) => status.lastMeanInputTps,
    );
    ofModels(
      "t4t_provider_max_input_tps",
      "Greatest published mean input throughput of the model generation, tokens per second",
      (status) => status.maxInputTps,
    );
    ofModels("t4t_provider_model_running", "Answers of the model running now", (status) => status.running);
    ofModels(
      "t4t_provider_queued_input_tokens",
      "Estimated prompt tokens that wait for their first output",
      (status) => status.queuedInputTokens,
    );
    ofModels("t4t_provider_kv_free_tokens", "Free tokens of the backend's KV cache", (status) => status.kvFreeTokens);
  }
}
