import { type Node, range, visit } from "./operators.ts";

interface FunctionPlace {
  readonly name: string;
  readonly file: string;
  readonly firstLine: number;
  readonly lastLine: number;
  /** Names that are called in it. */
  readonly calls: ReadonlySet<string>;
}

/** Which functions contain a line, and from where they are reached. By name, which is near enough to guess which tests to run first. */
export class Callers {
  readonly #functions: readonly FunctionPlace[];

  /** @param trees syntax trees by file. */
  constructor(trees: ReadonlyMap<string, Node>, sources: ReadonlyMap<string, string>) {
    this.#functions = [...trees].flatMap(([file, tree]) => placesOf(file, tree, sources.get(file) ?? ""));
  }

  /** Name of the function at a line; the line itself for what is in none. */
  at(file: string, line: number): string {
    const place = this.#functions.find((one) => one.file === file && one.firstLine <= line && line <= one.lastLine);
    return place === undefined ? `${file}:${line}` : `${file} ${place.name}`;
  }

  /** Names of the functions from which the one at a line is reached, itself first. */
  of(file: string, line: number): readonly string[] {
    const own = this.at(file, line).split(" ")[1];
    const reached = new Set(own === undefined ? [] : [own]);
    for (const name of reached) {
      for (const caller of this.#functions) if (caller.calls.has(name)) reached.add(caller.name);
    }
    return [...reached];
  }
}

/** A pattern of the ways in which tests call a function: by its name or, through a helper, by the verb that begins it. */
export function callPattern(name: string): string {
  const verb = /^[a-z]+/.exec(name)?.[0] ?? name;
  const whole = ["set", "is", "max", "min", "provider", "offering", "model", "market", ""].includes(verb);
  return String.raw`\b${whole ? name : verb}[A-Za-z]*\(`;
}

function placesOf(file: string, tree: Node, text: string): readonly FunctionPlace[] {
  const bytes = Buffer.from(text);
  const lineOf = (offset: number): number => bytes.subarray(0, offset).toString().split("\n").length;
  const places: FunctionPlace[] = [];
  visit(tree, (node) => {
    if (node.nodeType !== "FunctionDefinition") return;
    const [start, end] = range(node);
    const name = String(node["name"]) || String(node["kind"]);
    const body = bytes.subarray(start, end).toString();
    const calls = new Set(
      [...body.matchAll(/\b(\w+)\(/g)].map(([, called = ""]) => called).filter((one) => one !== name),
    );
    places.push({ name, file, firstLine: lineOf(start), lastLine: lineOf(end), calls });
  });
  return places;
}
