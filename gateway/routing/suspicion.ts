import type { Address } from "viem";
import type { LiveStatistics } from "./types.ts";

/** Outcomes before anything is said of a provider. */
const leastSamples = 3;
/** Success ratio, prior included, under which a provider counts as broken. */
const brokenRatio = 0.5;
/** Recent failures (half-life 30 s) above which not even a probe is sent. */
const quietFailures = 3;

/**
 * Whether a provider fails most of its requests. It is then left out, because each failed attempt costs a transaction and the client's
 * time, and because its slots are free exactly when everybody else's are taken. After a while of quiet one probe at a time goes
 * through: a success restores it, a failure starts another quiet time.
 */
export function isSuspect(statistics: LiveStatistics, provider: Address, modelId: string): boolean {
  if (statistics.hasFailed?.(provider) === false) return false;
  const measured = statistics.measured(provider, modelId);
  if (measured === undefined || measured.samples < leastSamples || measured.successRatio >= brokenRatio) return false;
  return measured.recentFailures >= quietFailures || statistics.inFlight(provider) > 0;
}
