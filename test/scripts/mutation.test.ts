import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Callers, callPattern } from "../../scripts/mutation/callers.ts";
import { type Mutant, mutantsOf, type Node } from "../../scripts/mutation/operators.ts";
import { Results } from "../../scripts/mutation/results.ts";

/** A node over the first place of `text` in `source`. */
function node(source: string, nodeType: string, text: string, more: Record<string, unknown> = {}): Node {
  const start = Buffer.from(source.slice(0, source.indexOf(text))).length;
  return { nodeType, src: `${start}:${Buffer.from(text).length}:0`, ...more };
}

describe("mutation of Solidity", () => {
  it("changes one place by bytes, also behind text that is not ASCII", () => {
    const source = "// → wide\nif (a < b) revert Late(a, b);\n";
    const at = Buffer.from(source.slice(0, source.indexOf("a < b"))).length;
    const condition = {
      nodeType: "BinaryOperation",
      src: `${at}:5:0`,
      operator: "<",
      leftExpression: { nodeType: "Identifier", src: `${at}:1:0` },
      rightExpression: { nodeType: "Identifier", src: `${at + 4}:1:0` },
    };
    const tree: Node = {
      nodeType: "IfStatement",
      src: `${at - 4}:30:0`,
      condition,
      trueBody: node(source, "RevertStatement", "revert Late(a, b);"),
    };
    const mutants = mutantsOf("x.sol", source, tree);
    expect(mutants.map(({ operator, after }) => `${operator}: ${after}`)).to.deep.equal([
      "check removed: false",
      "relational: a <= b",
      "relational: a >= b",
    ]);
    expect(mutants.map(({ source: mutant }) => mutant)).to.deep.equal([
      "// → wide\nif (false) revert Late(a, b);\n",
      "// → wide\nif (a <= b) revert Late(a, b);\n",
      "// → wide\nif (a >= b) revert Late(a, b);\n",
    ]);
    expect(mutants.every(({ line }) => line === 2)).to.equal(true);
  });

  it("leaves assembly alone, which the compiler's tree does not describe in the same terms", () => {
    const source = "assembly { x := 1 }";
    const inner = node(source, "Literal", "1", { kind: "number" });
    expect(mutantsOf("x.sol", source, node(source, "InlineAssembly", source, { AST: inner }))).to.deep.equal([]);
  });
});

describe("what is run first against a mutant", () => {
  const source = "function post() {\n  _open();\n}\nfunction _open() {\n  _store();\n}\nfunction _store() {\n}\n";
  const functions = [
    "function post() {\n  _open();\n}",
    "function _open() {\n  _store();\n}",
    "function _store() {\n}",
  ];
  const tree: Node = {
    nodeType: "SourceUnit",
    src: `0:${source.length}:0`,
    nodes: functions.map((text) => node(source, "FunctionDefinition", text, { name: /\w+(?=\()/.exec(text)?.[0] })),
  };
  const callers = new Callers(new Map([["x.sol", tree]]), new Map([["x.sol", source]]));

  it("are the tests that killed its neighbours, which are those in the same function", () => {
    expect(callers.at("x.sol", 2)).to.equal(callers.at("x.sol", 3));
    expect(callers.at("x.sol", 5)).not.to.equal(callers.at("x.sol", 2));
    expect(callers.at("x.sol", 99)).not.to.equal(callers.at("x.sol", 98));
  });

  it("and the tests that call a function from which it is reached, however deep", () => {
    expect(callers.of("x.sol", 8)).to.deep.equal(["_store", "_open", "post"]);
    expect(callers.of("x.sol", 1)).to.deep.equal(["post"]);
    expect(new RegExp(callPattern("completeJob")).test("await market.complete(job)")).to.equal(true);
    expect(new RegExp(callPattern("setMarket")).test("await registry.setOperator(next)")).to.equal(false);
  });
});

describe("results of a mutation run", () => {
  const mutant = (source: string): Mutant => ({ file: "x.sol", line: 1, operator: "", before: "", after: "", source });
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), "t4t-results-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("outlive the run, so that one that was stopped goes on", () => {
    const file = path.join(folder, "deep/results.json");
    new Results(file).set(mutant("a"), { verdict: "survived", place: "x.sol f" });
    const again = new Results(file);
    expect(again.get(mutant("a"))?.verdict).to.equal("survived");
    expect(again.get(mutant("b"))).to.equal(undefined);
  });

  it("tell which tests killed most at a place", () => {
    const results = new Results(path.join(folder, "results.json"));
    for (const [source, place, killer] of [
      ["a", "f", "one"],
      ["b", "f", "two"],
      ["c", "f", "two"],
      ["d", "g", "three"],
    ] as const) {
      results.set(mutant(source), { verdict: "killed", killer, place });
    }
    expect(results.killersAt("f")).to.deep.equal(["two", "one"]);
  });
});
