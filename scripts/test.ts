import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { CommandLineError, runCommand, text, toggle, type Values } from "./command-line.ts";
import { planTests, type Step, suiteNames, UnknownTestsError } from "./testing/plan.ts";
import { faultOf, sumTallies, type Tally, tallyStep } from "./testing/tally.ts";

const root = path.join(import.meta.dirname, "..");
const HARDHAT = "node_modules/hardhat/dist/src/cli.js";
const MOCHA = "node_modules/mocha/bin/mocha.js";

/** A program whose tests are over and that does not end has left a server, a timer or a child open. */
const EXIT_GRACE_MS = Number(process.env["T4T_TEST_EXIT_GRACE_SECONDS"] ?? 60) * 1000;
const STEP_LIMIT_MS = 20 * 60_000;

const command = {
  name: "npm test --",
  about: `Builds the contracts, runs the tests and ends with the line "N passed, N failed". Exits with 1 when a test failed, was pending, or
when none ran. Without an argument it runs all.`,
  operands: "[SUITE | FILE | FOLDER ...]",
  options: {
    grep: text("TEXT", "only tests whose name has the text (a regular expression)", undefined),
    "no-build": toggle("takes the contracts as they were compiled last"),
    json: toggle("the last line of standard output is one JSON object with the counts by suite"),
  },
  notes: `Suites: ${suiteNames.join(", ")}.`,
  examples: ["unit --grep money", "test/gateway/routing test/protocol/money.test.ts --no-build"],
};
type Options = Values<typeof command.options>;

async function main(values: Options, wanted: readonly string[]): Promise<number> {
  let steps: readonly Step[];
  try {
    steps = planTests(wanted, (file) => statSync(file, { throwIfNoEntry: false })?.isDirectory() === true);
  } catch (error) {
    if (!(error instanceof UnknownTestsError)) throw error;
    throw new CommandLineError([error.message]);
  }
  const started = performance.now();
  const suites: (Tally & { readonly name: string })[] = [];
  if (values["no-build"] || (await run([HARDHAT, "build", "--quiet"], {}, "inherit"))) {
    // Whole networks of processes wait most of the time: they run beside the rest, and are shown after it.
    const beside = steps.length > 1 ? steps.filter(({ name }) => name === "e2e") : [];
    const running = beside.map(async (step) => await runBeside(step, values));
    for (const step of steps.filter((candidate) => !beside.includes(candidate))) {
      console.log(`\n== ${step.name}`);
      suites.push({ name: step.name, ...(await runStep(step, values, "inherit")) });
    }
    for (const { name, tally, output } of await Promise.all(running)) {
      console.log(`\n== ${name}\n${output}`);
      suites.push({ name, ...tally });
    }
  } else {
    suites.push({ name: "build", ...tallyStep(undefined, false) });
  }

  const total = sumTallies(suites);
  const fault = faultOf(total);
  console.log("");
  for (const { name, passed, failed, pending } of suites) {
    console.log(`${name}: ${passed} passed, ${failed} failed, ${pending} pending`);
  }
  if (fault !== undefined) console.log(`not a pass: ${fault}`);
  console.log(`${total.passed} passed, ${total.failed} failed`);
  const seconds = Math.round((performance.now() - started) / 100) / 10;
  if (values.json) console.log(JSON.stringify({ ...total, ok: fault === undefined, seconds, suites }));
  return fault === undefined ? 0 : 1;
}

/** Runs a step with its output kept for later. */
async function runBeside(
  step: Step,
  values: Options,
): Promise<{ readonly name: string; readonly tally: Tally; readonly output: string }> {
  const folder = mkdtempSync(path.join(os.tmpdir(), "t4t-test-"));
  const file = path.join(folder, "output.txt");
  const output = openSync(file, "a");
  try {
    const tally = await runStep(step, values, output);
    return { name: step.name, tally, output: readFileSync(file, "utf8") };
  } finally {
    closeSync(output);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param output Where its output goes: ours, or an open file. */
async function runStep({ runner, files, ignore }: Step, values: Options, output: "inherit" | number): Promise<Tally> {
  const grep = values.grep === undefined ? [] : ["--grep", values.grep];
  const commands = {
    invariants: ["scripts/testing/invariants.ts"],
    hardhat: [HARDHAT, "test", "mocha", "--no-compile", ...grep, ...files],
    mocha: [
      MOCHA,
      "--forbid-pending",
      "--reporter=scripts/testing/reporter.cjs",
      ...ignore.flatMap((glob) => ["--ignore", glob]),
      ...grep,
      ...files,
    ],
  };
  const folder = mkdtempSync(path.join(os.tmpdir(), "t4t-test-"));
  try {
    const results = path.join(folder, "results.json");
    const succeeded = await run(commands[runner], { T4T_TEST_RESULTS: results }, output, results);
    return tallyStep(existsSync(results) ? readFileSync(results, "utf8") : undefined, succeeded);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a program of the project under this Node. Resolves with whether it succeeded. */
async function run(
  command: readonly string[],
  environment: NodeJS.ProcessEnv,
  output: "inherit" | number,
  results?: string,
): Promise<boolean> {
  const child = spawn(process.execPath, command, {
    cwd: root,
    stdio: ["inherit", output, output],
    env: { HARDHAT_DISABLE_TELEMETRY_PROMPT: "true", ...process.env, ...environment },
  });
  const stop = (why: string): void => {
    console.error(`\n${command.join(" ")}: ${why}`);
    child.kill("SIGKILL");
  };
  const limit = setTimeout(() => stop(`not over after ${STEP_LIMIT_MS / 60_000} minutes`), STEP_LIMIT_MS);
  let overSince: number | undefined;
  const watch = setInterval(() => {
    if (results === undefined || !existsSync(results)) return;
    overSince ??= performance.now();
    if (performance.now() - overSince > EXIT_GRACE_MS)
      stop("the tests are over but something they opened is not closed");
  }, 500);
  try {
    return await new Promise<boolean>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve(code === 0));
    });
  } finally {
    clearTimeout(limit);
    clearInterval(watch);
  }
}

await runCommand(command, main);
