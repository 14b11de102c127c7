import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";

const root = join(import.meta.dirname, "..", "..");

describe("the runner of the project's programs", () => {
  let folder: string;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), "t4t-run-"));
    mkdirSync(join(folder, "scripts"));
    copyFileSync(join(root, "scripts", "run.mjs"), join(folder, "scripts", "run.mjs"));
    writeFileSync(
      join(folder, "program.ts"),
      'const words: readonly string[] = process.argv.slice(2); console.log(words.join(" "));',
    );
  });

  after(() => {
    rmSync(folder, { recursive: true });
  });

  const runUnder = (needed: string) => {
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", engines: { node: `>=${needed}` } }));
    return spawnSync(process.execPath, ["scripts/run.mjs", "program.ts", "--once", "a b"], {
      cwd: folder,
      encoding: "utf8",
    });
  };

  it("runs a program with its arguments", () => {
    const { status, stdout, stderr } = runUnder("22.18");
    expect([status, stdout], stderr).to.deep.equal([0, "--once a b\n"]);
  });

  it("says in one line which Node is needed, where this one is too old, instead of failing on a file extension", () => {
    const { status, stdout, stderr } = runUnder("999.2");
    expect([status, stdout]).to.deep.equal([1, ""]);
    expect(stderr).to.match(/^T4T needs Node 999\.2 or newer, and this is \d+\.\d+\.\d+: .+\n$/);
  });
});
