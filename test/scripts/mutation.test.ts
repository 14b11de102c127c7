import { expect } from "chai";
import { mutantsOf, type Node } from "../../scripts/mutation/operators.ts";

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
