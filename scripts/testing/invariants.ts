/**
 * The quick profile of the campaign of `npm run fuzz`: the same histories and rules, few of them, always the same, on contracts that
 * are compiled without the optimizer. Writes the counts to the file that T4T_TEST_RESULTS names. Where forge has no build for the
 * platform it runs nothing and says so.
 */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { explain } from "../fuzz/explain.ts";
import { type BrokenRule, ForgeProject, forgePath, MARKETS } from "../fuzz/forge.ts";

const root = path.join(import.meta.dirname, "../..");
const HISTORIES = 10;
const STEPS = 500;
const SEED = 7;

const broken = forgePath(root) === undefined ? undefined : await play(new ForgeProject(root, { optimized: false }));
const failed = broken?.length ?? 0;
const passed = broken === undefined ? 0 : 2 * MARKETS - failed;
if (broken === undefined) {
  console.log(
    "  NOT RUN: forge has no build for this platform. What holds the rules here is the differential test alone.",
  );
} else {
  console.log(`  ${HISTORIES * STEPS * MARKETS} calls in ${MARKETS} markets\n  ${passed} passing, ${failed} failing`);
}
const file = process.env["T4T_TEST_RESULTS"];
if (file !== undefined) writeFileSync(file, JSON.stringify({ passed, failed, pending: 0 }));
process.exitCode = failed === 0 ? 0 : 1;

async function play(project: ForgeProject): Promise<readonly BrokenRule[]> {
  const faults = [...(await project.reaches()).broken, ...(await project.play(HISTORIES, STEPS, SEED)).broken];
  for (const fault of faults) console.log(await explain(project, fault, STEPS));
  return faults;
}
