const quote = 34;
const comma = 44;
const colon = 58;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;

/** Where one member of a JSON object stands, in bytes. */
interface Member {
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/**
 * Sets members of a JSON object and leaves every other byte as it is: number formats, big integers, unknown fields and escapes
 * survive, as they would not through parse and stringify. Repeated names are all replaced; absent ones are added at the end.
 *
 * @param json UTF-8 text of a JSON object that `JSON.parse` accepted; anything else gives an undefined result.
 * @param changes JSON texts of the new values, by name.
 */
export function setMembers(json: Buffer, changes: ReadonlyMap<string, string>): Buffer {
  const { members, end } = scanMembers(json);
  const pieces: Buffer[] = [];
  const absent = new Map(changes);
  let from = 0;
  for (const member of members) {
    const value = changes.get(member.name);
    if (value === undefined) continue;
    absent.delete(member.name);
    pieces.push(json.subarray(from, member.valueStart), Buffer.from(value));
    from = member.valueEnd;
  }
  pieces.push(json.subarray(from, end));
  let isFirst = members.length === 0;
  for (const [name, value] of absent) {
    pieces.push(Buffer.from(`${isFirst ? "" : ","}${JSON.stringify(name)}:${value}`));
    isFirst = false;
  }
  pieces.push(json.subarray(end));
  return Buffer.concat(pieces);
}

/** Members of the outermost object and the offset of its closing brace. */
function scanMembers(json: Buffer): { readonly members: readonly Member[]; readonly end: number } {
  const members: Member[] = [];
  let at = skipTo(json, 0, openBrace) + 1;
  for (;;) {
    while (at < json.length && json[at] !== quote && json[at] !== closeBrace) at += 1;
    if (at >= json.length || json[at] === closeBrace) return { members, end: at };
    const nameEnd = skipString(json, at);
    const name = JSON.parse(json.toString("utf8", at, nameEnd)) as string;
    at = skipTo(json, nameEnd, colon) + 1;
    while (isSpace(json[at])) at += 1;
    const valueStart = at;
    at = skipValue(json, at);
    members.push({ name, valueStart, valueEnd: at });
  }
}

function skipTo(json: Buffer, from: number, byte: number): number {
  const at = json.indexOf(byte, from);
  return at === -1 ? json.length : at;
}

/** Offset after the string that starts at `at`. */
function skipString(json: Buffer, at: number): number {
  let index = at + 1;
  while (index < json.length && json[index] !== quote) index += json[index] === backslash ? 2 : 1;
  return index + 1;
}

/** Offset after the value that starts at `at`. */
function skipValue(json: Buffer, at: number): number {
  let index = at;
  let depth = 0;
  while (index < json.length) {
    const byte = json[index];
    if (byte === quote) {
      index = skipString(json, index);
      if (depth === 0) return index;
      continue;
    }
    if (byte === openBrace || byte === openBracket) depth += 1;
    else if (byte === closeBrace || byte === closeBracket) {
      if (depth === 0) return index;
      depth -= 1;
      if (depth === 0) return index + 1;
    } else if (depth === 0 && (byte === comma || isSpace(byte))) return index;
    index += 1;
  }
  return index;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 9 || byte === 10 || byte === 13;
}
