/**
 * npm run mutate [-- --sample N] [--seed TEXT] [--minutes N] [--workers N] [--again] [--at-least PERCENT] [--list] [--json]
 *
 * Changes the contracts in one place at a time and runs the contract tests against each change: a change that no test notices shows
 * what the tests do not hold. Prints what survived and the share that was killed; fails when it is under --at-least (90).
 * --sample tests N of them, 0 = all, in an order that --seed chooses, so that a run that was stopped has tested a random sample; --minutes stops
 * after that time. What became of each mutant is kept in cache/mutation.json: a run that is started again goes on; --again tests the
 * survivors anew, after tests were added. --workers runs the tests of that many mutants at a time (1).
 *
 * A mutant that does not compile, or compiles to the same code, counts neither way. A test kills a mutant when it fails twice. Inline assembly
 * is not mutated.
 */
import { createHash } from "node:crypto";
import { setPriority } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import hre from "hardhat";
import { Callers, callPattern } from "./mutation/callers.ts";
import { Compiler, targets } from "./mutation/compiler.ts";
import { type Mutant, mutantsOf } from "./mutation/operators.ts";
import { Pauses } from "./mutation/pauses.ts";
import { Results } from "./mutation/results.ts";
import { Testbed } from "./mutation/testbed.ts";

const { values: flags } = parseArgs({
  options: {
    sample: { type: "string", default: "100" },
    seed: { type: "string", default: "t4t" },
    minutes: { type: "string", default: "60" },
    workers: { type: "string", default: "1" },
    again: { type: "boolean", default: false },
    "at-least": { type: "string", default: "90" },
    list: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
/** Nobody waits for it. */
setPriority(10);

const NO_HINTS = { killers: [], calls: [] };
const MOST_KILLERS = 12;
const LONGEST_PAUSE_MS = 20_000;
/** Times that a mutant's tests are run again because what failed did not fail twice. */
const MOST_AGAIN = 3;

const root = path.join(import.meta.dirname, "..");
const compiler = new Compiler(root);
const trees = new Map([...compiler.trees()].filter(([file]) => file.startsWith("contracts/")));
const callers = new Callers(trees, compiler.sources);
const all = [...trees].flatMap(([file, tree]) =>
  file.startsWith("contracts/interfaces/") ? [] : mutantsOf(file, compiler.sources.get(file) ?? "", tree),
);
const sample = chosen(all, Number(flags.sample), flags.seed);
const results = new Results(path.join(root, "cache/mutation.json"));

if (flags.list) {
  for (const mutant of sample) console.log(show(mutant));
  console.log(`${sample.length} of ${all.length} mutants`);
} else {
  await hre.tasks.getTask("build").run({ quiet: true });
  await run();
  report();
}

async function run(): Promise<void> {
  using pauses = new Pauses();
  const original = compiler.compile(targets.ProviderRegistry, compiler.sources.get(targets.ProviderRegistry) ?? "");
  const escrow = compiler.compile(targets.JobEscrow, compiler.sources.get(targets.JobEscrow) ?? "");
  if (original === undefined || escrow === undefined) throw new Error("the contracts do not compile");
  const clean = new Map([...original, ...escrow]);

  const left = sample.filter((mutant) => {
    const verdict = results.get(mutant)?.verdict;
    return verdict === undefined || (flags.again && verdict === "survived");
  });
  const end = performance.now() + Number(flags.minutes) * 60_000;
  let tried = sample.length - left.length;
  const work = async (): Promise<void> => {
    using testbed = new Testbed(root, 300);
    testbed.install(clean);
    const fault = await testbed.failing(NO_HINTS);
    if (fault !== undefined) throw new Error(`the tests fail without any change: ${fault}`);
    for (let mutant = left.shift(); mutant !== undefined && performance.now() < end; mutant = left.shift()) {
      const place = callers.at(mutant.file, mutant.line);
      const code = compiler.compile(mutant.file, mutant.source);
      const same = code !== undefined && [...code].every(([name, one]) => clean.get(name)?.bytecode === one.bytecode);
      tried++;
      if (code === undefined || same) {
        results.set(mutant, { verdict: "void", place });
        continue;
      }
      testbed.install(code);
      const hints = {
        killers: results.killersAt(place).slice(0, MOST_KILLERS),
        calls: callers.of(mutant.file, mutant.line).map(callPattern),
      };
      let killer = await testbed.failing(hints);
      // Who was stopped for a while may have failed for want of time, and a test that fails once and not again noticed nothing.
      for (let again = 0; killer !== undefined && again < MOST_AGAIN; again++) {
        if (pauses.take() <= LONGEST_PAUSE_MS && (await testbed.confirms(killer))) break;
        killer = await testbed.failing(hints);
      }
      testbed.install(clean);
      results.set(mutant, killer === undefined ? { verdict: "survived", place } : { verdict: "killed", killer, place });
      console.log(`${tried}  ${killer === undefined ? "SURVIVED" : "killed  "}  ${show(mutant)}`);
    }
    const after = await testbed.failing(NO_HINTS);
    if (after !== undefined) throw new Error(`the tests fail without any change after the run: ${after}`);
  };
  await Promise.all(Array.from({ length: Number(flags.workers) }, work));
}

function report(): void {
  const verdicts = sample.map((mutant) => ({ mutant, verdict: results.get(mutant)?.verdict }));
  const count = (wanted: string | undefined): number => verdicts.filter(({ verdict }) => verdict === wanted).length;
  const survivors = verdicts.filter(({ verdict }) => verdict === "survived").map(({ mutant }) => mutant);
  const [killed, equal, untried] = [count("killed"), count("void"), count(undefined)];
  const tested = killed + survivors.length;
  const tried = tested + equal;
  const percent = tested === 0 ? 0 : Math.round((1000 * killed) / tested) / 10;
  console.log(`\n${tried} of ${all.length} mutants tried, ${equal} of them no change of the code`);
  if (untried > 0) console.log(`${untried} of the sample left out: the time was up`);
  for (const mutant of survivors) console.log(`survived: ${show(mutant)}`);
  console.log(`${killed} of ${tested} killed: ${percent} %`);
  if (percent < Number(flags["at-least"])) process.exitCode = 1;
  if (flags.json) {
    const rows = survivors.map(({ file, line, operator, before, after }) => ({ file, line, operator, before, after }));
    console.log(JSON.stringify({ mutants: all.length, tried, equal, tested, killed, percent, survivors: rows }));
  }
}

/** The first `count` in an order that depends on the seed and on nothing else; all for 0. */
function chosen(mutants: readonly Mutant[], count: number, seed: string): readonly Mutant[] {
  const key = (mutant: Mutant): string =>
    createHash("sha256").update(`${seed}\n${mutant.file}\n${mutant.source}`).digest("hex");
  const keyed = mutants.map((mutant) => ({ mutant, key: key(mutant) }));
  return keyed
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .slice(0, count === 0 ? undefined : count)
    .map(({ mutant }) => mutant);
}

function show({ file, line, operator, before, after }: Mutant): string {
  const short = (text: string): string => (text.length > 70 ? `${text.slice(0, 67)}...` : text);
  return `${file.replace("contracts/", "")}:${line}  ${operator}:  ${short(before)}  ->  ${short(after) || "(nothing)"}`;
}
