import { createHash } from "node:crypto";
import { setPriority } from "node:os";
import path from "node:path";
import hre from "hardhat";
import { decimal, runCommand, text, toggle, type Values, wholeNumber } from "./command-line.ts";
import { Callers, callPattern } from "./mutation/callers.ts";
import { Compiler, targets } from "./mutation/compiler.ts";
import { type Mutant, mutantsOf } from "./mutation/operators.ts";
import { Pauses } from "./mutation/pauses.ts";
import { Results } from "./mutation/results.ts";
import { Testbed } from "./mutation/testbed.ts";

const NO_HINTS = { killers: [], calls: [] };
const MOST_KILLERS = 12;
const LONGEST_PAUSE_MS = 20_000;
/** Times that a mutant's tests are run again because what failed did not fail twice. */
const MOST_AGAIN = 3;

const command = {
  name: "npm run mutate --",
  about: `Changes the contracts in one place at a time and runs the contract tests against each change: a change that no test notices shows
what the tests do not hold. Prints what survived and the share that was killed; exits with 1 when it is under --at-least.
What became of each mutant is kept in cache/mutation.json: a run that is started again goes on.

A mutant that does not compile, or compiles to the same code, counts neither way. A test kills a mutant when it fails twice. Inline
assembly is not mutated.`,
  options: {
    sample: wholeNumber({ about: "mutants to test; 0 = all", fallback: 100, least: 0 }),
    seed: text("TEXT", "chooses the order, so that a run that was stopped has tested a random sample", "t4t"),
    minutes: decimal({ about: "stops after that time", fallback: 60, least: 0 }),
    workers: wholeNumber({ about: "mutants whose tests run at a time", fallback: 1, least: 1, most: 256 }),
    again: toggle("tests the survivors anew, after tests were added"),
    "at-least": decimal({
      placeholder: "PERCENT",
      about: "share that must be killed",
      fallback: 90,
      least: 0,
      most: 100,
    }),
    list: toggle("prints the mutants and tests none"),
    json: toggle("the last line of standard output is one JSON object with the counts and the survivors"),
  },
  examples: ["--sample 20 --minutes 10", "--sample 0 --workers 2 --json"],
};
type Options = Values<typeof command.options>;

const root = path.join(import.meta.dirname, "..");

/** What a run works with. */
interface Campaign {
  readonly flags: Options;
  readonly compiler: Compiler;
  readonly callers: Callers;
  /** Every mutant there is. */
  readonly all: readonly Mutant[];
  readonly sample: readonly Mutant[];
  readonly results: Results;
}

async function main(flags: Options): Promise<number> {
  // Nobody waits for it.
  setPriority(10);
  const compiler = new Compiler(root);
  const trees = new Map([...compiler.trees()].filter(([file]) => file.startsWith("contracts/")));
  const all = [...trees].flatMap(([file, tree]) =>
    file.startsWith("contracts/interfaces/") ? [] : mutantsOf(file, compiler.sources.get(file) ?? "", tree),
  );
  const sample = chosen(all, flags.sample, flags.seed);
  if (flags.list) {
    for (const mutant of sample) console.log(show(mutant));
    console.log(`${sample.length} of ${all.length} mutants`);
    return 0;
  }
  const callers = new Callers(trees, compiler.sources);
  const results = new Results(path.join(root, "cache/mutation.json"));
  await hre.tasks.getTask("build").run({ quiet: true });
  const campaign = { flags, compiler, callers, all, sample, results };
  await run(campaign);
  return report(campaign);
}

async function run({ flags, compiler, callers, sample, results }: Campaign): Promise<void> {
  using pauses = new Pauses();
  const original = compiler.compile(targets.ProviderRegistry, compiler.sources.get(targets.ProviderRegistry) ?? "");
  const escrow = compiler.compile(targets.JobEscrow, compiler.sources.get(targets.JobEscrow) ?? "");
  if (original === undefined || escrow === undefined) throw new Error("the contracts do not compile");
  const clean = new Map([...original, ...escrow]);

  const left = sample.filter((mutant) => {
    const verdict = results.get(mutant)?.verdict;
    return verdict === undefined || (flags.again && verdict === "survived");
  });
  const end = performance.now() + flags.minutes * 60_000;
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
  await Promise.all(Array.from({ length: flags.workers }, work));
}

/** Prints what became of the sample. Returns the exit code. */
function report({ flags, all, sample, results }: Campaign): number {
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
  if (flags.json) {
    const rows = survivors.map(({ file, line, operator, before, after }) => ({ file, line, operator, before, after }));
    console.log(JSON.stringify({ mutants: all.length, tried, equal, tested, killed, percent, survivors: rows }));
  }
  return percent < flags["at-least"] ? 1 : 0;
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

await runCommand(command, main);
