import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Address, Hex } from "viem";
import { mnemonicToAccount } from "viem/accounts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const mnemonic = "test test test test test test test test test test test junk";

/** A funded account of a development chain. */
export interface TestAccount {
  readonly address: Address;
  readonly key: Hex;
}

/** A development chain in a process of its own. */
export interface TestChain {
  readonly kind: "hardhat" | "anvil";
  readonly rpcUrl: string;
  readonly wsUrl: string;
  readonly chainId: number;
  /** Ten accounts with 10,000 ETH each. */
  readonly accounts: readonly TestAccount[];
  /** One JSON-RPC call, straight to the node; rejects with the node's message. */
  rpc(method: string, ...params: readonly unknown[]): Promise<unknown>;
  /** Account of an index 0..9; throws beyond. */
  account(index: number): TestAccount;
  /** Kills the process and resolves when it has gone. */
  stop(): Promise<void>;
}

/** Options of both chains. */
export interface TestChainOptions {
  /** 0 or absent picks a free port. */
  readonly port?: number;
  /** Mines a block every so many milliseconds; a block for every transaction when absent. */
  readonly blockTimeMs?: number;
}

/** Starts `hardhat node`. */
export async function startHardhatChain(options: TestChainOptions = {}): Promise<TestChain> {
  const cli = join(dirname(createRequire(import.meta.url).resolve("hardhat/package.json")), "dist", "src", "cli.js");
  const port = options.port ?? 0;
  const command = [process.execPath, cli, "node", "--hostname", "127.0.0.1", "--port", String(port)];
  const chain = await startChain("hardhat", command, /server at http:\/\/[^:]+:(\d+)/);
  if (options.blockTimeMs !== undefined) {
    await chain.rpc("evm_setAutomine", false);
    await chain.rpc("evm_setIntervalMining", options.blockTimeMs);
  }
  return chain;
}

/** Starts `anvil`; `extra` are further arguments of its command line. */
export async function startAnvil(
  options: TestChainOptions & { readonly extra?: readonly string[] } = {},
): Promise<TestChain> {
  const anvil = join(dirname(createRequire(import.meta.url).resolve(anvilPackage())), "bin", "anvil");
  const blockTime = options.blockTimeMs === undefined ? [] : ["--block-time", String(options.blockTimeMs / 1000)];
  const command = [
    anvil,
    "--host",
    "127.0.0.1",
    "--port",
    String(options.port ?? 0),
    "--hardfork",
    "cancun",
    ...blockTime,
    ...(options.extra ?? []),
  ];
  return await startChain("anvil", command, /Listening on [^:]+:(\d+)/);
}

function anvilPackage(): string {
  const cpu = process.arch === "arm64" ? "arm64" : "amd64";
  return `@foundry-rs/anvil-${process.platform === "darwin" ? "darwin" : "linux"}-${cpu}/package.json`;
}

/**
 * Runs a command under a shell that ends it as soon as the shell's input closes: however this process dies, its end of the pipe closes
 * and the chain goes with it.
 */
function spawnTied(command: readonly string[]): ChildProcess {
  const script = '"$@" </dev/null & child=$!; cat >/dev/null; kill -9 $child; wait $child 2>/dev/null';
  return spawn("sh", ["-c", script, "sh", ...command], {
    cwd: root,
    env: { ...process.env, HARDHAT_DISABLE_TELEMETRY_PROMPT: "true", NO_COLOR: "1", FORCE_COLOR: "0" },
    stdio: ["pipe", "pipe", "pipe"],
  });
}

async function startChain(kind: TestChain["kind"], command: readonly string[], ready: RegExp): Promise<TestChain> {
  const shell = spawnTied(command);
  const gone = new Promise<void>((resolve) => {
    shell.once("close", () => resolve());
  });
  const stop = async (): Promise<void> => {
    shell.stdin?.end();
    await gone;
  };
  try {
    const port = await announcedPort(shell, ready);
    const rpcUrl = `http://127.0.0.1:${port}`;
    const rpc = (method: string, ...params: readonly unknown[]): Promise<unknown> => rpcCall(rpcUrl, method, params);
    // An old process on the same port would have blocks already.
    const blockNumber = Number(await rpc("eth_blockNumber"));
    if (blockNumber !== 0 && kind === "hardhat")
      throw new Error(`the chain on port ${port} is at block ${blockNumber}, not a fresh one`);
    const chainId = Number(await rpc("eth_chainId"));
    const accounts = testAccounts();
    const account = (index: number): TestAccount => {
      const found = accounts[index];
      if (found === undefined) throw new Error(`there is no test account ${index}`);
      return found;
    };
    return { kind, rpcUrl, wsUrl: `ws://127.0.0.1:${port}`, chainId, accounts, rpc, account, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function announcedPort(shell: ChildProcess, ready: RegExp): Promise<number> {
  return new Promise((resolve, reject) => {
    let output = "";
    let found = false;
    const timer = setTimeout(() => reject(new Error(`the chain did not start in 60 s:\n${output}`)), 60_000);
    const onData = (chunk: Buffer): void => {
      // Hardhat prints every call; only the start is of interest, but the pipe must be drained for ever.
      if (found) return;
      output += chunk.toString();
      const port = ready.exec(output)?.[1];
      if (port === undefined) {
        if (/error|panicked/i.test(output) && /in use/i.test(output)) reject(new Error(output));
        return;
      }
      found = true;
      clearTimeout(timer);
      resolve(Number(port));
    };
    shell.stdout?.on("data", onData);
    shell.stderr?.on("data", onData);
    shell.once("close", () => {
      clearTimeout(timer);
      reject(new Error(`the chain left at its start:\n${output}`));
    });
  });
}

let derived: readonly TestAccount[] | undefined;

function testAccounts(): readonly TestAccount[] {
  derived ??= Array.from({ length: 10 }, (_, index) => {
    const account = mnemonicToAccount(mnemonic, { addressIndex: index });
    const key = account.getHdKey().privateKey;
    if (key === null) throw new Error("no private key at this path");
    return { address: account.address, key: `0x${Buffer.from(key).toString("hex")}` } as const;
  });
  return derived;
}

/** One JSON-RPC call over HTTP; rejects with the node's message. */
export async function rpcCall(rpcUrl: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const answer = (await response.json()) as {
    readonly result?: unknown;
    readonly error?: { readonly message: string };
  };
  if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
  return answer.result;
}
