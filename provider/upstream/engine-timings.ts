import type { MeteredUsage } from "./usage-meter.ts";

/** What an engine says of its own work on one answer. */
export interface EngineTimings {
  /** Prompt tokens that it computed; those that its cache held are left out. */
  readonly promptTokens: number;
  /** From its first token to its last, ms. */
  readonly generatingMs: number;
}

/** Reads llama.cpp's `timings` (`prompt_n`, `predicted_ms`); undefined for anything else. */
export function readEngineTimings(value: unknown): EngineTimings | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { prompt_n: promptTokens, predicted_ms: generatingMs } = value as Readonly<Record<string, unknown>>;
  if (typeof promptTokens !== "number" || !Number.isSafeInteger(promptTokens) || promptTokens < 0) return undefined;
  if (typeof generatingMs !== "number" || !(generatingMs >= 0)) return undefined;
  return { promptTokens, generatingMs };
}

/**
 * When the first token of an answer that came in one piece was there, monotonic ms: as long before its end as the engine says that it
 * generated, or at its end when there is no second token. Undefined where that is not known, or cannot be true.
 */
export function firstOutputOf(
  answer: Readonly<Record<string, unknown>>,
  metered: MeteredUsage,
  span: { readonly startedAt: number; readonly endedAt: number },
): number | undefined {
  const { startedAt, endedAt } = span;
  if (!metered.estimated && metered.usage.outputTokens === 1) return endedAt;
  // Several choices are generated beside one another, and timings tell of one.
  if (!Array.isArray(answer.choices) || answer.choices.length !== 1) return undefined;
  const timings = readEngineTimings(answer.timings);
  if (timings === undefined || timings.generatingMs > endedAt - startedAt) return undefined;
  return endedAt - timings.generatingMs;
}
