import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { until } from "../../support/until.ts";

/** A provider node in a process of its own. */
export interface ChildNode {
  readonly url: string;
  readonly pid: number;
  /** Settles with the exit code, or with the signal's name. */
  readonly gone: Promise<number | string>;
  output(): string;
  kill(signal: NodeJS.Signals): void;
}

const script = fileURLToPath(new URL("provider-process.ts", import.meta.url));
const main = fileURLToPath(new URL("../../../provider/main.ts", import.meta.url));

/** Starts one that ends itself at `crashAt`, or undefined when it did so before it was ready. */
export async function startChildNode(
  environment: Record<string, string>,
  crashAt = "none",
): Promise<ChildNode | undefined> {
  return await start([script], { ...environment, CRASH_AT: crashAt }, /^ready (\S+)$/m);
}

/** Starts `npm run provider` as operators do. */
export async function startMainNode(environment: Record<string, string>): Promise<ChildNode> {
  const node = await start([main], environment, /"url":"([^"]+)"/);
  if (node === undefined) throw new Error("the provider left at its start");
  return node;
}

async function start(
  args: readonly string[],
  environment: Record<string, string>,
  ready: RegExp,
): Promise<ChildNode | undefined> {
  const child: ChildProcess = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH ?? "", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout?.on("data", (piece: Buffer) => {
    output += piece.toString();
  });
  child.stderr?.on("data", (piece: Buffer) => {
    output += piece.toString();
  });
  let isGone = false;
  const gone = once(child, "exit").then(([code, signal]: unknown[]) => {
    isGone = true;
    return typeof code === "number" ? code : String(signal);
  });
  const url = await until("the node is ready or gone", () => ready.exec(output)?.[1] ?? isGone, 30_000);
  if (typeof url !== "string") return undefined;
  return { url, pid: child.pid ?? 0, gone, output: () => output, kill: (signal) => child.kill(signal) };
}
