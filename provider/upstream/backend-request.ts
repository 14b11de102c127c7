import type { CompletionRequest } from "../admission/completion-request.ts";
import { setMembers } from "./json-members.ts";

/**
 * The body for the backend: the gateway's own bytes, with the model's name at the backend where that differs, with a usage chunk
 * asked for in a stream that does not ask for it (what is not metered cannot be settled), and with a bound of its output where one is
 * given.
 */
export function backendBody(
  body: Buffer,
  request: CompletionRequest,
  terms: { readonly model: string; readonly maxOutputTokens: number | undefined },
): Buffer {
  const { model: backendModel, maxOutputTokens } = terms;
  const changes = new Map<string, string>();
  if (maxOutputTokens !== undefined) changes.set("max_tokens", String(maxOutputTokens));
  if (backendModel !== request.model) changes.set("model", JSON.stringify(backendModel));
  if (request.stream && !request.includesUsage) {
    changes.set("stream_options", JSON.stringify({ ...request.streamOptions, include_usage: true }));
  }
  return changes.size === 0 ? body : setMembers(body, changes);
}
