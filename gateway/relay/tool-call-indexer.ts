import { isObject, type JsonObject } from "../openai/field-types.ts";
import { applySplices, arrayElements, memberOf, skipSpace, type Splice } from "../openai/json-spans.ts";

/** State of one choice's tool calls. */
interface ChoiceCalls {
  readonly byId: Map<string, number>;
  next: number;
  last: number;
}

/**
 * Gives tool-call deltas without an `index` a stable one: clients join the pieces of a call by it. A new id is a new call, a known id
 * its own, a piece without id belongs to the call before it.
 */
export class ToolCallIndexer {
  readonly #choices = new Map<number, ChoiceCalls>();

  /** The chunk's JSON with missing indexes filled in; the same text when none is missing. `chunk` is the parsed text. */
  mend(text: string, chunk: JsonObject): string {
    if (!Array.isArray(chunk.choices)) return text;
    const splices: Splice[] = [];
    for (const [position, choice] of (chunk.choices as unknown[]).entries()) {
      if (!isObject(choice) || !isObject(choice.delta) || !Array.isArray(choice.delta.tool_calls)) continue;
      const calls = this.#callsOf(typeof choice.index === "number" ? choice.index : position);
      for (const [place, call] of (choice.delta.tool_calls as unknown[]).entries()) {
        if (!isObject(call)) continue;
        if (typeof call.index === "number") {
          note(calls, call.index, call.id);
          continue;
        }
        const index = assign(calls, call);
        const start = startOfCall(text, position, place);
        if (start === undefined) continue;
        const present = memberOf(text, start, "index");
        if (present !== undefined)
          splices.push({ start: present.valueStart, end: present.valueEnd, text: String(index) });
        else {
          const empty = text.charCodeAt(skipSpace(text, start + 1)) === 0x7d;
          splices.push({ start: start + 1, end: start + 1, text: `"index":${index}${empty ? "" : ","}` });
        }
      }
    }
    return splices.length === 0 ? text : applySplices(text, splices);
  }

  #callsOf(choice: number): ChoiceCalls {
    const known = this.#choices.get(choice);
    if (known !== undefined) return known;
    const created: ChoiceCalls = { byId: new Map(), next: 0, last: 0 };
    this.#choices.set(choice, created);
    return created;
  }
}

function note(calls: ChoiceCalls, index: number, id: unknown): void {
  if (typeof id === "string" && id !== "") calls.byId.set(id, index);
  calls.last = index;
  calls.next = Math.max(calls.next, index + 1);
}

function assign(calls: ChoiceCalls, call: JsonObject): number {
  const { id } = call;
  const known = typeof id === "string" ? calls.byId.get(id) : undefined;
  if (known !== undefined) {
    calls.last = known;
    return known;
  }
  const startsCall =
    (typeof id === "string" && id !== "") ||
    (isObject(call.function) && typeof call.function.name === "string" && call.function.name !== "");
  if (startsCall || calls.next === 0) {
    const index = calls.next;
    note(calls, index, id);
    return index;
  }
  return calls.last;
}

function startOfCall(text: string, choicePosition: number, callPosition: number): number | undefined {
  const choices = memberOf(text, skipSpace(text, 0), "choices");
  if (choices === undefined) return undefined;
  const choice = arrayElements(text, choices.valueStart)[choicePosition];
  if (choice === undefined) return undefined;
  const delta = memberOf(text, choice.start, "delta");
  if (delta === undefined) return undefined;
  const calls = memberOf(text, delta.valueStart, "tool_calls");
  return calls === undefined ? undefined : arrayElements(text, calls.valueStart)[callPosition]?.start;
}
