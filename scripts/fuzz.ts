/**
 * npm run fuzz [-- --calls N] [--seed N] [--workers N] [--json]
 * npm run fuzz -- --weakened [--only TEXT] [--calls N] [--json]
 *
 * The long campaign over the rules of test/contracts/invariants/README.md: random calls of everybody in two markets, each followed by a
 * check of what it had to do with and every few by a check of everything. Makes at least N calls (10,000,000 unless told
 * otherwise), in parts that follow each other with seeds counted up from --seed; a campaign that was stopped goes on with the part
 * at which it was when it is started again with the same seed and the same contracts. --workers plays that many parts at a time (1).
 * Exits with 1 when a rule is broken, after printing the few calls that break it.
 *
 * --weakened runs against contracts from which one protection was taken, each in turn (--only those whose name has the text), until the campaign finds it, and fails when one is
 * not found within --calls (200,000): what such a campaign does not find it would not find in the contracts either.
 */
import path from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";
import { type BrokenRule, ForgeError, ForgeProject, MARKETS } from "./fuzz/forge.ts";
import { Journal } from "./fuzz/journal.ts";
import { explain } from "./fuzz/explain.ts";
import { weaknesses } from "./fuzz/weaknesses.ts";

const root = path.join(import.meta.dirname, "..");
/** Calls of one history; the market starts anew with the next. */
const STEPS = 500;
/** Histories of one part, in each market. */
const HISTORIES = 50;
const PART = STEPS * HISTORIES * MARKETS;

const { values } = parseArgs({
  options: {
    calls: { type: "string" },
    seed: { type: "string", default: "1" },
    workers: { type: "string", default: "1" },
    weakened: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    json: { type: "boolean", default: false },
  },
});
const positive = z.coerce.number().int().positive();
const wanted = values.calls === undefined ? undefined : positive.parse(values.calls);
const firstSeed = z.coerce.number().int().nonnegative().parse(values.seed);
const workers = positive.parse(values.workers);

try {
  process.exitCode = values.weakened ? await findWeaknesses(wanted ?? 200_000) : await campaign(wanted ?? 10_000_000);
} catch (error) {
  if (!(error instanceof ForgeError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}

/** Resolves with the exit code. */
async function campaign(calls: number): Promise<number> {
  const project = new ForgeProject(root);
  const unreached = (await project.reaches()).broken;
  if (unreached.length > 0) return await fail(project, unreached);

  const parts = Math.ceil(calls / PART);
  const journal = new Journal(path.join(project.folder, `campaign-${firstSeed}.json`));
  const before = journal.done.size;
  if (before > 0) console.log(`going on after ${before * PART} calls`);
  const left = Array.from({ length: parts }, (_, index) => index).filter((index) => !journal.done.has(index));
  const started = performance.now();
  const broken: BrokenRule[] = [];
  const work = async (): Promise<void> => {
    for (let part = left.shift(); part !== undefined && broken.length === 0; part = left.shift()) {
      const begun = performance.now();
      const outcome = await project.play(HISTORIES, STEPS, firstSeed + part);
      broken.push(...outcome.broken);
      if (outcome.broken.length > 0) return;
      if (outcome.histories !== HISTORIES * MARKETS)
        throw new ForgeError(`forge played ${outcome.histories} histories`);
      journal.add(part, (performance.now() - begun) / 1000);
      console.log(
        `${journal.done.size * PART} of ${parts * PART} calls, ${journal.callsPerSecond(PART)} per second and worker`,
      );
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  if (broken.length > 0) return await fail(project, broken);

  const made = journal.done.size * PART;
  const rate = journal.callsPerSecond(PART);
  const histories = made / STEPS;
  console.log(`${made} calls in ${histories} histories, ${rate} per second and worker: no rule broken`);
  if (values.json) {
    const seconds = Math.round((performance.now() - started) / 100) / 10;
    const seeds = [firstSeed, firstSeed + parts - 1];
    console.log(
      JSON.stringify({
        ok: true,
        engine: "forge",
        calls: made,
        histories,
        steps: STEPS,
        seeds,
        workers,
        seconds,
        callsPerSecond: rate,
        failed: 0,
      }),
    );
  }
  return 0;
}

async function fail(project: ForgeProject, broken: readonly BrokenRule[]): Promise<number> {
  for (const rule of broken) console.log(await explain(project, rule, STEPS));
  if (values.json) console.log(JSON.stringify({ ok: false, engine: "forge", failed: broken.length, broken }));
  return 1;
}

async function findWeaknesses(calls: number): Promise<number> {
  const found: { readonly weakness: string; readonly calls: number; readonly rule: string | undefined }[] = [];
  for (const { name, file, text, instead } of weaknesses.filter(({ name }) => name.includes(values.only))) {
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
    for (let part = 0; rule === undefined && made < calls; part++) {
      const { histories, broken } = await project.play(HISTORIES, STEPS, firstSeed + part);
      // Each market stops at its own fault; the first to find one counts.
      const [first] = broken.toSorted((a, b) => a.step - b.step);
      made += first === undefined ? PART : Math.ceil(histories / broken.length) * STEPS + first.step;
      rule = first?.rule;
    }
    console.log(
      rule === undefined ? `NOT FOUND in ${made} calls: ${name}` : `found after ${made} calls: ${name} ("${rule}")`,
    );
    found.push({ weakness: name, calls: made, rule });
  }
  const missed = found.filter(({ rule }) => rule === undefined).length;
  if (values.json) console.log(JSON.stringify({ ok: missed === 0, weaknesses: found.length, missed, found }));
  return missed === 0 ? 0 : 1;
}
