import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { z } from "zod";
import { EVM_VERSION, OPTIMIZER_RUNS } from "../solidity-settings.ts";

/** Markets that a campaign plays, one after the other: the test contracts of Market.t.sol. */
export const MARKETS = 2;
const TESTS = "test/contracts/invariants";

/** A rule that a history breaks. */
export interface BrokenRule {
  readonly market: string;
  readonly rule: string;
  /** Number of the step after which it showed; 0 when the error does not tell. */
  readonly step: number;
  /** What chose the history. */
  readonly seeds: readonly string[];
}

/** What a part of a campaign did. */
export interface Outcome {
  /** Histories that were played to their end. */
  readonly histories: number;
  readonly broken: readonly BrokenRule[];
}

export interface ProjectOptions {
  /** As what is deployed; compiling without takes a third of the time (true). */
  readonly optimized?: boolean;
  /** Changes a source, named by its path in the repository. */
  readonly edit?: (file: string, text: string) => string;
}

/** Forge is missing, or did not do what it was asked for. */
export class ForgeError extends Error {
  override readonly name = "ForgeError";
}

const report = z.record(
  z.string(),
  z.object({
    test_results: z.record(
      z.string(),
      z.object({
        status: z.string(),
        reason: z.string().nullish(),
        counterexample: z.object({ Single: z.object({ raw_args: z.string().nullish() }).optional() }).nullish(),
        kind: z.object({ Fuzz: z.object({ runs: z.number() }).optional() }),
      }),
    ),
  }),
);

/** Path of forge; `undefined` where its package has no build for this platform. */
export function forgePath(root: string): string | undefined {
  const file = path.join(root, "node_modules/.bin/forge");
  return existsSync(file) ? file : undefined;
}

/**
 * A copy of the contracts and of the histories in a folder of its own, compiled with the settings of what is deployed: a campaign goes
 * on with the same code whatever becomes of the tree. The folder's name is the hash of what is in it, so nothing is compiled twice.
 */
export class ForgeProject {
  readonly folder: string;
  readonly #forge: string;
  #building: Promise<void> | undefined;

  /** @throws ForgeError where forge has no build for the platform. */
  constructor(root: string, { optimized = true, edit = (_, text) => text }: ProjectOptions = {}) {
    const forge = forgePath(root);
    if (forge === undefined)
      throw new ForgeError("forge is not installed: its npm package has no build for this platform");
    this.#forge = forge;
    const sources = [...solidityUnder(root, "contracts"), ...solidityUnder(root, TESTS)].map(
      (file) => [file, edit(file, readFileSync(path.join(root, file), "utf8"))] as const,
    );
    const configuration = configurationFor("./solc.cjs", optimized);
    const hash = createHash("sha256")
      .update(JSON.stringify([sources, configuration]))
      .digest("hex")
      .slice(0, 16);
    this.folder = path.join(root, "cache/fuzz", hash);
    if (existsSync(path.join(this.folder, "foundry.toml"))) return;
    for (const [file, text] of sources) {
      mkdirSync(path.dirname(path.join(this.folder, file)), { recursive: true });
      writeFileSync(path.join(this.folder, file), text);
    }
    symlinkSync(path.join(root, "node_modules"), path.join(this.folder, "node_modules"));
    writeCompiler(path.join(this.folder, "solc.cjs"));
    writeFileSync(path.join(this.folder, "foundry.toml"), configuration);
  }

