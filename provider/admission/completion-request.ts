import { ProviderError } from "../errors.ts";

/** What admission and proxy need of an OpenAI request; everything else in it passes to the backend unread. */
export interface CompletionRequest {
  readonly model: string;
  readonly stream: boolean;
  /** Whether the request itself asks for a usage chunk. */
  readonly includesUsage: boolean;
  /** The request's `stream_options`, empty where it has none. */
  readonly streamOptions: Readonly<Record<string, unknown>>;
  /** Most tokens of one choice that the request allows; undefined when it sets no bound. */
  readonly maxOutputTokens: number | undefined;
  /** Choices that are generated and counted: `n` (or `best_of`) times the number of prompts. */
  readonly choices: number;
  /** UTF-8 bytes of the prompt's text, for estimates. */
  readonly promptBytes: number;
}

/**
 * Reads an OpenAI chat or text completion request. Throws `ProviderError` `invalid_request` when the body is not a JSON object, or
 * when a field that money or routing depends on has the wrong type.
 */
export function readCompletionRequest(body: Buffer): CompletionRequest {
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    throw new ProviderError("invalid_request", "the body is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ProviderError("invalid_request", "the body must be a JSON object");
  }
  const { model, stream, stream_options: options, ...rest } = value as Record<string, unknown>;
  if (typeof model !== "string" || model === "") {
    throw new ProviderError("invalid_request", "model must be a text", { param: "model" });
  }
  if (stream !== undefined && stream !== null && typeof stream !== "boolean") {
    throw new ProviderError("invalid_request", "stream must be a boolean", { param: "stream" });
  }
  return {
    model,
    stream: stream === true,
    includesUsage: isRecord(options) && options.include_usage === true,
    streamOptions: isRecord(options) ? options : {},
    // Backends differ in which of several they follow: what the greatest allows must be paid for.
    maxOutputTokens: greatest(outputBounds.map((name) => wholeNumber(rest, name, 0))),
    choices: Math.max(wholeNumber(rest, "n", 1) ?? 1, wholeNumber(rest, "best_of", 1) ?? 1) * promptsIn(rest.prompt),
    promptBytes: textBytes(rest.messages) + textBytes(rest.prompt),
  };
}

const outputBounds = ["max_tokens", "max_completion_tokens", "n_predict"] as const;

function wholeNumber(fields: Record<string, unknown>, name: string, least: number): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least) {
    throw new ProviderError("invalid_request", `${name} must be a whole number, at least ${least}`, { param: name });
  }
  return value;
}

function greatest(values: readonly (number | undefined)[]): number | undefined {
  const given = values.filter((value) => value !== undefined);
  return given.length === 0 ? undefined : Math.max(...given);
}

/** A list of texts or of token lists is as many prompts; a list of numbers is one. */
function promptsIn(prompt: unknown): number {
  return Array.isArray(prompt) && prompt.length > 0 && typeof prompt[0] !== "number" ? prompt.length : 1;
}

/** Bytes of all `text`, `content` and bare strings inside a prompt; images and other parts are the backend's to count. */
function textBytes(prompt: unknown): number {
  let bytes = 0;
  // An explicit stack: a stranger's body may be nested deeper than the call stack allows.
  const stack: unknown[] = [prompt];
  while (stack.length > 0) {
    const value = stack.pop();
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (Array.isArray(value)) for (const item of value) stack.push(item);
    else if (isRecord(value)) stack.push(value.content, value.text);
  }
  return bytes;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
