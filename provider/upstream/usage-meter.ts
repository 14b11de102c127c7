import type { SseFrame } from "../../protocol/sse.ts";
import type { Usage } from "../../protocol/usage.ts";
import { readEngineTimings } from "./engine-timings.ts";

/** What was metered of one answer. */
export interface MeteredUsage {
  readonly usage: Usage;
  /** True when the backend did not say the usage, so that it was counted from the deltas and the prompt's length. */
  readonly estimated: boolean;
  /** Input tokens that the backend took from its prefix cache; 0 when it does not say. */
  readonly cachedInputTokens: number;
}

/**
 * Reads the usage of a stream as it passes: from the usage chunk, or from usage that rides on any other chunk (the latest wins, as
 * some backends repeat a running total). Every delta with content that came after it, or without it, counts as one output token.
 */
export class UsageMeter {
  readonly #estimatedInput: number;
  #said: BackendUsage | undefined;
  #deltas = 0;
  /** Deltas after the chunk that said the usage last. */
  #deltasSinceSaid = 0;
  #finished = false;
  #done = false;
  #failure: string | undefined;

  /** @param estimatedInputTokens Stands in for the prompt's tokens until the backend says them. */
  constructor(estimatedInputTokens: number) {
    this.#estimatedInput = estimatedInputTokens;
  }

  /** Takes one block; true when it carries output of the model. */
  take(frame: SseFrame): boolean {
    if (frame.data === undefined) return false;
    if (frame.data === "[DONE]") {
      this.#done = true;
      return false;
    }
    const chunk = parseObject(frame.data);
    if (chunk === undefined) return false;
    if (isObject(chunk.error) || typeof chunk.error === "string") this.#failure ??= "error in the stream";
    let deltas = 0;
    for (const choice of Array.isArray(chunk.choices) ? (chunk.choices as unknown[]) : []) {
      if (!isObject(choice)) continue;
      if (typeof choice.finish_reason === "string") this.#finished = true;
      if (hasOutput(choice)) deltas += 1;
    }
    this.#deltas += deltas;
    this.#deltasSinceSaid += deltas;
    const said = readUsage(chunk);
    if (said !== undefined) {
      this.#said = said;
      this.#deltasSinceSaid = 0;
    }
    return deltas > 0;
  }

  /** Whether the stream said that it is over: `[DONE]`, or a finish reason where a backend leaves that out. */
  get isComplete(): boolean {
    return this.#done || this.#finished;
  }

  /** Whether the stream said `[DONE]`. */
  get isDone(): boolean {
    return this.#done;
  }

  /** Whether a block carried an `error` object inside the 200. */
  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Whether the model has said anything. */
  get hasOutput(): boolean {
    return this.#deltas > 0;
  }

  /** Takes over the usage of an answer that did not come as a stream. */
  note(metered: MeteredUsage): void {
    this.#said = { ...metered.usage, cachedInputTokens: metered.cachedInputTokens };
  }

  /** The usage so far. */
  read(): MeteredUsage {
    if (this.#said !== undefined) {
      const { inputTokens, outputTokens, cachedInputTokens } = this.#said;
      return {
        usage: { inputTokens, outputTokens: outputTokens + this.#deltasSinceSaid },
        estimated: this.#deltasSinceSaid > 0,
        cachedInputTokens,
      };
    }
    return {
      usage: { inputTokens: this.#estimatedInput, outputTokens: this.#deltas },
      estimated: true,
      cachedInputTokens: 0,
    };
  }
}

/** Usage as a backend says it. */
interface BackendUsage extends Usage {
  readonly cachedInputTokens: number;
}

/** The usage of a whole JSON answer; estimated from its text where the backend does not say it. */
export function usageOfAnswer(answer: Record<string, unknown>, estimatedInputTokens: number): MeteredUsage {
  const said = readUsage(answer);
  if (said !== undefined) {
    const { cachedInputTokens, ...usage } = said;
    return { usage, estimated: false, cachedInputTokens };
  }
  let bytes = 0;
  for (const choice of Array.isArray(answer.choices) ? (answer.choices as unknown[]) : []) {
    if (!isObject(choice)) continue;
    bytes += Buffer.byteLength(JSON.stringify(choice.message ?? choice.text ?? ""));
  }
  const usage = { inputTokens: estimatedInputTokens, outputTokens: Math.ceil(bytes / 4) };
  return { usage, estimated: true, cachedInputTokens: 0 };
}

/** Reads a JSON object; undefined for anything else. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function readUsage({ usage: value, timings }: Record<string, unknown>): BackendUsage | undefined {
  if (!isObject(value)) return undefined;
  const inputTokens = value.prompt_tokens;
  // Some backends leave the count out of a chunk before the first token.
  const outputTokens = value.completion_tokens ?? 0;
  if (!isCount(inputTokens) || !isCount(outputTokens)) return undefined;
  const details = value.prompt_tokens_details;
  const cached = isObject(details) && isCount(details.cached_tokens) ? details.cached_tokens : undefined;
  // llama.cpp tells what it computed before it told what it had cached.
  const computed = readEngineTimings(timings)?.promptTokens ?? inputTokens;
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens: Math.min(cached ?? Math.max(0, inputTokens - computed), inputTokens),
  };
}

/** Whether a choice carries more than its role and its end: text, reasoning, a refusal, a tool call. */
function hasOutput(choice: Record<string, unknown>): boolean {
  if (typeof choice.text === "string" && choice.text !== "") return true;
  if (!isObject(choice.delta)) return false;
  return Object.entries(choice.delta).some(
    ([name, value]) =>
      name !== "role" && value !== null && value !== "" && !(Array.isArray(value) && value.length === 0),
  );
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