  /** @throws ForgeError when it does not compile. */
  async #built(): Promise<void> {
    this.#building ??= this.#run(["build", TESTS], {}).then(({ code, output }) => {
      if (code !== 0) throw new ForgeError(`the histories do not compile:\n${output}`);
    });
    await this.#building;
  }

  /** Plays `histories` of `steps` calls in each market. The same seed chooses the same. */
  async play(histories: number, steps: number, seed: number): Promise<Outcome> {
    return await this.#test(["--match-test", "testFuzz_history", "--fuzz-seed", String(seed)], {
      FOUNDRY_FUZZ_RUNS: String(histories),
      T4T_FUZZ_STEPS: String(steps),
    });
  }

  /** Plays those steps of a history that are listed; resolves with the rule that breaks, if one does. */
  async replay(market: string, seeds: readonly string[], steps: readonly number[]): Promise<BrokenRule | undefined> {
    const { broken } = await this.#test(["--match-test", "test_replay", "--match-contract", market], {
      T4T_FUZZ_REPLAY: [...seeds, ...steps].join(","),
    });
    return broken[0];
  }

  /** Whether histories reach every status often enough. */
  async reaches(): Promise<Outcome> {
    return await this.#test(["--match-test", "test_reach"], {});
  }

  async #test(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
    await this.#built();
    const { output } = await this.#run(["test", "--json", "--threads", "1", ...args], environment);
    const line = output.split("\n").findLast((text) => text.startsWith("{"));
    const parsed = report.safeParse(line === undefined ? undefined : JSON.parse(line));
    if (!parsed.success || Object.keys(parsed.data).length === 0) throw new ForgeError(`forge failed:\n${output}`);
    let histories = 0;
    const broken: BrokenRule[] = [];
    for (const [suite, { test_results: results }] of Object.entries(parsed.data)) {
      for (const { status, reason, counterexample, kind } of Object.values(results)) {
        histories += kind.Fuzz?.runs ?? 0;
        if (status === "Success") continue;
        const [, step = "0", rule = reason ?? "no reason"] = /^Broken\((\d+), "(.*)"\)$/.exec(reason ?? "") ?? [];
        const seeds = (counterexample?.Single?.raw_args ?? "").split(", ").filter((word) => word !== "");
        broken.push({ market: suite.split(":").at(-1) ?? suite, rule, step: Number(step), seeds });
      }
    }
    return { histories, broken };
  }

  async #run(
    args: readonly string[],
    environment: NodeJS.ProcessEnv,
  ): Promise<{ readonly code: number | null; readonly output: string }> {
    const child = spawn(this.#forge, [...args, "--root", this.folder], {
      cwd: this.folder,
      env: { ...process.env, ...environment, FOUNDRY_DISABLE_NIGHTLY_WARNING: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    return { code, output };
  }
}

function solidityUnder(root: string, folder: string): readonly string[] {
  return readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".sol"))
    .map((file) => path.join(folder, file))
    .toSorted();
}

/** Forge wants a compiler that is a program; npm's is a module. */
function writeCompiler(file: string): void {
  const solc = createRequire(import.meta.url).resolve("solc");
  writeFileSync(
    file,
    `#!${process.execPath}
const solc = require(${JSON.stringify(solc)});
if (process.argv.includes("--version")) {
  const version = solc.version().replace(/\\.Emscripten.*/, ".Linux.g++");
  console.log("solc, the solidity compiler commandline interface\\nVersion: " + version);
} else {
  let input = "";
  process.stdin.on("data", (data) => (input += data)).on("end", () => process.stdout.write(solc.compile(input)));
}
`,
  );
  chmodSync(file, 0o755);
}

/** A history is one transaction, so there is no limit of gas; code that is not optimized is long; and a history takes nothing from storage or code into its numbers. */
function configurationFor(compiler: string, optimized: boolean): string {
  return `[profile.default]
src = "contracts"
test = "${TESTS}"
out = "out"
cache_path = "cache"
libs = ["node_modules"]
remappings = ["@openzeppelin/=node_modules/@openzeppelin/"]
solc = "${compiler}"
offline = true
evm_version = "${EVM_VERSION}"
optimizer = ${optimized}
optimizer_runs = ${OPTIMIZER_RUNS}
code_size_limit = 1000000
gas_limit = "18446744073709551615"

[profile.default.fuzz]
dictionary_weight = 0
include_storage = false
include_push_bytes = false
`;
}
