import type { StatusFollowerState } from "../status-follower.ts";
import type { MeasuredStatistics } from "../types.ts";
import type { ReportedModel } from "./reported.ts";
import type { RoutingStatistics } from "./routing-statistics.ts";

/** One reading of a gauge. */
export interface GaugeSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A gauge whose series are exactly what `samples` yields when it is read. */
export interface GaugeDefinition {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  samples(): Iterable<GaugeSample>;
}

/** Settings of the gauges. */
export interface StatisticsGaugeOptions {
  /**
   * Greatest number of series per gauge; the rest is left out and counted in `t4t_provider_series_omitted`. Outcomes, of which a gateway
   * may remember very many, are those of the providers used last, and only so many are read. Default 1,000.
   */
  readonly maxSeries?: number;
  /** State of the status follower, when there is one. */
  readonly follower?: () => StatusFollowerState;
}

/** A gauge that may have very many series. */
interface CountedGauge extends GaugeDefinition {
  /** How many series there are at most, without reading them; absent: they are read to be counted. */
  readonly mostSamples?: () => number;
}

type ReportedField = "lastMeanInputTps" | "maxInputTps" | "running" | "queuedInputTokens" | "kvFreeTokens";
type MeasuredField = "ttftMs" | "outputTps" | "successRatio" | "recentFailures";

const reportedGauges: readonly (readonly [ReportedField, string, string])[] = [
  ["lastMeanInputTps", "t4t_provider_last_mean_input_tps", "Published mean of uncached input tokens per second."],
  ["maxInputTps", "t4t_provider_max_input_tps", "Greatest published mean of the model's generation."],
  ["running", "t4t_provider_running", "Streams running, as the provider reports."],
  ["queuedInputTokens", "t4t_provider_queued_input_tokens", "Input tokens waiting, as the provider reports."],
  ["kvFreeTokens", "t4t_provider_kv_free_tokens", "Free tokens of the KV cache, as the provider reports."],
];

const measuredGauges: readonly (readonly [MeasuredField, number, string, string])[] = [
  ["ttftMs", 0.001, "t4t_provider_ttft_seconds", "Decayed mean time to the first token."],
  ["outputTps", 1, "t4t_provider_output_tps", "Decayed mean output tokens per second of one stream."],
  ["successRatio", 1, "t4t_provider_success_ratio", "Decayed share of streams that succeeded."],
  ["recentFailures", 1, "t4t_provider_recent_failures", "Decayed number of recent failures."],
];

/**
 * The gauges of live and reported statistics. They are read when the metrics are scraped, so a series exists exactly as long as what
 * it shows is known: the maximum goes when its model goes, or is replaced by one whose maximum is unknown.
 */
export function statisticsGauges(
  statistics: RoutingStatistics,
  options: StatisticsGaugeOptions = {},
): readonly GaugeDefinition[] {
  const maxSeries = options.maxSeries ?? 1000;
  const omitted = new Map<string, number>();
  const bounded = ({ mostSamples, ...gauge }: CountedGauge): GaugeDefinition => ({
    ...gauge,
    *samples() {
      let seen = 0;
      for (const sample of gauge.samples()) {
        seen += 1;
        if (seen <= maxSeries) yield sample;
        else if (mostSamples !== undefined) break;
      }
      omitted.set(gauge.name, Math.max(0, (seen > maxSeries ? (mostSamples?.() ?? seen) : seen) - maxSeries));
    },
  });
  const labelNames = ["provider", "model"];
  const counted: CountedGauge[] = [
    ...reportedGauges.map(([field, name, help]) => ({
      name,
      help,
      labelNames,
      samples: () => reportedSamples(statistics, field),
    })),
    ...measuredGauges.map(([field, scale, name, help]) => ({
      name,
      help,
      labelNames,
      samples: () => measuredSamples(statistics, field, scale),
      mostSamples: () => statistics.outcomeCount,
    })),
    {
      name: "t4t_provider_in_flight",
      help: "Streams and unconfirmed posts of this gateway.",
      labelNames: ["provider"],
      samples: () => inFlightSamples(statistics),
    },
    {
      name: "t4t_provider_round_trip_seconds",
      help: "Round trip to the provider, by TCP handshakes.",
      labelNames: ["provider"],
      samples: () => roundTripSamples(statistics),
    },
  ];
  const gauges = counted.map(bounded);
  gauges.push({
    name: "t4t_provider_series_omitted",
    help: "Series left out of a per-provider gauge because there are too many.",
    labelNames: ["gauge"],
    *samples() {
      for (const [gauge, value] of omitted) if (value > 0) yield { labels: { gauge }, value };
    },
  });
  if (options.follower !== undefined) gauges.push(followerGauge(options.follower));
  return gauges;
}

function followerGauge(follower: () => StatusFollowerState): GaugeDefinition {
  return {
    name: "t4t_routing_status_streams",
    help: "Status streams of providers by state.",
    labelNames: ["state"],
    *samples() {
      const { following, connected, waiting } = follower();
      yield { labels: { state: "following" }, value: following };
      yield { labels: { state: "connected" }, value: connected };
      yield { labels: { state: "waiting" }, value: waiting };
    },
  };
}

function* reportedSamples(statistics: RoutingStatistics, field: keyof ReportedModel & ReportedField) {
  for (const [provider, model, report] of statistics.reports()) {
    const value = report[field];
    if (value !== undefined) yield { labels: { provider, model }, value };
  }
}

function* measuredSamples(statistics: RoutingStatistics, field: keyof MeasuredStatistics, scale: number) {
  for (const [provider, model, measured] of statistics.outcomes()) {
    const value = measured[field];
    if (value !== undefined) yield { labels: { provider, model }, value: value * scale };
  }
}

function* inFlightSamples(statistics: RoutingStatistics) {
  for (const [provider, value] of statistics.loads()) yield { labels: { provider }, value };
}

function* roundTripSamples(statistics: RoutingStatistics) {
  for (const [provider, ms] of statistics.roundTrips()) yield { labels: { provider }, value: ms * 0.001 };
}
