import { execFile } from "node:child_process";
import path from "node:path";
import { expect } from "chai";
import { ArgumentError, asksForHelp } from "../../protocol/arguments.ts";

const root = path.join(import.meta.dirname, "../..");

/** Without the variables of the test run itself. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("T4T_")));

async function run(
  file: string,
  ...args: readonly string[]
): Promise<{ code: number | null; out: string; err: string }> {
  return await new Promise((resolve) => {
    const child = execFile(process.execPath, [file, ...args], { cwd: root, env }, (_, out, err) => {
      resolve({ code: child.exitCode, out, err });
    });
  });
}

describe("the arguments of a program that reads environment variables", () => {
  it("are none, or a wish for help, wherever it stands", () => {
    expect(asksForHelp([])).to.equal(false);
    for (const args of [["--help"], ["-h"], ["--port", "9000", "--help"]]) expect(asksForHelp(args)).to.equal(true);
  });

  it("are named when they would count for nothing", () => {
    for (const args of [["--port", "9000"], ["T4T_PORT=9000"], [""]]) {
      expect(() => asksForHelp(args)).to.throw(ArgumentError, `${args.join(" ")}: there are no options but --help`);
    }
  });

  for (const file of ["gateway/main.ts", "provider/main.ts"]) {
    it(`stop ${file} with one line and exit code 2, so that nobody takes a default for what was asked`, async function () {
      this.timeout(60_000);
      const { code, out, err } = await run(file, "--port", "9000");
      expect([code, out]).to.deep.equal([2, ""]);
      expect(err).to.match(/^--port 9000: there are no options but --help; .*\n$/);
      const help = await run(file, "--help");
      expect([help.code, help.err]).to.deep.equal([0, ""]);
      expect(help.out).to.include("environment variables");
    });
  }
});
