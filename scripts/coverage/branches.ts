import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { z } from "zod";
import { child, children, type Node, range, visit } from "../mutation/operators.ts";

/** Files whose branches are counted. */
export const measuredFiles = /^contracts\/(?:[A-Z]\w+|(?:libraries|types)\/\w+)\.sol$/;

/** A way that the code can go: a condition that holds, one that does not, or a clause of a `try`. */
export interface Branch {
  readonly file: string;
  readonly line: number;
  /** The condition, or the clause, as written. */
  readonly text: string;
  readonly outcome: "true" | "false" | "taken";
  /** What the instrumented code says when it goes that way: 32 bytes as 64 hex digits. */
  readonly tag: string;
}

/** A condition or clause in its source. */
interface Place {
  readonly kind: "condition" | "clause";
  /** In bytes. */
  readonly start: number;
  readonly end: number;
}

const outputSchema = z.object({
  errors: z.array(z.object({ severity: z.string(), formattedMessage: z.string() })).default([]),
  sources: z.record(z.string(), z.object({ ast: z.custom<Node>().optional() })).default({}),
});

/** The syntax tree of one file, which need not compile. */
function parse(text: string): Node {
  const solc = createRequire(import.meta.url)("solc") as { compile(input: string): string };
  const input = {
    language: "Solidity",
    sources: { file: { content: text } },
    settings: { stopAfter: "parsing", outputSelection: { "*": { "": ["ast"] } } },
  };
  const { errors, sources } = outputSchema.parse(JSON.parse(solc.compile(JSON.stringify(input))));
  const fault = errors.find(({ severity }) => severity === "error");
  if (fault !== undefined) throw new Error(fault.formattedMessage);
  const tree = sources["file"]?.ast;
  if (tree === undefined) throw new Error("the compiler gave no syntax tree");
  return tree;
}

/** Nodes that choose by a condition. */
const choosing: ReadonlySet<string> = new Set([
  "IfStatement",
  "WhileStatement",
  "DoWhileStatement",
  "ForStatement",
  "Conditional",
]);

/** Every condition that decides something, each operand of `&&` and `||` by itself, and every clause of a `try`. In source order. */
function placesIn(text: string): readonly Place[] {
  const places = new Map<number, Place>();
  const note = (kind: Place["kind"], node: Node | undefined): void => {
    if (node === undefined) return;
    const [start, end] = range(node);
    const known = places.get(start);
    // Of an operand and the whole that begins with it the operand tells more.
    if (known === undefined || end < known.end) places.set(start, { kind, start, end });
  };
  visit(parse(text), (node) => {
    if (choosing.has(node.nodeType)) note("condition", child(node, "condition"));
    if (node.nodeType === "BinaryOperation" && /^(?:&&|\|\|)$/.test(String(node["operator"]))) {
      note("condition", child(node, "leftExpression"));
      note("condition", child(node, "rightExpression"));
    }
    if (node.nodeType === "TryStatement") {
      for (const clause of children(node, "clauses")) note("clause", child(clause, "block"));
    }
  });
  return [...places.values()].toSorted((a, b) => a.start - b.start);
}

/** Number of a place, even; odd is the condition that does not hold. */
function tagOf(file: string, place: number, outcome: Branch["outcome"]): string {
  const name = createHash("sha256").update(`${file} ${place}`).digest("hex").slice(0, 62);
  return `${name}${outcome === "false" ? "01" : "00"}`;
}

/** The branches of a file as written. */
export function branchesOf(file: string, text: string): readonly Branch[] {
  const bytes = Buffer.from(text);
  return placesIn(text).flatMap(({ kind, start, end }, place) => {
    const before = bytes.subarray(0, start).toString();
    const outcomes: readonly Branch["outcome"][] = kind === "clause" ? ["taken"] : ["true", "false"];
    return outcomes.map((outcome) => ({
      file,
      line: before.split("\n").length,
      text: bytes.subarray(start, end).toString().replaceAll(/\s+/g, " "),
      outcome,
      tag: tagOf(file, place, outcome),
    }));
  });
}

/**
 * A file that says which way it goes, through the library that Hardhat's coverage brings into every file. It may have been instrumented
 * by Hardhat already: that adds statements and leaves conditions as they are, so that places keep their numbers.
 */
export function instrumented(file: string, text: string): string {
  const bytes = Buffer.from(text);
  const inserts: { readonly at: number; readonly order: number; readonly text: string }[] = [];
  for (const [place, { kind, start, end }] of placesIn(text).entries()) {
    const tag = `0x${tagOf(file, place, "true")}`;
    if (kind === "clause")
      inserts.push({ at: start + 1, order: 0, text: `__NomicFoundationCoverage.sendHit(${tag});` });
    else {
      // At one place what ends comes before what begins, and inner ends before outer ones.
      inserts.push({ at: start, order: Number.MAX_SAFE_INTEGER - end, text: "wentWhere(" });
      inserts.push({ at: end, order: -start, text: `, ${tag})` });
    }
  }
  let result = "";
  let done = 0;
  for (const insert of inserts.toSorted((a, b) => a.at - b.at || a.order - b.order)) {
    result += bytes.subarray(done, insert.at).toString() + insert.text;
    done = insert.at;
  }
  return `${result}${bytes.subarray(done).toString()}
function wentWhere(bool condition, uint256 tag) pure returns (bool) {
    __NomicFoundationCoverage.sendHit(condition ? tag : tag + 1);
    return condition;
}
`;
}
