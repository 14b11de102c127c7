import { bodyHash } from "../../protocol/body-hash.ts";
import { T4tError } from "../../protocol/errors.ts";
import { inputTokensBound, inputTokensEstimate } from "../../protocol/money.ts";
import { readMessages, readPrompt, remoteMediaTokens } from "./conversation.ts";
import { checkFields, isObject, type JsonObject } from "./field-types.ts";
import { objectMembers, skipSpace } from "./json-spans.ts";

/** `chat`: /v1/chat/completions, `text`: /v1/completions. */
export type CompletionKind = "chat" | "text";

/** What the gateway knows of one request; the body itself stays as the client wrote it. */
export interface CompletionRequest {
  readonly kind: CompletionKind;
  /** The body exactly as received. */
  readonly text: string;
  /** undefined: any model will do (`model` absent or `auto`). */
  readonly modelId: string | undefined;
  readonly stream: boolean;
  /** The client asked for the usage chunk of a stream. */
  readonly includeUsage: boolean;
  /** Most tokens of one choice; undefined when the client set no bound. */
  readonly maxTokens: number | undefined;
  /** Choices that are generated and counted: `n` (or `best_of`) times the number of prompts. */
  readonly choices: number;
  /** Upper bound of the prompt's tokens, for money. */
  readonly inputTokensBound: number;
  /** Likely prompt tokens, for limits and routing. */
  readonly inputTokensEstimate: number;
  /** `prompt_cache_key` or `user`; a long one by its hash. */
  readonly affinityKey: string | undefined;
  /** First characters of the conversation. */
  readonly routingText: string;
}

/** The model id that means any model. */
export const anyModel = "auto";
/** Longest model id that a registry can hold, in UTF-8 bytes, with room: longer ids cannot exist. */
const maxModelIdBytes = 512;
/** Greatest `n`. */
const maxChoices = 128;
/** Tokens that a chat template may add by itself (default system prompt, dates, role marks). */
const templateTokens = 256;

/**
 * Reads a completion request. Throws `T4tError`: `invalid_json`, `missing_required_parameter` or `invalid_value`, with `param`
 * naming the field.
 */
export function parseCompletionRequest(kind: CompletionKind, body: Uint8Array): CompletionRequest {
  const text = decodeUtf8(body);
  const json = parseJson(text);
  return readCompletionRequest(kind, text, json, body.byteLength);
}

/** The same for a request that is already parsed, such as the `request` member of a job. `text` is its JSON. */
export function readCompletionRequest(
  kind: CompletionKind,
  text: string,
  json: unknown,
  bodyBytes: number,
): CompletionRequest {
  if (!isObject(json)) throw new T4tError("invalid_json", "The request body must be a JSON object.");
  refuseRepeatedMembers(text);
  checkFields(json);
  const conversation = kind === "chat" ? readMessages(json) : readPrompt(json);
  const stream = json.stream === true;
  const options = json.stream_options;
  return {
    kind,
    text,
    modelId: readModel(json),
    stream,
    includeUsage: isObject(options) && options.include_usage === true,
    maxTokens: readMaxTokens(json),
    choices: readChoices(json) * conversation.prompts,
    inputTokensBound: inputTokensBound(bodyBytes) + conversation.remoteMedia * remoteMediaTokens + templateTokens,
    inputTokensEstimate: inputTokensEstimate(conversation.textBytes) + conversation.media * 1024,
    affinityKey: boundedKey(firstText(json.prompt_cache_key, json.user)),
    routingText: conversation.routingText,
  };
}

/** Text of a body. Throws `invalid_json`: a byte replaced in silence would change what was asked for. */
export function decodeUtf8(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (cause) {
    throw new T4tError("invalid_json", "The request body is not valid UTF-8.", { cause });
  }
}

/** JSON of a body as text. Throws `invalid_json` with the parser's own words, which name a position and nothing else of ours. */
export function parseJson(text: string): unknown {
  if (text.trim() === "") throw new T4tError("invalid_json", "The request body is empty: send a JSON object.");
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(cause instanceof Error ? cause.message : "");
    throw new T4tError(
      "invalid_json",
      `The request body is not valid JSON${position === null ? "" : ` (${position[0]})`}.`,
      { cause },
    );
  }
}

/**
 * Money hangs on `max_tokens`: a body that says it twice could mean one thing here and another at the backend. Throws `invalid_value`
 * naming the member. `text` is JSON of an object.
 */
export function refuseRepeatedMembers(text: string): void {
  const seen = new Set<string>();
  for (const { key } of objectMembers(text, skipSpace(text, 0))) {
    if (seen.has(key))
      throw new T4tError("invalid_value", `The field '${printable(key)}' is given twice.`, { param: printable(key) });
    seen.add(key);
  }
}

function printable(key: string): string {
  return key.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 64);
}

function readModel(json: JsonObject): string | undefined {
  const { model } = json;
  if (model === undefined || model === null || model === anyModel) return undefined;
  if (typeof model !== "string") throw new T4tError("invalid_value", "'model' must be a string.", { param: "model" });
  if (model === "") throw new T4tError("missing_required_parameter", "'model' must not be empty.", { param: "model" });
  if (Buffer.byteLength(model) > maxModelIdBytes) {
    throw new T4tError("model_not_found", `The model '${model.slice(0, 64)}…' does not exist.`, { param: "model" });
  }
  return model;
}

const outputBounds = ["max_tokens", "max_completion_tokens", "n_predict"] as const;

/** The greatest of the bounds given: backends differ in which of two they follow. */
function readMaxTokens(json: JsonObject): number | undefined {
  let bound: number | undefined;
  for (const name of outputBounds) {
    const value = json[name];
    if (value === undefined || value === null) continue;
    if (typeof value !== "number" || !Number.isSafeInteger(value)) {
      throw new T4tError("invalid_value", `'${name}' must be an integer.`, { param: name });
    }
    if (value < 1) {
      throw new T4tError("invalid_value", `Invalid '${name}': ${value} is less than the minimum of 1.`, {
        param: name,
      });
    }
    bound = Math.max(bound ?? 0, value);
  }
  return bound;
}

function readChoices(json: JsonObject): number {
  let choices = 1;
  for (const name of ["n", "best_of"] as const) {
    const value = json[name];
    if (value === undefined || value === null) continue;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1 || value > maxChoices) {
      throw new T4tError("invalid_value", `'${name}' must be an integer from 1 to ${maxChoices}.`, { param: name });
    }
    choices = Math.max(choices, value);
  }
  return choices;
}

/** Thousands of keys are remembered, and a client may write any text: one of more characters is as good by its hash. */
const longestKey = 512;

function boundedKey(key: string | undefined): string | undefined {
  return key === undefined || key.length <= longestKey ? key : bodyHash(key);
}

function firstText(...values: readonly unknown[]): string | undefined {
  return values.find((value): value is string => typeof value === "string" && value !== "");
}
