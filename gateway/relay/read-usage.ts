import type { Usage } from "../../protocol/usage.ts";
import { isObject } from "../openai/field-types.ts";

/** The `usage` object of a chunk or an answer; undefined when it is not there or not whole. */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const { prompt_tokens: inputTokens, completion_tokens: outputTokens } = value;
  // A backend that counts no answer (an embedding, an empty text) leaves the second figure out.
  const output = outputTokens ?? 0;
  if (!isCount(inputTokens) || !isCount(output)) return undefined;
  return { inputTokens, outputTokens: output };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
