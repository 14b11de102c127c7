import { exponential, substream } from "../engine/random.ts";

/** One request of the load, the same for every arm of a seed. */
export interface TraceRequest {
  readonly id: number;
  readonly atMs: number;
  readonly session: number;
  readonly region: number;
  readonly inputTokens: number;
  readonly prefixTokens: number;
  readonly outputTokens: number;
}

/** A stretch of time with one rate. */
export interface LoadStep {
  readonly seconds: number;
  readonly perSecond: number;
}

/** The load of a run. */
export interface LoadConfig {
  readonly steps: readonly LoadStep[];
  /** Sessions that take turns; each stays in one region. */
  readonly sessions: number;
  readonly regions: number;
  readonly inputTokens: number;
  readonly prefixTokens: number;
  readonly maxOutputTokens: number;
  /** Fixed distance between requests in place of a Poisson process. */
  readonly regular?: boolean;
  /** Zipf exponent of the sessions' popularity; 0 or absent: all alike. */
  readonly skew?: number;
}

/** Draws the requests of one seed: Poisson arrivals, sessions, answer lengths. */
export function* drawTrace(config: LoadConfig, seed: number): IterableIterator<TraceRequest> {
  const arrivals = substream(seed, "arrivals");
  const sessions = substream(seed, "sessions");
  const lengths = substream(seed, "lengths");
  const pick = sessionPicker(config);
  let id = 0;
  let stepStart = 0;
  for (const step of config.steps) {
    const stepEnd = stepStart + step.seconds * 1000;
    const gap = 1000 / step.perSecond;
    const next = (): number => (config.regular === true ? gap : exponential(arrivals, gap));
    for (let atMs = stepStart + next(); atMs < stepEnd; atMs += next()) {
      const session = pick(sessions());
      yield {
        id,
        atMs,
        session,
        region: session % config.regions,
        inputTokens: config.inputTokens,
        prefixTokens: config.prefixTokens,
        outputTokens: 1 + Math.floor(lengths() * config.maxOutputTokens),
      };
      id += 1;
    }
    stepStart = stepEnd;
  }
}

function sessionPicker({ sessions, skew }: LoadConfig): (draw: number) => number {
  if (skew === undefined || skew === 0) return (draw) => Math.floor(draw * sessions);
  const weights = Array.from({ length: sessions }, (_, rank) => (rank + 1) ** -skew);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const cumulative: number[] = [];
  let sum = 0;
  for (const weight of weights) {
    sum += weight / total;
    cumulative.push(sum);
  }
  return (draw) =>
    Math.max(
      0,
      cumulative.findIndex((bound) => draw < bound),
    );
}
