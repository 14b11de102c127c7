import { expect } from "chai";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { planTests, UnknownTestsError } from "../../scripts/testing/plan.ts";
import { faultOf, tallyStep } from "../../scripts/testing/tally.ts";

const root = path.join(import.meta.dirname, "../..");

describe("planTests", () => {
  const plan = (...wanted: string[]) =>
    planTests(wanted, (file) => !path.basename(file).includes(".")).map(({ runner, files }) => [runner, ...files]);

  it("runs everything for no argument", () => {
    expect(plan()).to.deep.equal([
      ["invariants"],
      ["hardhat"],
      ["mocha", "test/**/*.test.ts"],
      ["mocha", "test/e2e/**/*.test.ts", "test/{chain,provider,store}/**/crash.test.ts"],
    ]);
  });

  it("knows the suites by name, each once", () => {
    expect(plan("contracts", "invariants")).to.deep.equal([["invariants"], ["hardhat"]]);
    expect(plan("e2e")).to.deep.equal([
      ["mocha", "test/e2e/**/*.test.ts", "test/{chain,provider,store}/**/crash.test.ts"],
    ]);
  });

  it("sends each file to the program that runs it", () => {
    expect(plan("test/protocol/money.test.ts", "./test/contracts/escrow.ts", "test/gateway/")).to.deep.equal([
      ["hardhat", "test/contracts/escrow.ts"],
      ["mocha", "test/protocol/money.test.ts", "test/gateway/**/*.test.ts"],
    ]);
  });

  it("refuses a name that it does not know instead of running nothing", () => {
    for (const unknown of ["contract.s", "contracts/Escrow.t.sol"]) {
      expect(() => plan(unknown)).to.throw(UnknownTestsError, `${unknown} is no suite`);
    }
  });
});

describe("tallies", () => {
  it("count a program that failed without a failed test as one failure", () => {
    expect(tallyStep(undefined, false).failed).to.equal(1);
    expect(tallyStep(undefined, true).failed).to.equal(1);
    expect(tallyStep('{"passed":3,"failed":0,"pending":0}', false)).to.deep.equal({ passed: 3, failed: 1, pending: 0 });
    expect(tallyStep('{"passed":3,"failed":2,"pending":0}', false).failed).to.equal(2);
  });

  it("are a pass only when tests ran, none failed and none was left out", () => {
    expect(faultOf({ passed: 1, failed: 0, pending: 0 })).to.equal(undefined);
    expect(faultOf({ passed: 0, failed: 0, pending: 0 })).to.equal("no test ran");
    expect(faultOf({ passed: 1, failed: 0, pending: 1 })).to.match(/1 pending/);
    expect(faultOf({ passed: 1, failed: 1, pending: 0 })).to.equal("1 failed");
  });
});

describe("npm test", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), "t4t-test-runner-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function npmTest(source: string, ...options: string[]) {
    const file = path.join(folder, "sample.test.ts");
    writeFileSync(file, source);
    const { status, stdout } = spawnSync(
      process.execPath,
      [path.join(root, "scripts/test.ts"), "--no-build", file, ...options],
      { cwd: root, encoding: "utf8", env: { ...process.env, T4T_TEST_EXIT_GRACE_SECONDS: "1" } },
    );
    return { status, lines: stdout.trimEnd().split("\n") };
  }

  it("ends with the counts and exits with 0 when all pass", () => {
    const { status, lines } = npmTest('it("a", () => {}); it("b", () => {});');
    expect(lines.at(-1)).to.equal("2 passed, 0 failed");
    expect(status).to.equal(0);
  });

  it("exits with 1 when a test fails", () => {
    const { status, lines } = npmTest('it("a", () => {}); it("b", () => { throw new Error("no"); });');
    expect(lines.at(-1)).to.equal("1 passed, 1 failed");
    expect(status).to.equal(1);
  });

  it("exits with 1 when a test is pending, skipped or the only one", () => {
    for (const call of ['it("b")', 'it.skip("b", () => {})', 'it.only("b", () => {})']) {
      const { status, lines } = npmTest(`it("a", () => {}); ${call};`);
      expect(lines.at(-1), call).to.match(/^\d passed, [1-9]\d* failed$/);
      expect(status, call).to.equal(1);
    }
  });

  it("exits with 1 when nothing ran or a file does not load", () => {
    for (const source of ["export {};", 'throw new Error("no");', "syntax error"]) {
      const { status, lines } = npmTest(source);
      expect(lines.at(-1), source).to.match(/^0 passed, \d failed$/);
      expect(status, source).to.equal(1);
    }
  });

  it("prints one JSON object as its last line with --json", () => {
    const { lines } = npmTest('it("a", () => {});', "--json");
    expect(lines.at(-2)).to.equal("1 passed, 0 failed");
    expect(JSON.parse(lines.at(-1) ?? "")).to.include({ passed: 1, failed: 0, pending: 0, ok: true });
  });

  it("does not wait for ever for a program that leaves something open", () => {
    const { status, lines } = npmTest('it("a", () => { setInterval(() => {}, 1000); });');
    expect(lines.at(-1)).to.equal("1 passed, 1 failed");
    expect(status).to.equal(1);
  });
});
