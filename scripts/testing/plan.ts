import path from "node:path";

/** The programs that run tests. */
export type Runner = "invariants" | "hardhat" | "mocha";

/** Those that take test files. */
type FileRunner = Exclude<Runner, "invariants">;

/** One program to run, with the files or globs that it gets; none means all that its configuration names. */
export interface Step {
  readonly name: string;
  readonly runner: Runner;
  readonly files: readonly string[];
  readonly ignore: readonly string[];
}

/** Tests that kill processes: long, and mostly waiting for one to come up. */
const KILL_TESTS = "test/{chain,provider,store}/**/crash.test.ts";

const SUITES = {
  invariants: [{ name: "invariants", runner: "invariants", files: [], ignore: [] }],
  hardhat: [{ name: "hardhat", runner: "hardhat", files: [], ignore: [] }],
  unit: [{ name: "unit", runner: "mocha", files: ["test/**/*.test.ts"], ignore: ["test/e2e/**", KILL_TESTS] }],
  e2e: [{ name: "e2e", runner: "mocha", files: ["test/e2e/**/*.test.ts", KILL_TESTS], ignore: [] }],
  services: [{ name: "services", runner: "mocha", files: ["test/**/*.test.ts"], ignore: [] }],
} as const satisfies Record<string, readonly Step[]>;

const CONTRACTS: readonly Step[] = [...SUITES.invariants, ...SUITES.hardhat];
const NAMES: Readonly<Record<string, readonly Step[]>> = { ...SUITES, contracts: CONTRACTS };

/** What `planTests` knows by name. */
export const suiteNames: readonly string[] = Object.keys(NAMES);

/** Every test there is. */
const ALL: readonly Step[] = [...CONTRACTS, ...SUITES.unit, ...SUITES.e2e];

/** An argument that is neither a suite nor something that holds tests. */
export class UnknownTestsError extends Error {
  override readonly name = "UnknownTestsError";
}

/**
 * What to run for the arguments of `npm test`: names of suites (`contracts` = `invariants` and
 * `hardhat`; `services` = `unit` and `e2e`), test files, or folders of tests; everything for none.
 * @param isFolder whether a path names a folder.
 */
export function planTests(wanted: readonly string[], isFolder: (file: string) => boolean): readonly Step[] {
  if (wanted.length === 0) return ALL;
  const steps = new Map<string, Step>();
  const files: Record<FileRunner, string[]> = { hardhat: [], mocha: [] };
  for (const name of wanted) {
    const suite = NAMES[name];
    if (suite !== undefined) {
      for (const step of suite) steps.set(step.name, step);
      continue;
    }
    const file = path.normalize(name).replace(/[/\\]$/, "");
    const [runner, pattern] = runnerOf(file, isFolder(file));
    files[runner].push(pattern);
  }
  for (const runner of ["hardhat", "mocha"] as const) {
    if (files[runner].length > 0) {
      steps.set(`${runner} files`, { name: `${runner} files`, runner, files: files[runner], ignore: [] });
    }
  }
  return [...steps.values()];
}

function runnerOf(file: string, isFolder: boolean): readonly [FileRunner, string] {
  const ofContracts = file === "test/contracts" || file.startsWith("test/contracts/");
  if (file.endsWith(".ts")) return [ofContracts ? "hardhat" : "mocha", file];
  if (isFolder && !ofContracts) return ["mocha", `${file}/**/*.test.ts`];
  throw new UnknownTestsError(
    `${file} is no suite (${suiteNames.join(", ")}), no test file (.ts) and no folder of tests`,
  );
}
