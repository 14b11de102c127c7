import type { CompletionRequest } from "./completion-request.ts";
import { isObject } from "./field-types.ts";
import { applySplices, objectMembers, type MemberSpan, skipSpace, type Splice } from "./json-spans.ts";

/** What the gateway lays down for the provider that got the job. */
export interface UpstreamTerms {
  /** Model id of the offering; replaces an absent or `auto` model. */
  readonly modelId: string;
  /** Most tokens of one choice, injected when the client set no bound, so that the escrow bounds the answer. */
  readonly maxTokens: number;
}

/**
 * The body that goes to the provider: the client's bytes, with `model` filled in, `max_tokens` injected when no bound was given and
 * `stream_options.include_usage` switched on for a stream (to meter it). Nothing else changes.
 */
export function upstreamBody(request: CompletionRequest, terms: UpstreamTerms): Buffer {
  const { text } = request;
  const open = skipSpace(text, 0);
  const members = objectMembers(text, open);
  const splices: Splice[] = [];
  const added: string[] = [];
  const set = (key: string, json: string): void => {
    const member = members.findLast((one) => one.key === key);
    if (member === undefined) added.push(`${JSON.stringify(key)}:${json}`);
    else splices.push({ start: member.valueStart, end: member.valueEnd, text: json });
  };
  if (request.modelId === undefined) set("model", JSON.stringify(terms.modelId));
  if (request.maxTokens === undefined) set("max_tokens", String(terms.maxTokens));
  if (request.stream && !request.includeUsage) set("stream_options", withUsage(text, members));
  if (added.length > 0) {
    const start = open + 1;
    splices.push({ start, end: start, text: added.join(",") + (members.length > 0 ? "," : "") });
  }
  return Buffer.from(splices.length === 0 ? text : applySplices(text, splices));
}

function withUsage(text: string, members: readonly MemberSpan[]): string {
  const member = members.findLast((one) => one.key === "stream_options");
  const given: unknown = member === undefined ? undefined : JSON.parse(text.slice(member.valueStart, member.valueEnd));
  return JSON.stringify({ ...(isObject(given) ? given : {}), include_usage: true });
}
