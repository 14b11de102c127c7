import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";

const root = path.join(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
};

/** Scripts of package.json that are programs of ours; gateway and provider read variables, and their own tests hold their help. */
const programs = Object.entries(scripts).flatMap(([name, line]) => {
  const [, file] = /^(?:exec )?node (?:scripts\/run\.mjs )?(scripts\/\S+\.ts)$/.exec(line) ?? [];
  return file === undefined ? [] : [[name, file] as const];
});

/** Without the variables of the test run itself, of which some programs would say that they do not know them. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("T4T_")));

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(file: string, ...args: readonly string[]): Promise<Run> {
  return await new Promise<Run>((resolve) => {
    const child = execFile(process.execPath, [file, ...args], { cwd: root, env }, (_, stdout, stderr) => {
      resolve({ code: child.exitCode ?? -1, stdout, stderr });
    });
  });
}

describe("the command lines of package.json's scripts", function () {
  this.timeout(120_000);

  it("are all found", () => {
    expect(programs.map(([name]) => name)).to.include.members([
      "start",
      "test",
      "bench",
      "fuzz",
      "mutate",
      "sim",
      "gas",
    ]);
  });

  for (const [name, file] of programs) {
    it(`npm run ${name} helps with usage, options and an example, and names an option that it does not have`, async () => {
      const [help, unknown] = await Promise.all([run(file, "--help"), run(file, "--no-such-option", "3")]);
      expect([help.code, help.stderr]).to.deep.equal([0, ""]);
      expect(help.stdout).to.match(
        /^npm (run )?\S+ -- .*\n\n[^]+\n {2}--help +this text\n[^]*\nFor example:\n {2}npm /,
      );
      expect([unknown.code, unknown.stdout], unknown.stderr).to.deep.equal([2, ""]);
      expect(unknown.stderr).to.match(/there is no option --no-such-option; there are --.*--help\n$/);
      expect(unknown.stderr.trim().split("\n")).to.have.length(name === "start" ? 2 : 1);
    });
  }

  for (const [file, args, message] of [
    ["scripts/sim/main.ts", ["--scenario", "a,z"], '--scenario must be all or among a,b,c,d,e,f,g, not "a,z"'],
    ["scripts/sim/main.ts", ["--scale", "2"], '--scale must be a number from 0.001 to 1, not "2"'],
    ["scripts/bench/main.ts", ["--rounds", "NaN"], '--rounds must be a whole number from 1 up, not "NaN"'],
    ["scripts/mutate.ts", ["--at-least", "-3"], '--at-least must be a number from 0 to 100, not "-3"'],
    ["scripts/fuzz.ts", ["--calls", "-5"], '--calls must be a whole number from 1 up, not "-5"'],
    ["scripts/fuzz.ts", ["--only", "refund"], "--only needs --weakened"],
    ["scripts/fuzz.ts", ["--weakened", "--only", "no such"], 'not "no such"; there are: '],
    ["scripts/gas.ts", ["--check", "--update"], "--check would compare with what --update has just written"],
    ["scripts/test.ts", ["no-such-suite"], "no-such-suite is no suite (invariants, "],
  ] as const) {
    it(`names a value that cannot be used: ${path.basename(path.dirname(file))}/${path.basename(file)} ${args.join(" ")}`, async () => {
      const { code, stdout, stderr } = await run(file, ...args);
      expect([code, stdout]).to.deep.equal([2, ""]);
      expect(stderr).to.include(message);
      expect(stderr.trim().split("\n")).to.have.length(1);
    });
  }
});
