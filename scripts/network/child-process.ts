import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdirSync } from "node:fs";
import { dirname } from "node:path";

/** A child that left before it was told to. */
export class ChildExitedError extends Error {
  override readonly name = "ChildExitedError";
}

/** How to start one process of the local network. */
export interface ChildOptions {
  /** For messages and the log file. */
  readonly name: string;
  /** Script and its arguments, run by this same Node. */
  readonly args: readonly string[];
  /** The whole environment: nothing is inherited but what is given here. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly logFile: string;
}

/** A running process of the local network. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /** Settles when the process has gone, with how. */
  readonly exited: Promise<string>;
  readonly running: boolean;
  /** Last lines of its output, for error messages. */
  tail(): string;
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL when it has not left in time; resolves when it has gone. */
  stop(graceMs: number): Promise<void>;
}

const children = new Set<ChildProcess>();
let exitHookInstalled = false;

/** No child outlives its parent, whatever way the parent ends (short of SIGKILL). */
function installExitHook(): void {
  if (exitHookInstalled) return;
  exitHookInstalled = true;
  process.on("exit", () => {
    for (const child of children) child.kill("SIGKILL");
  });
}

/** Variables that a child needs of its parent whatever it is: where programs, homes and temporary files are. */
export function inheritedEnvironment(): Record<string, string> {
  const inherited: Record<string, string> = {};
  for (const name of ["PATH", "HOME", "TMPDIR", "TEMP", "USER", "LANG", "SystemRoot"]) {
    const value = process.env[name];
    if (value !== undefined) inherited[name] = value;
  }
  return inherited;
}

/** Ends the child with its parent; see the file itself. */
const lifeline = new URL("./lifeline.ts", import.meta.url).href;

/** Starts a script with this process's own Node, its output in a log file. No signal of a terminal reaches it but through `stop`. */
export function startChild(options: ChildOptions): Child {
  installExitHook();
  mkdirSync(dirname(options.logFile), { recursive: true });
  const log = createWriteStream(options.logFile, { flags: "a", mode: 0o600 });
  const child = spawn(process.execPath, ["--import", lifeline, ...options.args], {
    cwd: options.cwd,
    env: { ...options.env, LIFELINE_ON_STDIN: "1" },
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  // It is never written to; a child that has gone closes it.
  child.stdin.on("error", () => undefined);
  children.add(child);
  let tail = "";
  const keep = (chunk: Buffer): void => {
    log.write(chunk);
    tail = (tail + chunk.toString("utf8")).slice(-4000);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  let running = true;
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => {
      running = false;
      children.delete(child);
      log.end();
      resolve(`could not start: ${error.message}`);
    });
    child.once("exit", (code, signal) => {
      running = false;
      children.delete(child);
      log.end();
      resolve(signal === null ? `exit code ${code ?? "unknown"}` : `signal ${signal}`);
    });
  });
  return {
    name: options.name,
    pid: child.pid ?? -1,
    exited,
    get running() {
      return running;
    },
    tail: () => tail.trimEnd(),
    kill: (signal) => {
      child.kill(signal);
    },
    stop: async (graceMs) => {
      if (!running) return;
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await exited;
      clearTimeout(timer);
    },
  };
}

/** Waits for `ready`, but fails at once, with the child's last words, when the child leaves first or time is up. */
export async function waitForChild<T>(child: Child, ready: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new ChildExitedError(`${child.name} was not ready after ${timeoutMs} ms\n${child.tail()}`));
    }, timeoutMs);
  });
  const left = child.exited.then((how): never => {
    throw new ChildExitedError(`${child.name} stopped before it was ready (${how})\n${child.tail()}`);
  });
  left.catch(() => undefined);
  try {
    return await Promise.race([ready, timeout, left]);
  } finally {
    clearTimeout(timer);
  }
}
