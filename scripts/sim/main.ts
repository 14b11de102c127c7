import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { decimal, type Option, runCommand, text, toggle, type Values, wholeNumber } from "../command-line.ts";
import { drawChart } from "./report/svg.ts";
import { maxAgainstMean } from "./scenarios/a-max-against-mean.ts";
import { equalMachines } from "./scenarios/b-equal-machines.ts";
import { blackHole } from "./scenarios/c-black-hole.ts";
import { ringShares } from "./scenarios/d-ring-shares.ts";
import { faultyFleet } from "./scenarios/e-faulty-fleet.ts";
import { burst } from "./scenarios/f-burst.ts";
import { room } from "./scenarios/g-room.ts";
import type { Scenario, ScenarioReport } from "./scenarios/scenario.ts";

const scenarios: Readonly<Record<string, Scenario>> = {
  a: maxAgainstMean,
  b: equalMachines,
  c: blackHole,
  d: ringShares,
  e: faultyFleet,
  f: burst,
  g: room,
};

/** Names of scenarios, separated by commas. */
const someScenarios: Option<readonly string[]> = {
  placeholder: "a,b,...|all",
  about: `a: maximum against mean   b: two equal machines   c: a provider that fails fast
d: shares on the ring     e: degraded, over-stated, older status   f: a burst with the line
g: scenario a with less and more room`,
  fallback: Object.keys(scenarios),
  shownFallback: "all",
  read: (given) => {
    const names = given === "all" ? Object.keys(scenarios) : given.split(",");
    const known = names.every((name) => Object.hasOwn(scenarios, name));
    return known ? { value: names } : { expected: `all or among ${Object.keys(scenarios).join(",")}` };
  },
};

const command = {
  name: "npm run sim --",
  about: `Runs the real routing policies against simulated backends and prints percentiles, failures and retries with confidence intervals.`,
  options: {
    scenario: someScenarios,
    seeds: wholeNumber({ about: "paired seeds", fallback: 10, least: 1 }),
    scale: decimal({
      placeholder: "F",
      about: "shortens every run, e.g. 0.1 for a quick look; the figures in docs/routing are with 1",
      fallback: 1,
      least: 0.001,
      most: 1,
    }),
    json: toggle("the last line of standard output is one JSON object with checks and figures"),
    write: text("DIR", "writes tables, figures and SVG plots into a folder", undefined),
    "no-shared-prefill": toggle("prefills of one backend do not wait for one another"),
    "count-cached": toggle("cached tokens count in the measured throughput"),
    quiet: toggle("no progress on standard error"),
  },
  examples: ["--scenario a,c --seeds 2 --scale 0.1", "--scenario all --json --write out"],
};

async function main(values: Values<typeof command.options>): Promise<number> {
  const { seeds, scale } = values;
  const reports: ScenarioReport[] = [];
  for (const name of values.scenario) {
    const scenario = scenarios[name];
    if (scenario === undefined) continue;
    const report = scenario({
      seeds: Array.from({ length: seeds }, (_, index) => index + 1),
      scale,
      sharedPrefill: !values["no-shared-prefill"],
      excludeCached: !values["count-cached"],
      log: (line) => {
        if (!values.quiet) console.error(`  ${line}`);
      },
    });
    reports.push(report);
    print(report);
    if (values.write !== undefined) await write(report, values.write);
  }
  if (values.json) {
    const results = Object.fromEntries(
      reports.map(({ scenario, title, checks, figures }) => [scenario, { title, checks, figures }]),
    );
    console.log(JSON.stringify({ seeds, scale, passed: reports.every(passed), scenarios: results }));
  }
  return 0;
}

function passed(report: ScenarioReport): boolean {
  return report.checks.every(({ pass }) => pass);
}

function print(report: ScenarioReport): void {
  console.log(`\n(${report.scenario}) ${report.title}, ${report.seeds} seeds, mean ± 95 % confidence\n`);
  for (const table of report.tables) console.log(`${table}\n`);
  for (const { name, value, limit, pass } of report.checks) {
    console.log(
      `${pass ? "holds" : "FAILS"}  ${name}: ${Number(value.toPrecision(4))} (limit ${Number(limit.toPrecision(4))})`,
    );
  }
}

/** Six digits say more than the intervals do. */
function rounded(_key: string, value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(6)) : value;
}

async function write(report: ScenarioReport, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const chart of report.charts) await writeFile(join(folder, chart.file), drawChart(chart));
  const { scenario, title, seeds, checks, figures, tables } = report;
  await writeFile(
    join(folder, `${scenario}.json`),
    `${JSON.stringify({ scenario, title, seeds, checks, figures }, rounded, 1)}\n`,
  );
  await writeFile(join(folder, `${scenario}.txt`), `${tables.join("\n\n")}\n`);
}

await runCommand(command, main);
