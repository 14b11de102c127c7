import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { type Code, type Target, targets } from "./compiler.ts";

/** They compare the code with what is committed, so they would kill every mutant; or they measure its size. */
const aboutTheCode: ReadonlySet<string> = new Set(["abi-modules.test.ts", "deployment.test.ts"]);
const linked = ["node_modules", "contracts", "protocol", "ignition", "types", "scripts", "chain", "store", "test"];

/** A copy of the built project in which only the artifacts are its own, so that mutants never meet other work in the tree. */
export class Testbed {
  readonly directory: string;
  readonly files: readonly string[];
  readonly #limit: number;
  #worker: ChildProcess | undefined;

  /** @param limit most seconds that one run of the tests may take; a mutant that never ends is found out. */
  constructor(root: string, limit: number) {
    this.#limit = limit;
    this.directory = mkdtempSync(path.join(os.tmpdir(), "t4t-mutants-"));
    for (const name of linked) symlinkSync(path.join(root, name), path.join(this.directory, name));
    for (const name of ["package.json", "tsconfig.json", "hardhat.config.ts"]) {
      cpSync(path.join(root, name), path.join(this.directory, name));
    }
    mkdirSync(path.join(this.directory, "cache"));
    cpSync(path.join(root, "artifacts"), path.join(this.directory, "artifacts"), { recursive: true });
    this.files = ["test/contracts", "test/contracts/attacks"]
      .flatMap((folder) => readdirSync(path.join(root, folder)).map((name) => `${folder}/${name}`))
      .filter((file) => file.endsWith(".test.ts") && !aboutTheCode.has(path.basename(file)))
      .toSorted();
  }

  install(code: ReadonlyMap<Target, Code>): void {
    for (const [name, one] of code) {
      const file = path.join(this.directory, "artifacts", targets[name], `${name}.json`);
      const artifact = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
      writeFileSync(file, JSON.stringify({ ...artifact, ...one }));
    }
  }

  /** Runs the tests until the first fails; resolves with whether all passed. `first` names the file to begin with. */
  async passes(first: string): Promise<boolean> {
    this.#worker ??= await this.#start();
    const worker = this.#worker;
    const timer = setTimeout(() => worker.kill("SIGKILL"), this.#limit * 1000);
    try {
      worker.send(first);
      return await this.#answer(worker, true);
    } catch {
      // It never ended or brought the process down.
      this.#worker = undefined;
      return false;
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
    await this.#answer(worker, "ready");
    return worker;
  }

  async #answer(worker: ChildProcess, wanted: unknown): Promise<boolean> {
    const over = new AbortController();
    const { signal } = over;
    try {
      const ended = once(worker, "close", { signal }).then(() => Promise.reject(new Error("the worker is gone")));
      const [message] = (await Promise.race([once(worker, "message", { signal }), ended])) as readonly unknown[];
      return message === wanted;
    } finally {
      over.abort();
    }
  }
}
