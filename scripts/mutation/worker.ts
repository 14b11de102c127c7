/**
 * Child of the testbed, started in its directory: loads the contract tests once and runs them, up to the first failure, each time
 * that it is told the name of the file to begin with. Answers with whether all passed.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";
import Mocha from "mocha";
import type * as chain from "../../test/contracts/support/chain.ts";

const files = process.argv.slice(2);
const mocha = new Mocha({ bail: true, timeout: 60_000, reporter: Mocha.reporters.Base });
mocha.cleanReferencesAfterRun(false);
for (const file of files) mocha.addFile(path.resolve(file));
await mocha.loadFilesAsync();

// The tests' own module, by the same name: one chain for all runs.
const supportFile = pathToFileURL(path.resolve("test/contracts/support/chain.ts")).href;
const { ethers, networkHelpers } = (await import(supportFile)) as typeof chain;
const order = [...mocha.suite.suites];
let start: unknown = await ethers.provider.send("evm_snapshot", []);

process.on("message", (first: string) => {
  void run(first);
});
process.send?.("ready");

async function run(first: string): Promise<void> {
  // What fixtures remember was deployed from another mutant.
  networkHelpers.clearSnapshots();
  await ethers.provider.send("evm_revert", [start]);
  start = await ethers.provider.send("evm_snapshot", []);
  mocha.suite.suites = order.toSorted((a, b) => Number(b.file?.includes(first)) - Number(a.file?.includes(first)));
  mocha.run((failures) => process.send?.(failures === 0));
}
