import type { Candidate, LiveStatistics, RoutingRequest } from "../types.ts";

/** What a request may expect of a candidate, ms. */
export interface Estimate {
  readonly candidate: Candidate;
  /** Undefined while the provider's throughput is unknown. */
  readonly queueMs: number | undefined;
  /** Expected time to the first token. */
  readonly ttftMs: number;
  /** Streams running there, as reported or as this gateway has open, whichever is more. */
  readonly running: number;
}

/**
 * `queueMs = 1000 queuedInputTokens / mean`, `prefillMs = 1000 inputTokens / mean`, `ttft = rtt + queueMs + prefillMs`. What this gateway has
 * sent since the last status counts as queued, too: else everything would run to the provider that was fastest a second ago. A provider that
 * does not report its mean is judged by what this gateway measured there, and before that by its round trip alone: it is tried once and
 * then known, so silence gains nothing.
 */
export function estimate(candidate: Candidate, request: RoutingRequest, statistics: LiveStatistics): Estimate {
  const { provider, modelId, generation } = candidate;
  const reported = statistics.reported(provider, modelId);
  const running = Math.max(reported?.running ?? 0, statistics.inFlight(provider, generation));
  const roundTripMs = statistics.roundTripMs(provider);
  const mean = reported?.lastMeanInputTps;
  if (mean === undefined || !Number.isFinite(mean) || mean <= 0) {
    const measured = statistics.measured(provider, modelId)?.ttftMs;
    return { candidate, queueMs: undefined, ttftMs: measured ?? roundTripMs, running };
  }
  const queued = Math.max(reported?.queuedInputTokens ?? 0, statistics.pendingInputTokens?.(provider, modelId) ?? 0);
  const queueMs = (1000 * queued) / mean;
  const prefillMs = (1000 * request.inputTokens) / mean;
  return { candidate, queueMs, ttftMs: roundTripMs + queueMs + prefillMs, running };
}
