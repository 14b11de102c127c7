/**
 * Child of the testbed, started in its directory: loads the contract tests once and runs them against whatever the artifacts hold each time
 * that it is asked to, likely ones first, up to the first that fails. Answers with that one's title, or with none.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";
import Mocha from "mocha";
import { z } from "zod";
import type * as chain from "../../test/contracts/support/chain.ts";

const requestSchema = z.object({
  /** Titles of tests that noticed similar mutants. */
  killers: z.array(z.string()),
  /** Patterns of calls that lead to the changed place. */
  calls: z.array(z.string()),
  /** Run these and no others. */
  only: z.boolean(),
});

const files = process.argv.slice(2);
const mocha = new Mocha({ bail: true, timeout: 60_000, reporter: Mocha.reporters.Base });
mocha.cleanReferencesAfterRun(false);
for (const file of files) mocha.addFile(path.resolve(file));
await mocha.loadFilesAsync();

// The tests' own module, by the same name: one chain for all runs.
const supportFile = pathToFileURL(path.resolve("test/contracts/support/chain.ts")).href;
const { ethers, networkHelpers } = (await import(supportFile)) as typeof chain;
const tests: readonly Mocha.Test[] = testsOf(mocha.suite);
let start: unknown = await ethers.provider.send("evm_snapshot", []);

process.on("message", (message) => {
  void answer(message);
});
process.send?.("ready");

async function answer(message: unknown): Promise<void> {
  const { killers, calls, only } = requestSchema.parse(message);
  const patterns = calls.map((call) => new RegExp(call));
  const left = new Set(tests.map((test) => test.fullTitle()));
  const likely = tests
    .filter(({ body }) => patterns.some((pattern) => pattern.test(body)))
    .map((test) => test.fullTitle());
  // What fixtures remember was deployed from another mutant.
  networkHelpers.clearSnapshots();
  await ethers.provider.send("evm_revert", [start]);
  start = await ethers.provider.send("evm_snapshot", []);
  let failed: string | undefined;
  for (const wanted of only ? [killers] : [killers, likely, [...left]]) {
    const now = wanted.filter((title) => left.delete(title));
    if (now.length > 0 && failed === undefined) failed = await run(now);
  }
  process.send?.({ failed });
}

/** Runs tests up to the first that fails; resolves with its title, or that of the hook. */
async function run(titles: readonly string[]): Promise<string | undefined> {
  const alternatives = titles.map((title) => title.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  mocha.grep(new RegExp(`^(?:${alternatives.join("|")})$`));
  return await new Promise((resolve) => {
    let failed: string | undefined;
    const runner = mocha.run((failures) => resolve(failures === 0 ? undefined : (failed ?? "a hook")));
    runner.on("fail", (test) => {
      failed ??= test.fullTitle();
    });
  });
}

function testsOf(suite: Mocha.Suite): readonly Mocha.Test[] {
  return [...suite.tests, ...suite.suites.flatMap(testsOf)];
}
