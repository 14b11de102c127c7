import { T4tError } from "../../protocol/errors.ts";

/** A JSON object of unknown members. */
export type JsonObject = Record<string, unknown>;

/** Whether a JSON value is an object (not null, not an array). */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Longest `stream_options`, as JSON. */
const maxStreamOptionsLength = 4096;

type FieldType =
  | "boolean"
  | "number"
  | "integer"
  | "string"
  | "object"
  | "array"
  | "string or array"
  | "string or object"
  | "boolean or integer";

/**
 * Types of the well-known fields, so that a mistake is named before a job is paid for. Everything else passes: backends know more
 * fields than this gateway ever will. null is always allowed and means absent.
 */
const fieldTypes: Readonly<Record<string, FieldType>> = {
  stream: "boolean",
  stream_options: "object",
  temperature: "number",
  top_p: "number",
  frequency_penalty: "number",
  presence_penalty: "number",
  seed: "integer",
  stop: "string or array",
  user: "string",
  prompt_cache_key: "string",
  tools: "array",
  tool_choice: "string or object",
  parallel_tool_calls: "boolean",
  response_format: "object",
  logit_bias: "object",
  logprobs: "boolean or integer",
  top_logprobs: "integer",
  metadata: "object",
};

/** Bounds of the well-known numbers beyond which no backend takes them. */
const bounds: Readonly<Record<string, readonly [least: number, most: number]>> = {
  temperature: [0, Number.MAX_VALUE],
  top_p: [0, 1],
  frequency_penalty: [-2, 2],
  presence_penalty: [-2, 2],
  top_logprobs: [0, Number.MAX_VALUE],
};

/** Refuses a well-known field of another type or out of its bounds. Throws `invalid_value` naming it. */
export function checkFields(json: JsonObject): void {
  checkTypes(json);
  for (const [name, [least, most]] of Object.entries(bounds)) {
    const value = json[name];
    if (typeof value !== "number" || (value >= least && value <= most)) continue;
    const range = most === Number.MAX_VALUE ? `at least ${least}` : `from ${least} to ${most}`;
    throw new T4tError("invalid_value", `'${name}' must be ${range}.`, { param: name });
  }
  if (isObject(json.stream_options) && json.stream !== true) {
    throw new T4tError("invalid_value", "'stream_options' is only allowed when 'stream' is true.", {
      param: "stream_options",
    });
  }
}

function checkTypes(json: JsonObject): void {
  for (const [name, value] of Object.entries(json)) {
    if (value === null || !Object.hasOwn(fieldTypes, name)) continue;
    const type = fieldTypes[name];
    if (type === undefined || type.split(" or ").some((one) => hasType(value, one))) continue;
    throw new T4tError(
      "invalid_value",
      `'${name}' must be ${type.startsWith("a") || type.startsWith("i") || type.startsWith("o") ? "an" : "a"} ${type}.`,
      {
        param: name,
      },
    );
  }
  const options = json.stream_options;
  if (isObject(options)) {
    const { include_usage: includeUsage } = options;
    if (includeUsage !== undefined && includeUsage !== null && typeof includeUsage !== "boolean") {
      throw new T4tError("invalid_value", "'stream_options.include_usage' must be a boolean.", {
        param: "stream_options.include_usage",
      });
    }
    // The gateway and the provider write it anew: it must be small enough for that, and no deeper than that allows.
    if (jsonLength(options, "stream_options") > maxStreamOptionsLength) {
      throw new T4tError("invalid_value", "'stream_options' is too long.", { param: "stream_options" });
    }
  }
}

/** Characters of a value as JSON. Throws `invalid_value` for one that is nested deeper than the call stack allows. */
export function jsonLength(value: unknown, param: string): number {
  try {
    return JSON.stringify(value).length;
  } catch (cause) {
    throw new T4tError("invalid_value", `'${param}' is nested too deeply.`, { param, cause });
  }
}

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
