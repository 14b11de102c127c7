import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Child, inheritedEnvironment, startChild, waitForChild } from "./child-process.ts";
import { rpcReady } from "./rpc-ready.ts";

/** Root of the checkout: Hardhat looks for its configuration there. */
export const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** A Hardhat chain in a process of its own. */
export interface ChainProcess {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly child: Child;
}

/**
 * Starts `hardhat node` on a port of loopback, mining a block per transaction, or every `blockTimeMs` when that is not 0.
 * Rejects with the process's last words when it cannot start.
 */
export async function startChainProcess(options: {
  readonly port: number;
  readonly logFile: string;
  readonly blockTimeMs: number;
}): Promise<ChainProcess> {
  const hardhat = join(
    dirname(createRequire(import.meta.url).resolve("hardhat/package.json")),
    "dist",
    "src",
    "cli.js",
  );
  const rpcUrl = `http://127.0.0.1:${options.port}`;
  const child = startChild({
    name: "chain",
    args: [hardhat, "node", "--hostname", "127.0.0.1", "--port", String(options.port)],
    env: { ...inheritedEnvironment(), HARDHAT_DISABLE_TELEMETRY_PROMPT: "true", NO_COLOR: "1" },
    cwd: repositoryRoot,
    logFile: options.logFile,
  });
  const stop = new AbortController();
  try {
    const chainId = await waitForChild(child, rpcReady(rpcUrl, stop.signal), 30_000);
    if (options.blockTimeMs > 0) await mineEvery(rpcUrl, options.blockTimeMs);
    return { rpcUrl, chainId, child };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  } finally {
    stop.abort();
  }
}

async function mineEvery(rpcUrl: string, blockTimeMs: number): Promise<void> {
  for (const [method, parameter] of [
    ["evm_setAutomine", false],
    ["evm_setIntervalMining", blockTimeMs],
  ] as const) {
    const response = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [parameter] }),
    });
    const answer = (await response.json()) as { error?: { message: string } };
    if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
  }
}
