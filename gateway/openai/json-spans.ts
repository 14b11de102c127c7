/**
 * Finds where values lie in JSON text, so that one value can be replaced while every other byte stays as the sender wrote it
 * (big numbers, duplicate-free key order, spacing). The text must already be known to be valid JSON.
 */

/** One member of an object: offsets into the text, `valueEnd` exclusive. */
export interface MemberSpan {
  readonly key: string;
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** One element of an array: offsets into the text, `end` exclusive. */
export interface ElementSpan {
  readonly start: number;
  readonly end: number;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Offset of the first character at or after `at` that is not JSON white space. */
export function skipSpace(text: string, at: number): number {
  let position = at;
  while (position < text.length) {
    const code = text.charCodeAt(position);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
    position += 1;
  }
  return position;
}

/** Members of the object whose `{` is at `at`; empty when there is no object there. */
export function objectMembers(text: string, at: number): readonly MemberSpan[] {
  const members: MemberSpan[] = [];
  if (text.charCodeAt(at) !== openBrace) return members;
  let position = skipSpace(text, at + 1);
  while (position < text.length && text.charCodeAt(position) !== closeBrace) {
    const keyStart = position;
    const keyEnd = endOfString(text, keyStart);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const valueEnd = endOfValue(text, valueStart);
    members.push({ key: JSON.parse(text.slice(keyStart, keyEnd)) as string, keyStart, valueStart, valueEnd });
    position = skipSpace(text, valueEnd);
    if (text.charCodeAt(position) === comma) position = skipSpace(text, position + 1);
  }
  return members;
}

/** Elements of the array whose `[` is at `at`; empty when there is no array there. */
export function arrayElements(text: string, at: number): readonly ElementSpan[] {
  const elements: ElementSpan[] = [];
  if (text.charCodeAt(at) !== openBracket) return elements;
  let position = skipSpace(text, at + 1);
  while (position < text.length && text.charCodeAt(position) !== closeBracket) {
    const end = endOfValue(text, position);
    elements.push({ start: position, end });
    position = skipSpace(text, end);
    if (text.charCodeAt(position) === comma) position = skipSpace(text, position + 1);
  }
  return elements;
}

/** The span of one member of the object at `at`; the last one when the key is there twice, as JSON.parse takes it. */
export function memberOf(text: string, at: number, key: string): MemberSpan | undefined {
  return objectMembers(text, at).findLast((member) => member.key === key);
}

/** Replacement of the text between two offsets. */
export interface Splice {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Applies replacements that do not overlap, in any order. */
export function applySplices(text: string, splices: readonly Splice[]): string {
  let result = "";
  let position = 0;
  for (const splice of splices.toSorted((a, b) => a.start - b.start)) {
    result += text.slice(position, splice.start) + splice.text;
    position = splice.end;
  }
  return result + text.slice(position);
}

function endOfString(text: string, at: number): number {
  let position = at + 1;
  for (;;) {
    const end = text.indexOf('"', position);
    if (end === -1) return text.length;
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === backslash && end - 1 - escapes > at) escapes += 1;
    if (escapes % 2 === 0) return end + 1;
    position = end + 1;
  }
}

function endOfValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === quote) return endOfString(text, at);
  if (first !== openBrace && first !== openBracket) {
    let position = at;
    while (position < text.length) {
      const code = text.charCodeAt(position);
      if (code === comma || code === closeBrace || code === closeBracket || code <= 0x20) break;
      position += 1;
    }
    return position;
  }
  let depth = 0;
  let position = at;
  while (position < text.length) {
    const code = text.charCodeAt(position);
    if (code === quote) {
      position = endOfString(text, position);
      continue;
    }
    if (code === openBrace || code === openBracket) depth += 1;
    else if (code === closeBrace || code === closeBracket) {
      depth -= 1;
      if (depth === 0) return position + 1;
    }
    position += 1;
  }
  return position;
}
