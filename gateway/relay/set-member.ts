import { memberOf, skipSpace } from "../openai/json-spans.ts";

/**
 * The same JSON object with another text as one of its own members; unchanged where it has no such member. Every other character stays
 * as its sender wrote it.
 */
export function setMember(json: string, key: string, value: string): string {
  const member = memberOf(json, skipSpace(json, 0), key);
  if (member === undefined) return json;
  const text = JSON.stringify(value);
  if (json.slice(member.valueStart, member.valueEnd) === text) return json;
  return json.slice(0, member.valueStart) + text + json.slice(member.valueEnd);
}
