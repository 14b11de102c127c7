/**
 * npm run fuzz [-- --calls N] [--seed S] [--json]
 *
 * The long campaign over the invariants of test/contracts/invariants: random calls of everybody in several markets, each followed by a
 * check of all rules. Runs at least N calls (10,000,000 unless told otherwise) with forge. Prints the rate; --json adds a last line of
 * JSON. Exits with 1 when a rule is broken, after printing the calls that break it. Not part of `npm test`: compiling the handler
 * takes longer than all other contract tests together.
 */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";

const root = path.join(import.meta.dirname, "..");
const folder = path.join(root, "cache/fuzz");
const forge = path.join(root, "node_modules/.bin/forge");
/** Calls of one run; the state starts anew with the next. */
const DEPTH = 500;

const { values } = parseArgs({
  options: {
    calls: { type: "string", default: "10000000" },
    seed: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const calls = z.coerce.number().int().positive().parse(values.calls);
const seed = z
  .string()
  .regex(/^(0x[0-9a-fA-F]+|\d+)$/)
  .optional()
  .parse(values.seed);

/** Of forge's report: each suite with its tests. */
const report = z.record(
  z.string(),
  z.object({
    test_results: z.record(
      z.string(),
      z.object({
        status: z.string(),
        reason: z.string().nullish(),
        decoded_logs: z.array(z.string()).optional(),
        counterexample: z.unknown().optional(),
        kind: z.object({
          Invariant: z.object({ runs: z.number(), calls: z.number(), reverts: z.number() }).optional(),
        }),
      }),
    ),
  }),
);

process.exitCode = await main();

async function main(): Promise<number> {
  if (!existsSync(forge)) {
    console.error("forge is not installed for this platform");
    return 2;
  }
  writeConfiguration();
  // Compiled apart, so that the rate is that of the calls.
  console.log("compiling ...");
  const built = await run(["build", "test/contracts/invariants"], (line) => console.log(line));
  if (built.code !== 0) return 1;

  const suites = 2;
  const runs = Math.max(1, Math.ceil(calls / suites / DEPTH));
  console.log(`${suites} markets, ${runs} runs of ${DEPTH} calls each ...`);
  const started = performance.now();
  const seeded = seed === undefined ? [] : ["--fuzz-seed", seed];
  const tested = await run(["test", "--json", "--match-test", "invariant_", ...seeded], () => undefined, {
    FOUNDRY_INVARIANT_RUNS: String(runs),
    FOUNDRY_INVARIANT_DEPTH: String(DEPTH),
  });
  const seconds = (performance.now() - started) / 1000;

  const parsed = report.safeParse(lastJson(tested.output));
  if (!parsed.success) {
    console.error(tested.output);
    return 1;
  }
  const tests = Object.entries(parsed.data).flatMap(([suite, { test_results: results }]) =>
    Object.entries(results).map(([test, result]) => ({ suite, test, ...result })),
  );
  let made = 0;
  let failed = 0;
  for (const { suite, test, status, reason, counterexample, kind } of tests) {
    made += kind.Invariant?.calls ?? 0;
    if (status !== "Success") failed += 1;
    console.log(`${status === "Success" ? "holds" : "BROKEN"}: ${suite} ${test}, ${kind.Invariant?.calls ?? 0} calls`);
    if (status !== "Success") console.log(reason ?? "", JSON.stringify(counterexample, null, 2));
  }
  const callsPerSecond = Math.round(made / seconds);
  console.log(`${made} calls in ${seconds.toFixed(1)} s, ${callsPerSecond} per second, ${failed} rules broken`);
  const ok = failed === 0 && made >= calls && tests.length === suites;
  if (values.json) {
    console.log(
      JSON.stringify({ ok, engine: "forge", calls: made, seconds, callsPerSecond, runs, depth: DEPTH, failed }),
    );
  }
  return ok ? 0 : 1;
}

/** Forge wants a compiler that is a program; npm's is a module. */
function writeConfiguration(): void {
  mkdirSync(folder, { recursive: true });
  const compiler = path.join(folder, "solc.cjs");
  const solc = createRequire(import.meta.url).resolve("solc");
  writeFileSync(
    compiler,
    `#!${process.execPath}
const solc = require(${JSON.stringify(solc)});
if (process.argv.includes("--version")) {
  const version = solc.version().replace(/\\.Emscripten.*/, ".Linux.g++");
  console.log("solc, the solidity compiler commandline interface\\nVersion: " + version);
} else {
  let input = "";
  process.stdin.on("data", (data) => (input += data)).on("end", () => process.stdout.write(solc.compile(input)));
}
`,
  );
  chmodSync(compiler, 0o755);
  // The compiler settings are those of hardhat.config.ts: what is fuzzed is what is deployed.
  writeFileSync(
    path.join(folder, "foundry.toml"),
    `[profile.default]
src = "contracts"
test = "test/contracts/invariants"
out = ${JSON.stringify(path.join(folder, "out"))}
cache_path = ${JSON.stringify(path.join(folder, "cache"))}
libs = ["node_modules"]
remappings = ["@openzeppelin/=node_modules/@openzeppelin/"]
solc = ${JSON.stringify(compiler)}
offline = true
evm_version = "cancun"
via_ir = true
optimizer = true
optimizer_runs = 10000

[profile.default.invariant]
fail_on_revert = true
show_metrics = false
# Values from storage and code would help to guess magic numbers; the handler needs none, and gathering them costs most of the time.
dictionary_weight = 0
include_storage = false
include_push_bytes = false
`,
  );
}

async function run(
  args: readonly string[],
  onLine: (line: string) => void,
  environment: NodeJS.ProcessEnv = {},
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(forge, [...args, "--root", root], {
    env: {
      ...process.env,
      ...environment,
      FOUNDRY_CONFIG: path.join(folder, "foundry.toml"),
      FOUNDRY_DISABLE_NIGHTLY_WARNING: "1",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    for (const line of text.split("\n")) if (line.trim() !== "") onLine(line);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return { code, output };
}

function lastJson(output: string): unknown {
  const line = output.split("\n").findLast((text) => text.startsWith("{"));
  return line === undefined ? undefined : JSON.parse(line);
}
