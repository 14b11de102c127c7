import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { runCommand, toggle, type Values } from "../command-line.ts";
import { type Branch, branchesOf, measuredFiles } from "./branches.ts";

const root = path.join(import.meta.dirname, "../..");
/** These compare what is deployed with what was written, which an instrumented contract is not. */
const SKIPPED = "that the runtime imports|code that is deployed";

const command = {
  name: "npm run coverage:contracts --",
  about: `Runs the contract tests on contracts that tell which lines, statements and branches they pass. Prints Hardhat's table, then every
branch that no test takes. A branch is one outcome of a condition, where each operand of && and || counts by itself, or a clause of a
try. Exits with 1 when a test fails, or a line or a branch is not taken.`,
  options: {
    json: toggle("the last line of standard output is one JSON object with the counts and what was not taken"),
  },
  examples: ["--json"],
};

async function main(values: Values<typeof command.options>): Promise<number> {
  if (!(await runTests())) return 1;
  const branches = await allBranches();
  const taken = await takenTags();
  const missed = branches.filter(({ tag }) => !taken.has(tag));
  const lines = await lineCounts();
  console.log(`branches: ${branches.length - missed.length} of ${branches.length} taken`);
  for (const { file, line, text, outcome } of missed) console.log(`not taken: ${file}:${line} ${outcome}: ${text}`);
  if (values.json) {
    const figures = { branches: { all: branches.length, taken: branches.length - missed.length }, lines };
    console.log(JSON.stringify({ ...figures, missed: missed.map(({ tag: _, ...branch }) => branch) }));
  }
  return missed.length === 0 && lines.hit === lines.all ? 0 : 1;
}

async function runTests(): Promise<boolean> {
  const hardhat = path.join(root, "node_modules/hardhat/dist/src/cli.js");
  const config = path.join(import.meta.dirname, "hardhat.config.ts");
  const child = spawn(
    process.execPath,
    [hardhat, "--config", config, "--coverage", "test", "mocha", "--grep-exclude", SKIPPED],
    { cwd: root, stdio: "inherit", env: { HARDHAT_DISABLE_TELEMETRY_PROMPT: "true", ...process.env } },
  );
  return await new Promise<boolean>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code === 0));
  });
}

async function allBranches(): Promise<readonly Branch[]> {
  const files = (await readdir(path.join(root, "contracts"), { recursive: true }))
    .map((file) => path.posix.join("contracts", file))
    .filter((file) => measuredFiles.test(file))
    .toSorted();
  const lists = files.map(async (file) => branchesOf(file, await readFile(path.join(root, file), "utf8")));
  return (await Promise.all(lists)).flat();
}

/** What the contracts said while they were tested. */
async function takenTags(): Promise<ReadonlySet<string>> {
  const folder = path.join(root, "coverage/data/mocha");
  const taken = new Set<string>();
  for (const file of await readdir(folder)) {
    const counts = z.record(z.string(), z.number()).parse(JSON.parse(await readFile(path.join(folder, file), "utf8")));
    for (const tag of Object.keys(counts)) taken.add(tag);
  }
  return taken;
}

/** Lines of the measured files in Hardhat's report. */
async function lineCounts(): Promise<{ readonly all: number; readonly hit: number }> {
  const report = await readFile(path.join(root, "coverage/lcov.info"), "utf8");
  const counts = { all: 0, hit: 0 };
  for (const record of report.split("end_of_record")) {
    const file = /^SF:(.*)$/m.exec(record)?.[1] ?? "";
    if (!measuredFiles.test(file)) continue;
    counts.all += Number(/^LF:(\d+)$/m.exec(record)?.[1] ?? 0);
    counts.hit += Number(/^LH:(\d+)$/m.exec(record)?.[1] ?? 0);
  }
  return counts;
}

await runCommand(command, main);
