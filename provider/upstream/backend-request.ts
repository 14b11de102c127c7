import type { CompletionRequest } from "../admission/completion-request.ts";
import { setMembers } from "./json-members.ts";

/**
 * The body for the backend: the gateway's own bytes, with the model's name at the backend where that differs and with a usage chunk
 * asked for in a stream that does not ask for it (what is not metered cannot be settled).
 */
export function backendBody(body: Buffer, request: CompletionRequest, backendModel: string): Buffer {
  const changes = new Map<string, string>();
  if (backendModel !== request.model) changes.set("model", JSON.stringify(backendModel));
  if (request.stream && !request.includesUsage) {
    changes.set("stream_options", JSON.stringify({ ...request.streamOptions, include_usage: true }));
  }
  return changes.size === 0 ? body : setMembers(body, changes);
}
