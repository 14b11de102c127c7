import type { Completion } from "./completion.ts";

/** What all frames of one answer have in common. */
export interface FrameContext {
  readonly kind: "chat" | "text";
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly fingerprint: string;
}

/** OpenAI's usage object. */
export interface UsageBody {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** llama.cpp's object of what an answer took, ms. A rate without a time or a count is `null` on the wire, as there. */
export interface TimingsBody {
  /** Tokens of the prompt that were known; `prompt_n` are the others. */
  readonly cache_n: number;
  readonly prompt_n: number;
  /** To the first token. */
  readonly prompt_ms: number;
  readonly prompt_per_token_ms: number;
  readonly prompt_per_second: number;
  readonly predicted_n: number;
  /** From the first token to the end. */
  readonly predicted_ms: number;
  readonly predicted_per_token_ms: number;
  readonly predicted_per_second: number;
}

/** One finished answer. */
export interface Answer {
  readonly index: number;
  readonly text: string;
  readonly finishReason: Completion["finishReason"];
}

/** The end of a stream. */
export const doneFrame = "data: [DONE]\n\n";

export function usageBody(promptTokens: number, completionTokens: number, cachedTokens: number): UsageBody {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** @param promptTokens of the whole prompt. */
export function timingsBody(promptTokens: number, completion: Completion): TimingsBody {
  const { cachedTokens, promptMs, completionTokens, generatingMs } = completion;
  const computed = promptTokens - cachedTokens;
  return {
    cache_n: cachedTokens,
    prompt_n: computed,
    prompt_ms: promptMs,
    prompt_per_token_ms: promptMs / computed,
    prompt_per_second: (1000 * computed) / promptMs,
    predicted_n: completionTokens,
    predicted_ms: generatingMs,
    predicted_per_token_ms: generatingMs / completionTokens,
    predicted_per_second: (1000 * completionTokens) / generatingMs,
  };
}

/** The body of an answer that is not streamed. */
export function answerBody(
  context: FrameContext,
  answers: readonly Answer[],
  usage: UsageBody,
  timings: TimingsBody | undefined,
): string {
  return JSON.stringify({
    ...head(context, false),
    choices: answers.map((answer) => finishedChoice(context, answer)),
    usage,
    timings,
  });
}

/** Writes the SSE frames of one answer; what does not change between them is put into text once. */
export class FrameWriter {
  readonly #context: FrameContext;
  readonly #head: string;
  readonly #tail: string;

  /** @param includeUsage The client asked for usage: every frame before it says `"usage":null`. */
  constructor(context: FrameContext, includeUsage: boolean) {
    this.#context = context;
    this.#head = `data: ${JSON.stringify(head(context, true)).slice(0, -1)},"choices":[`;
    this.#tail = includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
  }

  /** The first frame of a chat's answer; text completions have none. */
  role(index: number): string {
    const delta = '{"role":"assistant","content":"","refusal":null}';
    return `${this.#head}{"index":${index},"delta":${delta},"logprobs":null,"finish_reason":null}${this.#tail}`;
  }

  text(index: number, text: string): string {
    const content = JSON.stringify(text);
    const choice =
      this.#context.kind === "chat"
        ? `{"index":${index},"delta":{"content":${content}},"logprobs":null,"finish_reason":null}`
        : `{"text":${content},"index":${index},"logprobs":null,"finish_reason":null}`;
    return this.#head + choice + this.#tail;
  }

  finish(index: number, reason: Completion["finishReason"]): string {
    const choice =
      this.#context.kind === "chat"
        ? `{"index":${index},"delta":{},"logprobs":null,"finish_reason":"${reason}"}`
        : `{"text":"","index":${index},"logprobs":null,"finish_reason":"${reason}"}`;
    return this.#head + choice + this.#tail;
  }

  usage(usage: UsageBody): string {
    return `${this.#head}],"usage":${JSON.stringify(usage)}}\n\n`;
  }
}

function head(
  { kind, id, created, model, fingerprint }: FrameContext,
  streamed: boolean,
): Record<string, string | number> {
  const object = kind === "text" ? "text_completion" : streamed ? "chat.completion.chunk" : "chat.completion";
  return { id, object, created, model, system_fingerprint: fingerprint };
}

function finishedChoice({ kind }: FrameContext, { index, text, finishReason }: Answer): Record<string, unknown> {
  if (kind === "text") return { text, index, logprobs: null, finish_reason: finishReason };
  const message = { role: "assistant", content: text, refusal: null, annotations: [] };
  return { index, message, logprobs: null, finish_reason: finishReason };
}
