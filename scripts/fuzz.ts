import path from "node:path";
import { CommandLineError, runCommand, text, toggle, type Values, wholeNumber } from "./command-line.ts";
import { partsOf } from "./fuzz/parts.ts";
import { type BrokenRule, ForgeError, ForgeProject, MARKETS } from "./fuzz/forge.ts";
import { Journal } from "./fuzz/journal.ts";
import { explain } from "./fuzz/explain.ts";
import { weaknesses } from "./fuzz/weaknesses.ts";

const root = path.join(import.meta.dirname, "..");
/** Calls of one history; the market starts anew with the next. */
const STEPS = 500;
/** Histories of one part, in each market. */
const HISTORIES = 50;
/** Calls of one history in each market: the least that is played. */
const ROUND = STEPS * MARKETS;
const PART = ROUND * HISTORIES;
const CAMPAIGN_CALLS = 10_000_000;
const WEAKENED_CALLS = 200_000;

const command = {
  name: "npm run fuzz --",
  about: `The long campaign over the rules of test/contracts/invariants/README.md: random calls of everybody in ${MARKETS} markets, each followed by a
check of what it had to do with and every few by a check of everything. Exits with 1 when a rule is broken, after printing the few
calls that break it, and with 2 when it could not play.

It plays parts of ${PART} calls with seeds counted up from --seed. A campaign that was stopped goes on with the part at which it was
when it is started again with the same seed and the same contracts.`,
  options: {
    calls: wholeNumber({
      about: `calls to play, rounded up to whole histories of ${STEPS} in each of the ${MARKETS} markets, so ${ROUND} at least`,
      fallback: undefined,
      shownFallback: `${CAMPAIGN_CALLS}; for each weakness ${WEAKENED_CALLS}`,
      least: 1,
    }),
    seed: wholeNumber({ about: "seed of the first part", fallback: 1, least: 0 }),
    workers: wholeNumber({ about: "parts played at a time", fallback: 1, least: 1, most: 256 }),
    weakened:
      toggle(`plays against contracts from which one protection was taken, each in turn, until a rule breaks, and exits with 1 when
one is not found within --calls: what such a campaign does not find it would not find in the contracts either`),
    only: text("TEXT", "with --weakened: only weaknesses whose name has the text", undefined),
    json: toggle("the last line of standard output is one JSON object with the figures"),
  },
  examples: ["--calls 2000", "--calls 1000000 --seed 7 --workers 2 --json", "--weakened --only refund"],
};
type Options = Values<typeof command.options>;

async function main(options: Options): Promise<number> {
  const chosen = weaknesses.filter(({ name }) => name.includes(options.only ?? ""));
  if (options.only !== undefined && !options.weakened) throw new CommandLineError(["--only needs --weakened"]);
  if (chosen.length === 0) {
    const names = weaknesses.map(({ name }) => name).join("; ");
    throw new CommandLineError([
      `--only must be a part of a weakness's name, not "${options.only}"; there are: ${names}`,
    ]);
  }
  try {
    return options.weakened ? await findWeaknesses(options, chosen) : await campaign(options);
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error;
    console.error(error.message);
    return 2;
  }
}

/** Resolves with the exit code. */
async function campaign({ calls = CAMPAIGN_CALLS, seed, workers, json }: Options): Promise<number> {
  const parts = partsOf(calls, ROUND, HISTORIES);
  const asked = parts.reduce((sum, histories) => sum + histories * ROUND, 0);
  console.log(`playing ${asked} calls: ${asked / ROUND} histories of ${STEPS} in each of ${MARKETS} markets`);
  const project = new ForgeProject(root);
  const unreached = (await project.reaches()).broken;
  if (unreached.length > 0) return await fail(project, unreached, json);

  const journal = new Journal(path.join(project.folder, `campaign-${seed}.json`));
  const left = [...parts.entries()].filter(([part]) => !journal.done.has(part));
  let made = asked - left.reduce((sum, [, histories]) => sum + histories * ROUND, 0);
  if (made > 0) console.log(`going on after ${made} calls, which an earlier run with this seed has played`);
  const started = performance.now();
  let rate = journal.callsPerSecond(PART);
  const broken: BrokenRule[] = [];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined && broken.length === 0; next = left.shift()) {
      const [part, histories] = next;
      const begun = performance.now();
      const outcome = await project.play(histories, STEPS, seed + part);
      broken.push(...outcome.broken);
      if (outcome.broken.length > 0) return;
      if (outcome.histories !== histories * MARKETS)
        throw new ForgeError(`forge played ${outcome.histories} histories`);
      const seconds = (performance.now() - begun) / 1000;
      // A shorter part is not the one of a longer campaign, and says less of the rate.
      if (histories === HISTORIES) journal.add(part, seconds);
      rate = journal.done.size > 0 ? journal.callsPerSecond(PART) : Math.round((histories * ROUND) / seconds);
      made += histories * ROUND;
      console.log(`${made} of ${asked} calls, ${rate} per second and worker`);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  if (broken.length > 0) return await fail(project, broken, json);

  const histories = made / STEPS;
  console.log(`${made} calls in ${histories} histories, ${rate} per second and worker: no rule broken`);
  if (json) {
    const figures = { ok: true, engine: "forge", calls: made, histories, steps: STEPS };
    const run = {
      seeds: [seed, seed + parts.length - 1],
      workers,
      seconds: Math.round((performance.now() - started) / 100) / 10,
    };
    console.log(JSON.stringify({ ...figures, ...run, callsPerSecond: rate, failed: 0 }));
  }
  return 0;
}

async function fail(project: ForgeProject, broken: readonly BrokenRule[], json: boolean): Promise<number> {
  for (const rule of broken) console.log(await explain(project, rule, STEPS));
  if (json) console.log(JSON.stringify({ ok: false, engine: "forge", failed: broken.length, broken }));
  return 1;
}

async function findWeaknesses(
  { calls = WEAKENED_CALLS, seed, json }: Options,
  chosen: typeof weaknesses,
): Promise<number> {
  const found: { readonly weakness: string; readonly calls: number; readonly rule: string | undefined }[] = [];
  for (const { name, file, text, instead } of chosen) {
    const project = new ForgeProject(root, {
      optimized: false,
      edit: (source, content) => {
        if (source !== file) return content;
        if (content.split(text).length !== 2) throw new ForgeError(`${file} does not contain exactly once: ${text}`);
        return content.replace(text, () => instead);
      },
    });
    let made = 0;
    let rule: string | undefined;
    for (const [part, size] of partsOf(calls, ROUND, HISTORIES).entries()) {
      const { histories, broken } = await project.play(size, STEPS, seed + part);
      // Each market stops at its own fault; the first to find one counts.
      const [first] = broken.toSorted((a, b) => a.step - b.step);
      made += first === undefined ? size * ROUND : Math.ceil(histories / broken.length) * STEPS + first.step;
      rule = first?.rule;
      if (rule !== undefined) break;
    }
    console.log(
      rule === undefined ? `NOT FOUND in ${made} calls: ${name}` : `found after ${made} calls: ${name} ("${rule}")`,
    );
    found.push({ weakness: name, calls: made, rule });
  }
  const missed = found.filter(({ rule }) => rule === undefined).length;
  if (json) console.log(JSON.stringify({ ok: missed === 0, weaknesses: found.length, missed, found }));
  return missed === 0 ? 0 : 1;
}

await runCommand(command, main);
