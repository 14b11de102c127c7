import type { Token } from "./vocabulary.ts";

/** What an engine needs to write one answer. */
export interface GenerationRequest {
  readonly prompt: readonly Token[];
  /** At least 1; prompt and answer together fit into the engine's context. */
  readonly maxTokens: number;
  /** 0 = always the likeliest token; 0..2. */
  readonly temperature: number;
  /** Only the likeliest tokens that hold this share of probability; 0..1, 1 = all. */
  readonly topP: number;
  /** Unsigned 32-bit. The same engine, prompt, seed and options give the same answer. */
  readonly seed: number;
  /** The answer does not end before so many tokens, whatever the model thinks; 0..maxTokens. Benchmarks set both alike. */
  readonly minTokens: number;
  readonly signal: AbortSignal;
  /** Called once before the first token, with how many tokens of the prompt were already known and cost no work. */
  readonly onPrompt: (cachedTokens: number) => void;
}

/** A model that writes tokens. Its tokenizer is `tokenizer`, the same for every engine. */
export interface Engine {
  /** Short name for logs and the `system_fingerprint`. */
  readonly name: string;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Answers that it writes at the same time; more wait inside it. */
  readonly parallel: number;
  /**
   * Writes one answer, at most `maxTokens` tokens, without the end token: fewer mean that the model came to an end. It stops, and
   * frees what it holds, when the iteration ends early or the signal fires; then it throws the signal's reason.
   */
  generate(request: GenerationRequest): AsyncGenerator<Token, void, void>;
  /** Frees the model. No answer may be in work. */
  close(): Promise<void>;
}

/** The engine cannot run on this machine; the caller takes another. */
export class EngineUnavailableError extends Error {
  override readonly name = "EngineUnavailableError";
  readonly engine: string;

  constructor(engine: string, message: string, cause?: unknown) {
    super(`the ${engine} engine cannot run here: ${message}`, cause === undefined ? undefined : { cause });
    this.engine = engine;
  }
}
