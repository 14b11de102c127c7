import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { z } from "zod";
import { type Code, type Target, targets } from "./compiler.ts";

/** They compare the code with what is committed, so they would kill every mutant; or they measure its size; or they run none of it. */
const aboutTheCode: ReadonlySet<string> = new Set([
  "abi-modules.test.ts",
  "deployment.test.ts",
  "solhint-rules.test.ts",
  "storage-layout.test.ts",
]);
const linked = ["node_modules", "protocol", "ignition", "types", "scripts", "chain", "store", "docs"];
const copied = ["package.json", "tsconfig.json", "hardhat.config.ts", "contracts", "test/contracts", "artifacts"];

const answerSchema = z.object({ failed: z.string().optional() });

/** What to run first. */
export interface Hints {
  readonly killers: readonly string[];
  readonly calls: readonly string[];
}

/** What stands for the title of a test when the run did not get to tell one. */
const NO_END = "a run that never ended, or brought the process down";

/** A copy of contracts, tests and artifacts, so that mutants never meet other work in the tree. */
export class Testbed {
  readonly directory: string;
  readonly files: readonly string[];
  readonly #limit: number;
  #worker: ChildProcess | undefined;

  /** @param limit most seconds that one run of the tests may take; a mutant that never ends is found out. */
  constructor(root: string, limit: number) {
    this.#limit = limit;
    this.directory = mkdtempSync(path.join(os.tmpdir(), "t4t-mutants-"));
    mkdirSync(path.join(this.directory, "cache"));
    for (const name of linked) symlinkSync(path.join(root, name), path.join(this.directory, name));
    for (const name of copied) cpSync(path.join(root, name), path.join(this.directory, name), { recursive: true });
    this.files = readdirSync(path.join(this.directory, "test/contracts"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts") && !name.startsWith("model/") && !aboutTheCode.has(name))
      .map((name) => `test/contracts/${name}`)
      .toSorted();
  }

  install(code: ReadonlyMap<Target, Code>): void {
    for (const [name, one] of code) {
      const file = path.join(this.directory, "artifacts", targets[name], `${name}.json`);
      const artifact = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
      writeFileSync(file, JSON.stringify({ ...artifact, ...one }));
    }
  }

  /** Whether a test that failed fails again, by itself. A run that never ended does not need to end never twice. */
  async confirms(killer: string): Promise<boolean> {
    if (killer === NO_END) return true;
    return (await this.failing({ killers: [killer], calls: [] }, true)) !== undefined;
  }

  /**
   * Runs the tests until the first fails; resolves with its title, `undefined` when all passed.
   * @param only run those of the hints and no others.
   */
  async failing(hints: Hints, only = false): Promise<string | undefined> {
    this.#worker ??= await this.#start();
    const worker = this.#worker;
    const timer = setTimeout(() => worker.kill("SIGKILL"), this.#limit * 1000);
    try {
      worker.send({ ...hints, only });
      return answerSchema.parse(await this.#answer(worker)).failed;
    } catch {
      worker.kill("SIGKILL");
      this.#worker = undefined;
      return NO_END;
    } finally {
      clearTimeout(timer);
    }
  }

  [Symbol.dispose](): void {
    this.#worker?.kill("SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #start(): Promise<ChildProcess> {
    const worker = fork("scripts/mutation/worker.ts", this.files, {
      cwd: this.directory,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, HARDHAT_DISABLE_TELEMETRY_PROMPT: "true" },
    });
    await this.#answer(worker);
    return worker;
  }

  async #answer(worker: ChildProcess): Promise<unknown> {
    const over = new AbortController();
    const { signal } = over;
    try {
      const ended = once(worker, "close", { signal }).then(() => Promise.reject(new Error("the worker is gone")));
      const [message] = (await Promise.race([once(worker, "message", { signal }), ended])) as readonly unknown[];
      return message;
    } finally {
      over.abort();
    }
  }
}
