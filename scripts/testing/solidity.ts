/**
 * Runs the Solidity tests (`*.t.sol` under contracts/, everything under test/contracts/solidity) of a project that is
 * built, and writes the counts to the file that T4T_TEST_RESULTS names. Arguments: the files to run, none for all.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import hre from "hardhat";
import { z } from "zod";

const { positionals: testFiles, values } = parseArgs({
  allowPositionals: true,
  options: { grep: { type: "string" } },
});

const summary = z.object({ passed: z.number(), failed: z.number(), skipped: z.number(), failureOutput: z.string() });
const run = z.object({ summary });
const outcome = z
  .union([z.object({ success: z.literal(true), value: run }), z.object({ success: z.literal(false), error: run })])
  .parse(
    await hre.tasks.getTask(["test", "solidity"]).run({
      testFiles,
      noCompile: true,
      // Not 0: the task hands its counts over instead of printing them.
      testSummaryIndex: 1,
      ...(values.grep === undefined ? {} : { grep: values.grep }),
    }),
  );

const { passed, failed, skipped, failureOutput } = (outcome.success ? outcome.value : outcome.error).summary;
console.log(`  ${passed} passing, ${failed} failing\n${failureOutput}`);
const file = process.env["T4T_TEST_RESULTS"];
if (file !== undefined) writeFileSync(file, JSON.stringify({ passed, failed, pending: skipped }));
process.exitCode = outcome.success ? 0 : 1;
