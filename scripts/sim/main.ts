import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
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

const usage = `npm run sim -- [--scenario a,b,...|all] [--seeds N] [--scale F] [--json] [--write DIR]
                [--no-shared-prefill] [--count-cached] [--quiet]

Runs the real routing policies against simulated backends.

  --scenario           a: maximum against mean   b: two equal machines   c: a provider that fails fast
                       d: shares on the ring     e: degraded, over-stated, older status   f: a burst with the line
                       g: scenario a with less and more room
  --seeds              paired seeds, default 10
  --scale              shortens every run, e.g. 0.1 for a quick look; the figures in docs/routing are with 1
  --json               last line of standard output: one JSON object
  --write              writes tables, figures and SVG plots into a folder
  --no-shared-prefill  prefills of one backend do not wait for one another
  --count-cached       cached tokens count in the measured throughput`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      scenario: { type: "string", default: "all" },
      seeds: { type: "string", default: "10" },
      scale: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
      write: { type: "string" },
      "no-shared-prefill": { type: "boolean", default: false },
      "count-cached": { type: "boolean", default: false },
      quiet: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return;
  }
  const wanted = values.scenario === "all" ? Object.keys(scenarios) : values.scenario.split(",");
  const seeds = Number(values.seeds);
  const scale = Number(values.scale);
  if (!Number.isInteger(seeds) || seeds < 1) throw new UsageError("--seeds must be a positive integer");
  if (!(scale > 0 && scale <= 1)) throw new UsageError("--scale must be above 0 and at most 1");
  const reports: ScenarioReport[] = [];
  for (const name of wanted) {
    const scenario = scenarios[name];
    if (scenario === undefined)
      throw new UsageError(`--scenario must be among ${Object.keys(scenarios).join(", ")} or all`);
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
}

/** A command line that cannot be understood. */
class UsageError extends Error {
  override readonly name = "UsageError";
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

try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${usage}`);
  process.exitCode = 2;
}
