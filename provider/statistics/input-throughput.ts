import { IntervalUnion } from "./interval-union.ts";

/** Samples before a mean is published: fewer say more of their noise than of the engine. */
export const samplesToPublish = 5;
/** Shorter samples are accumulated into the next: a timer cannot measure them. */
export const shortestSampleMs = 10;
/** Samples that the mean looks back on, so that it follows the engine and a maximum of it means something. */
export const sampleWindow = 50;

/** One measurement: uncached prompt tokens and the time that the engine worked on them. */
interface Sample {
  readonly tokens: number;
  readonly ms: number;
}

/** What is known of the input throughput of a model generation, tokens per second; absent while unknown. */
export interface InputThroughputStatus {
  readonly lastMeanInputTps?: number;
  readonly maxInputTps?: number;
}

/** A prompt that was submitted to the engine and has not been accounted for yet. */
export interface PromptTicket {
  /** The first output came. Later calls do nothing. */
  firstOutput(nowMs: number): void;
  /** The answer ended; counts as a measurement when output came and tokens were computed. Later calls do nothing. */
  end(uncachedTokens: number | undefined): void;
}

/**
 * Input throughput of one model generation: uncached prompt tokens over the union of the intervals between submission and first
 * output. A prompt that never gave output, or whose tokens are unknown, is no measurement and its time does not count.
 */
export class InputThroughput {
  readonly #union = new IntervalUnion();
  /** Start of each prompt not accounted for yet. */
  readonly #outstanding = new Map<PromptTicket, number>();
  readonly #samples: Sample[] = [];
  #short: Sample = { tokens: 0, ms: 0 };
  #mean: number | undefined;
  #max: number | undefined;

  /** @param initialTps Configured value that stands until the first published measurement replaces it, in mean and in maximum. */
  constructor(initialTps?: number) {
    if (initialTps !== undefined && isRate(initialTps)) {
      this.#mean = initialTps;
      this.#max = initialTps;
      this.#isInitial = true;
    }
  }

  #isInitial = false;

  /** A prompt goes to the engine now (monotonic ms). */
  submit(nowMs: number): PromptTicket {
    let firstOutputAt: number | undefined;
    const ticket: PromptTicket = {
      firstOutput: (at) => {
        firstOutputAt ??= at;
      },
      end: (uncachedTokens) => {
        if (!this.#outstanding.delete(ticket)) return;
        if (firstOutputAt !== undefined && uncachedTokens !== undefined && uncachedTokens > 0) {
          this.#add({ tokens: uncachedTokens, ms: this.#union.cover(nowMs, firstOutputAt) });
        }
        this.#union.forgetBefore(Math.min(...this.#outstanding.values()));
      },
    };
    this.#outstanding.set(ticket, nowMs);
    return ticket;
  }

  /** Published values. */
  read(): InputThroughputStatus {
    return {
      ...(this.#mean === undefined ? {} : { lastMeanInputTps: this.#mean }),
      ...(this.#max === undefined ? {} : { maxInputTps: this.#max }),
    };
  }

  #add(sample: Sample): void {
    const tokens = this.#short.tokens + sample.tokens;
    const ms = this.#short.ms + sample.ms;
    if (ms < shortestSampleMs) {
      this.#short = { tokens, ms };
      return;
    }
    this.#short = { tokens: 0, ms: 0 };
    this.#samples.push({ tokens, ms });
    if (this.#samples.length > sampleWindow) this.#samples.shift();
    if (this.#samples.length < samplesToPublish) return;
    const mean = meanOf(this.#samples);
    if (!isRate(mean)) return;
    this.#mean = mean;
    this.#max = this.#isInitial || this.#max === undefined ? mean : Math.max(this.#max, mean);
    this.#isInitial = false;
  }
}

/** Tokens per second over all samples together. */
function meanOf(samples: readonly Sample[]): number {
  let tokens = 0;
  let ms = 0;
  for (const sample of samples) {
    tokens += sample.tokens;
    ms += sample.ms;
  }
  return (tokens * 1000) / ms;
}

/** Absent, zero, negative, NaN and infinite are no rates. */
export function isRate(value: number): boolean {
  return Number.isFinite(value) && value > 0;
}
