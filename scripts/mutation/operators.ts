/** A node of the compiler's syntax tree. */
export interface Node {
  readonly nodeType: string;
  /** "start:length:file", in bytes. */
  readonly src: string;
  readonly [key: string]: unknown;
}

/** One change of one place of one source file. */
export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly operator: string;
  readonly before: string;
  readonly after: string;
  readonly source: string;
}

interface Edit {
  readonly operator: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const replacements: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "==": ["!="],
  "!=": ["=="],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "&&": ["||"],
  "||": ["&&"],
  "&": ["|"],
  "|": ["&"],
  "<<": [">>"],
  ">>": ["<<"],
};
const relational: ReadonlySet<string> = new Set(["<", "<=", ">", ">=", "==", "!="]);

/**
 * Every mutant of a file: relational, arithmetic, bit and boolean operators replaced; conditions fixed to false or true; writes,
 * calls and events removed; constants one up and one down; `true` and `false` swapped; branches of `?:` swapped; neighbouring
 * arguments of one type swapped; modifiers removed. Inline assembly is left alone.
 */
export function mutantsOf(file: string, text: string, tree: Node): readonly Mutant[] {
  const bytes = Buffer.from(text);
  const cut = (start: number, end: number): string => bytes.subarray(start, end).toString();
  const edits: Edit[] = [];
  visit(tree, (node) => edits.push(...editsOf(node, cut)));
  return edits.map(({ operator, start, end, text: replacement }) => ({
    file,
    line: cut(0, start).split("\n").length,
    operator,
    before: cut(start, end).replaceAll(/\s+/g, " "),
    after: replacement.replaceAll(/\s+/g, " "),
    source: cut(0, start) + replacement + cut(end, bytes.length),
  }));
}

function editsOf(node: Node, cut: (start: number, end: number) => string): readonly Edit[] {
  const [start, end] = range(node);
  const textOf = (of: Node): string => cut(...range(of));
  switch (node.nodeType) {
    case "BinaryOperation": {
      const operator = String(node["operator"]);
      const left = child(node, "leftExpression");
      const right = child(node, "rightExpression");
      if (left === undefined || right === undefined) return [];
      const kind = relational.has(operator)
        ? "relational"
        : operator.length === 2 && /[&|]/.test(operator)
          ? "boolean"
          : "arithmetic";
      return (replacements[operator] ?? []).map((to) => ({
        operator: kind,
        start,
        end,
        text: `${cut(start, range(left)[1])} ${to} ${cut(range(right)[0], end)}`,
      }));
    }
    case "UnaryOperation": {
      const inner = child(node, "subExpression");
      if (node["operator"] !== "!" || inner === undefined) return [];
      return [{ operator: "negation removed", start, end, text: textOf(inner) }];
    }
    case "Conditional": {
      const [condition, yes, no] = ["condition", "trueExpression", "falseExpression"].map((key) => child(node, key));
      if (condition === undefined || yes === undefined || no === undefined) return [];
      const text = `${textOf(condition)} ? ${textOf(no)} : ${textOf(yes)}`;
      return [{ operator: "branches swapped", start, end, text }];
    }
    case "IfStatement": {
      const condition = child(node, "condition");
      const body = child(node, "trueBody");
      if (condition === undefined || body === undefined) return [];
      const [from, to] = range(condition);
      const reverts = /^\{?\s*revert\b/.test(textOf(body));
      const off = { operator: reverts ? "check removed" : "condition false", start: from, end: to, text: "false" };
      return reverts ? [off] : [off, { operator: "condition true", start: from, end: to, text: "true" }];
    }
    case "EmitStatement":
      return [{ operator: "event removed", start, end, text: "" }];
    case "ExpressionStatement": {
      const inner = child(node, "expression");
      if (inner?.nodeType === "Assignment") return [{ operator: "write removed", start, end, text: "" }];
      if (inner?.nodeType === "FunctionCall") return [{ operator: "call removed", start, end, text: "" }];
      return inner?.nodeType === "UnaryOperation" ? [{ operator: "write removed", start, end, text: "" }] : [];
    }
    case "Assignment": {
      const operator = String(node["operator"]);
      const to = operator === "+=" ? "-=" : operator === "-=" ? "+=" : undefined;
      const left = child(node, "leftHandSide");
      const right = child(node, "rightHandSide");
      if (to === undefined || left === undefined || right === undefined) return [];
      return [{ operator: "arithmetic", start, end, text: `${textOf(left)} ${to} ${textOf(right)}` }];
    }
    case "Literal": {
      const text = textOf(node);
      if (node["kind"] === "bool")
        return [{ operator: "constant", start, end, text: text === "true" ? "false" : "true" }];
      if (node["kind"] !== "number" || !/^[\d_]+$/.test(text)) return [];
      const value = BigInt(text.replaceAll("_", ""));
      const others = value === 0n ? [1n] : [value + 1n, value - 1n];
      return others.map((other) => ({ operator: "constant", start, end, text: other.toString() }));
    }
    case "FunctionCall": {
      if (node["kind"] !== "functionCall") return [];
      const parameters = children(node, "arguments");
      return parameters.slice(1).flatMap((second, index) => {
        const first = parameters[index];
        if (first === undefined || typeOf(first) !== typeOf(second) || textOf(first) === textOf(second)) return [];
        const [[from, middle], [again, to]] = [range(first), range(second)];
        const text = textOf(second) + cut(middle, again) + textOf(first);
        return [{ operator: "arguments swapped", start: from, end: to, text }];
      });
    }
    case "ModifierInvocation":
      // With arguments it is a base constructor.
      return !Array.isArray(node["arguments"]) ? [{ operator: "modifier removed", start, end, text: "" }] : [];
    default:
      return [];
  }
}

/** Looks at a node and all below it, outer ones first; inline assembly is left out. */
export function visit(node: Node, look: (node: Node) => void): void {
  if (node.nodeType === "InlineAssembly") return;
  look(node);
  for (const value of Object.values(node)) {
    for (const inner of Array.isArray(value) ? (value as readonly unknown[]) : [value]) {
      if (isNode(inner)) visit(inner, look);
    }
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "nodeType" in value && "src" in value;
}

/** The node under a key, if there is one. */
export function child(node: Node, key: string): Node | undefined {
  const value = node[key];
  return isNode(value) ? value : undefined;
}

/** The nodes of a list under a key. */
export function children(node: Node, key: string): readonly Node[] {
  const value = node[key];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

function typeOf(node: Node): string | undefined {
  const type = node["typeDescriptions"] as { readonly typeString?: string } | undefined;
  return type?.typeString;
}

/** Where a node begins and ends, in bytes. */
export function range(node: Node): [start: number, end: number] {
  const [start, length] = node.src.split(":").map(Number);
  if (start === undefined || length === undefined) throw new Error(`a node without place: ${node.src}`);
  return [start, start + length];
}
