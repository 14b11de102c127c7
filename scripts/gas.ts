import { readFile, writeFile } from "node:fs/promises";
import hre from "hardhat";
import { CommandLineError, runCommand, toggle, type Values } from "./command-line.ts";
import { breakDown } from "./gas/breakdown.ts";
import { type Measured, measure } from "./gas/measure.ts";
import { type Figures, figureOf, published, rows } from "./gas/rows.ts";

const snapshotFile = new URL("../gas-snapshot.json", import.meta.url);
const tolerance = 0.02;

const command = {
  name: "npm run gas --",
  about: `Measures what each function costs as a full transaction on a market deployed with the defaults of the Ignition module, in steady
state: every storage slot that an earlier job can have filled is filled. Prints the gas of each beside its target.`,
  options: {
    breakdown: toggle("adds what the gas of a post and of a completion goes to, by opcode"),
    check: toggle(`exits with 1 when a figure is more than ${tolerance * 100} % above gas-snapshot.json`),
    update: toggle("writes gas-snapshot.json"),
    json: toggle("the last line of standard output is one JSON object with the gas of each"),
  },
  examples: ["--check", "--breakdown"],
};

async function main(flags: Values<typeof command.options>): Promise<number> {
  if (flags.check && flags.update)
    throw new CommandLineError(["--check would compare with what --update has just written: give one of them"]);
  await hre.tasks.getTask("build").run({ quiet: true });
  const { figures, traces } = await measure();
  print(figures);
  if (flags.breakdown) printBreakdown(traces);
  if (flags.update) await writeFile(snapshotFile, `${JSON.stringify(figures, null, 2)}\n`);
  const faults = flags.check ? await check(figures) : [];
  for (const fault of faults) console.error(`gas rose: ${fault}`);
  if (faults.length > 0) console.error("explain the rise and run npm run gas -- --update");
  if (flags.json) console.log(JSON.stringify(figures));
  return faults.length === 0 ? 0 : 1;
}

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

/** Rows whose figure is above the snapshot's by more than the tolerance, or that it does not have. */
async function check(all: Figures): Promise<readonly string[]> {
  const snapshot = JSON.parse(await readFile(snapshotFile, "utf8")) as Figures;
  return rows.flatMap(({ key }) => {
    const before = snapshot[key];
    const now = figureOf(all, key);
    if (before === undefined) return [`${key}: not in the snapshot`];
    return now > before * (1 + tolerance) ? [`${key}: ${before} -> ${now}`] : [];
  });
}

await runCommand(command, main);
