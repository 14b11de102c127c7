/**
 * npm run mutate [-- --sample N] [--seed TEXT] [--minutes N] [--at-least PERCENT] [--list] [--json]
 *
 * Changes the contracts in one place at a time and runs the contract tests against each change: a change that no test notices shows
 * what the tests do not hold. Prints what survived and the share that was killed; fails when it is under --at-least (90).
 * --sample tests N of them, chosen by --seed, 0 = all; --minutes stops after that time and says how many were left out.
 *
 * A mutant that does not compile, or compiles to the same code, counts neither way. Inline assembly is not mutated.
 */
import { createHash } from "node:crypto";
import { setPriority } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import hre from "hardhat";
import { Compiler, targets } from "./mutation/compiler.ts";
import { type Mutant, mutantsOf } from "./mutation/operators.ts";
import { Testbed } from "./mutation/testbed.ts";

const { values: flags } = parseArgs({
  options: {
    sample: { type: "string", default: "100" },
    seed: { type: "string", default: "t4t" },
    minutes: { type: "string", default: "60" },
    "at-least": { type: "string", default: "90" },
    list: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
/** Nobody waits for it. */
setPriority(10);

const root = path.join(import.meta.dirname, "..");
const compiler = new Compiler(root);
const all = [...compiler.trees()].flatMap(([file, tree]) => {
  const ours = file.startsWith("contracts/") && !file.startsWith("contracts/interfaces/");
  return ours ? mutantsOf(file, compiler.sources.get(file) ?? "", tree) : [];
});
const sample = chosen(all, Number(flags.sample), flags.seed);

if (flags.list) {
  for (const mutant of sample) console.log(show(mutant));
  console.log(`${sample.length} of ${all.length} mutants`);
} else {
  await run();
}

async function run(): Promise<void> {
  await hre.tasks.getTask("build").run({ quiet: true });
  using testbed = new Testbed(root, 180);
  const original = compiler.compile(targets.ProviderRegistry, compiler.sources.get(targets.ProviderRegistry) ?? "");
  const escrow = compiler.compile(targets.JobEscrow, compiler.sources.get(targets.JobEscrow) ?? "");
  if (original === undefined || escrow === undefined) throw new Error("the contracts do not compile");
  const clean = new Map([...original, ...escrow]);
  testbed.install(clean);
  if (!(await testbed.passes("states"))) throw new Error("the tests fail without any change");

  const end = performance.now() + Number(flags.minutes) * 60_000;
  const survivors: Mutant[] = [];
  let [killed, void_, tried] = [0, 0, 0];
  for (const mutant of sample) {
    if (performance.now() > end) break;
    tried++;
    const code = compiler.compile(mutant.file, mutant.source);
    const same = code !== undefined && [...code].every(([name, one]) => clean.get(name)?.bytecode === one.bytecode);
    if (code === undefined || same) {
      void_++;
      continue;
    }
    testbed.install(code);
    const survived = await testbed.passes(likelyKiller(mutant));
    testbed.install(clean);
    if (survived) survivors.push(mutant);
    else killed++;
    console.log(`${survived ? "SURVIVED" : "killed  "}  ${show(mutant)}`);
  }

  if (!(await testbed.passes("states"))) throw new Error("the tests fail without any change after the run");

  const tested = killed + survivors.length;
  const percent = tested === 0 ? 0 : Math.round((1000 * killed) / tested) / 10;
  console.log(`\n${tried} of ${all.length} mutants tried, ${void_} of them no change of the code`);
  if (tried < sample.length) console.log(`${sample.length - tried} of the sample left out: the time was up`);
  for (const mutant of survivors) console.log(`survived: ${show(mutant)}`);
  console.log(`${killed} of ${tested} killed: ${percent} %`);
  if (percent < Number(flags["at-least"])) process.exitCode = 1;
  if (flags.json) {
    const left = survivors.map(({ file, line, operator, before, after }) => ({ file, line, operator, before, after }));
    console.log(JSON.stringify({ mutants: all.length, tried, equal: void_, tested, killed, percent, survivors: left }));
  }
}

/** The first `count` in an order that depends on the seed and on nothing else; all for 0. */
function chosen(mutants: readonly Mutant[], count: number, seed: string): readonly Mutant[] {
  if (count === 0) return mutants;
  const key = (mutant: Mutant): string =>
    createHash("sha256").update(`${seed}\n${mutant.file}\n${mutant.source}`).digest("hex");
  const keyed = mutants.map((mutant) => ({ mutant, key: key(mutant) }));
  return keyed
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .slice(0, count)
    .map(({ mutant }) => mutant);
}

/** Where a test that notices is most likely: only the time depends on it. */
function likelyKiller({ file }: Mutant): string {
  if (file.includes("JobEscrow") || file.includes("Job.sol") || file.includes("Signatures")) return "completing";
  return file.includes("Account") ? "deposits" : "registration";
}

function show({ file, line, operator, before, after }: Mutant): string {
  const short = (text: string): string => (text.length > 70 ? `${text.slice(0, 67)}...` : text);
  return `${file.replace("contracts/", "")}:${line}  ${operator}:  ${short(before)}  ->  ${short(after) || "(nothing)"}`;
}
