/**
 * npm run gas [-- --json | --check | --update | --breakdown]
 *
 * Measures what each function costs as a full transaction on a market deployed with the defaults of the Ignition module, in steady
 * state: every storage slot that an earlier job can have filled is filled. Prints the table; --breakdown adds what the gas of a post
 * and of a completion goes to; --json adds a last line of JSON; --check fails when a figure is more than 2 % above
 * gas-snapshot.json; --update writes that file.
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import hre from "hardhat";
import { breakDown } from "./gas/breakdown.ts";
import { type Measured, measure } from "./gas/measure.ts";
import { type Figures, figureOf, published, rows } from "./gas/rows.ts";

const snapshotFile = new URL("../gas-snapshot.json", import.meta.url);
const tolerance = 0.02;

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean" },
    check: { type: "boolean" },
    update: { type: "boolean" },
    breakdown: { type: "boolean" },
  },
});
await hre.tasks.getTask("build").run({ quiet: true });
const { figures, traces } = await measure();
print(figures);
if (flags.breakdown === true) printBreakdown(traces);
if (flags.update === true) await writeFile(snapshotFile, `${JSON.stringify(figures, null, 2)}\n`);
if (flags.check === true) await check(figures);
if (flags.json === true) console.log(JSON.stringify(figures));

function print(all: Figures): void {
  const width = Math.max(...rows.map(({ what }) => what.length), ...published.map(([what]) => what.length));
  const line = (what: string, gas: string, target: string): void => {
    console.log(`${what.padEnd(width)}  ${gas.padStart(15)}  ${target}`);
  };
  line("full transaction, steady state", "gas", "target");
  for (const { key, what, target } of rows) {
    const gas = figureOf(all, key);
    const verdict = target === undefined ? "" : `<= ${target.toLocaleString("en")}${gas > target ? "  MISSED" : ""}`;
    line(what, gas.toLocaleString("en"), verdict);
  }
  console.log("");
  line("published elsewhere", "gas", "");
  for (const [what, gas] of published) line(what, gas, "");
}

function printBreakdown(all: Measured["traces"]): void {
  for (const [name, trace] of Object.entries(all)) {
    console.log(`\n${name}: ${trace.gasUsed.toLocaleString("en")}`);
    for (const { what, gas, count } of breakDown(trace)) {
      const percent = ((100 * gas) / trace.gasUsed).toFixed(1);
      console.log(
        `  ${what.padEnd(26)}  ${gas.toLocaleString("en").padStart(8)}  ${percent.padStart(5)} %  ${String(count).padStart(5)}`,
      );
    }
  }
}

async function check(all: Figures): Promise<void> {
  const snapshot = JSON.parse(await readFile(snapshotFile, "utf8")) as Figures;
  const faults = rows.flatMap(({ key }) => {
    const before = snapshot[key];
    const now = figureOf(all, key);
    if (before === undefined) return [`${key}: not in the snapshot`];
    return now > before * (1 + tolerance) ? [`${key}: ${before} -> ${now}`] : [];
  });
  for (const fault of faults) console.error(`gas rose: ${fault}`);
  if (faults.length !== 0) {
    console.error("explain the rise and run npm run gas -- --update");
    process.exitCode = 1;
  }
}
