import { expect } from "chai";
import { branchesOf, instrumented, measuredFiles } from "../../scripts/coverage/branches.ts";

const source = `contract Example {
    function f(uint a, bool b) external returns (uint) {
        if (a > 1 && (b || a == 7)) return 1;
        for (uint i = 0; i < a; ++i) {}
        try this.f(a, b) {} catch {}
        return b ? 2 : 3;
    }
}
`;

describe("branches of a contract", () => {
  it("are both outcomes of every condition, each operand by itself, and the clauses of a try", () => {
    const branches = branchesOf("contracts/Example.sol", source);
    expect(branches.map(({ line, text, outcome }) => `${line} ${text}: ${outcome}`)).to.deep.equal([
      "3 a > 1: true",
      "3 a > 1: false",
      "3 (b || a == 7): true",
      "3 (b || a == 7): false",
      "3 b: true",
      "3 b: false",
      "3 a == 7: true",
      "3 a == 7: false",
      "4 i < a: true",
      "4 i < a: false",
      "5 {}: taken",
      "5 {}: taken",
      "6 b: true",
      "6 b: false",
    ]);
    expect(new Set(branches.map(({ tag }) => tag)).size, "each with a tag of its own").to.equal(branches.length);
  });

  it("are told by the instrumented contract, which keeps every line in its place and every condition's meaning", () => {
    const [first, , , , , , , , , , clause] = branchesOf("contracts/Example.sol", source);
    const lines = instrumented("contracts/Example.sol", source).split("\n");
    const told =
      /if \(wentWhere\(a > 1, 0x(\w+)\) && wentWhere\(\(wentWhere\(b, 0x\w+\) \|\| wentWhere\(a == 7, 0x\w+\)\), 0x\w+\)\) return 1;/;
    expect(told.exec(lines[2] ?? "")?.[1]).to.equal(first?.tag);
    expect(lines[4]).to.include(`this.f(a, b) {__NomicFoundationCoverage.sendHit(0x${clause?.tag});} catch`);
    expect(lines.slice(6, 8)).to.deep.equal(["    }", "}"]);
  });

  it("keep their tags when Hardhat has put statements between them", () => {
    const between = source.replace("return b ?", "__NomicFoundationCoverage.sendHit(1); return b ?");
    const tags = (text: string): readonly string[] => [...text.matchAll(/, 0x(\w{64})\)/g)].map(([, tag = ""]) => tag);
    expect(tags(instrumented("contracts/Example.sol", between))).to.deep.equal(
      tags(instrumented("contracts/Example.sol", source)),
    );
  });

  it("are counted in the contracts, their libraries and types, and in nothing that is only there for tests", () => {
    expect(
      ["JobEscrow.sol", "libraries/Signatures.sol", "types/Job.sol"].every((file) =>
        measuredFiles.test(`contracts/${file}`),
      ),
    ).to.equal(true);
    expect(measuredFiles.test("contracts/mocks/TestToken.sol")).to.equal(false);
  });
});
