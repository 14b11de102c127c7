import type { Clock } from "../../protocol/clock.ts";
import { delay } from "./delay.ts";
import type { Engine } from "./engine.ts";
import { StopMatcher } from "./stop-matcher.ts";
import { tokenizer } from "./tokenizer.ts";
import type { Token } from "./vocabulary.ts";

/** How fast an answer comes, on top of what the engine needs. Milliseconds by the clock. */
export interface Pace {
  readonly clock: Clock;
  /** Before every token of the answer. */
  readonly tokenDelayMs: number;
  /** Before the first token, for each token of the prompt that was not cached. */
  readonly promptTokenDelayMs: number;
}

/** One token that is about to be written. */
export interface TokenStep {
  /** Number of the HTTP request at this backend, from 1. */
  readonly request: number;
  readonly model: string;
  readonly requestId: string;
  /** Which of the request's answers. */
  readonly choice: number;
  /** Place of the token in the answer, from 0. */
  readonly index: number;
  readonly signal: AbortSignal;
}

/**
 * Called before each token. What it returns is awaited, so that a test can hold an answer; `"cut"` makes the server break the
 * connection in the middle of the answer.
 */
export type TokenHook = (step: TokenStep) => "cut" | undefined | Promise<"cut" | undefined>;

/** A hook asked for the connection to be broken. */
export class CutError extends Error {
  override readonly name = "CutError";

  constructor() {
    super("the answer was cut by a hook");
  }
}

/** One answer to write. */
export interface CompletionRequest {
  readonly prompt: readonly Token[];
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number;
  readonly stops: readonly string[];
  readonly signal: AbortSignal;
  readonly pace: Pace;
  readonly beforeToken: (index: number) => ReturnType<TokenHook>;
  /** Takes the next part of the text, never empty; what it returns is awaited, which is how a slow reader slows the model. */
  readonly onText: (text: string) => void | Promise<void>;
  readonly onToken: () => void;
}

/** What an answer came to. */
export interface Completion {
  readonly finishReason: "stop" | "length";
  /** Tokens that the model wrote, those of a stop text included. */
  readonly completionTokens: number;
  /** Tokens of the prompt that were already known. */
  readonly cachedTokens: number;
  /** From the engine's begin on the prompt to the first token, ms; to the end where there is none. */
  readonly promptMs: number;
  /** From the first token to the end, ms. */
  readonly generatingMs: number;
}

/** Lets the engine write one answer. Throws the signal's reason, a `CutError`, or what the engine throws. */
export async function complete(engine: Engine, request: CompletionRequest): Promise<Completion> {
  const { pace, prompt, signal } = request;
  const { clock } = pace;
  const decoder = tokenizer.decoder();
  const matcher = new StopMatcher(request.stops);
  let cachedTokens = 0;
  let completionTokens = 0;
  let begunAt = clock.monotonic();
  let firstAt: number | undefined;
  const tokens = engine.generate({
    prompt,
    maxTokens: request.maxTokens,
    minTokens: request.minTokens,
    temperature: request.temperature,
    topP: request.topP,
    seed: request.seed,
    signal,
    onPrompt: (cached) => {
      cachedTokens = cached;
      // Only now: before, the answer may have waited for its turn in the engine.
      begunAt = clock.monotonic();
    },
  });
  const end = (finishReason: Completion["finishReason"]): Completion => {
    const endedAt = clock.monotonic();
    const generatingSince = firstAt ?? endedAt;
    const times = { promptMs: generatingSince - begunAt, generatingMs: endedAt - generatingSince };
    return { finishReason, completionTokens, cachedTokens, ...times };
  };
  // Nothing is awaited that is not there: a turn of the event loop's queue for each token is what a fast engine would cost most.
  for await (const token of tokens) {
    if (completionTokens === 0) await delay(clock, pace.promptTokenDelayMs * (prompt.length - cachedTokens), signal);
    if (pace.tokenDelayMs > 0) await delay(clock, pace.tokenDelayMs, signal);
    const verdict = request.beforeToken(completionTokens);
    if ((verdict instanceof Promise ? await verdict : verdict) === "cut") throw new CutError();
    signal.throwIfAborted();
    firstAt ??= clock.monotonic();
    completionTokens += 1;
    request.onToken();
    const { text, stopped } = matcher.push(decoder.push(token));
    const taken = text === "" ? undefined : request.onText(text);
    if (taken !== undefined) await taken;
    if (stopped) return end("stop");
  }
  const last = matcher.push(decoder.end());
  const rest = last.stopped ? last.text : last.text + matcher.end();
  if (rest !== "") await request.onText(rest);
  return end(completionTokens < request.maxTokens ? "stop" : "length");
}
