import { readFile, stat } from "node:fs/promises";
import type { Address, Hex } from "viem";
import {
  addressSetting,
  amountSetting,
  integerSetting,
  parsePrivateKey,
  privateKeySetting,
  textSetting,
  urlSetting,
} from "../protocol/setting-kinds.ts";
import { type SettingFault, type Settings, SettingsError } from "../protocol/settings.ts";
import { DeploymentFileError, readDeployment } from "./deployment.ts";

/** Variables that every program which talks to the chain reads; spread it into the program's own shape. */
export const chainSettingsShape = {
  /** `http(s)://` or `ws(s)://`. */
  T4T_RPC_URL: urlSetting(["http:", "https:", "ws:", "wss:"]),
  /** Only wakes the index at a new block; everything is still read from `T4T_RPC_URL`. */
  T4T_RPC_WS_URL: urlSetting(["ws:", "wss:"]).optional(),
  T4T_RPC_TIMEOUT_MS: integerSetting({ min: 100, max: 120_000 }).default(10_000),
  T4T_DEPLOYMENT_FILE: textSetting().optional(),
  T4T_CHAIN_ID: integerSetting({ min: 1, max: Number.MAX_SAFE_INTEGER }).optional(),
  T4T_REGISTRY_ADDRESS: addressSetting().optional(),
  T4T_ESCROW_ADDRESS: addressSetting().optional(),
  /** Block of the first contract; only for reputation from events before this program first ran. */
  T4T_DEPLOYED_AT_BLOCK: integerSetting({ min: 0, max: Number.MAX_SAFE_INTEGER }).optional(),
  T4T_PRIVATE_KEY: privateKeySetting().optional(),
  T4T_PRIVATE_KEY_FILE: textSetting().optional(),
  T4T_CHAIN_POLL_MS: integerSetting({ min: 10, max: 60_000 }).default(1000),
  /** Blocks on top of and including a receipt's own after which an outcome is final. */
  T4T_CONFIRMATIONS: integerSetting({ min: 1, max: 1000 }).default(1),
  /** A transaction that is not mined in this time is sent again with a higher fee. */
  T4T_FEE_BUMP_SECONDS: integerSetting({ min: 1, max: 3600 }).default(30),
  /** Most that is ever bid, in wei per gas. */
  T4T_MAX_FEE_PER_GAS: amountSetting("wei").optional(),
  T4T_DATA_DIR: textSetting().default("data"),
  /** Ended jobs and transactions are kept so long in the journal; 0 = for ever. */
  T4T_JOURNAL_DAYS: integerSetting({ min: 0, max: 36_500 }).default(30),
} as const;

const dayMs = 86_400_000;
/** More than the 7 days that the registry's unbonding allows a job to last. */
const leastJournalDays = 8;

/** What the chain variables say, before files are read. */
export type ChainVariables = Settings<typeof chainSettingsShape>;

/** Which contracts on which chain. */
export interface ChainTarget {
  readonly chainId: number;
  readonly registry: Address;
  readonly escrow: Address;
  /** Known from a deployment file; else read from the escrow. */
  readonly token: Address | undefined;
  readonly deployedAtBlock: number | undefined;
}

/** The chain settings with files read; holds the key, so never log it. */
export interface ChainSettings {
  readonly rpcUrl: string;
  readonly wsUrl: string | undefined;
  readonly rpcTimeoutMs: number;
  readonly pollMs: number;
  readonly confirmations: number;
  readonly feeBumpMs: number;
  readonly maxFeePerGas: bigint | undefined;
  readonly dataDir: string;
  /** How long ended rows of the journal are kept; 0 = for ever. */
  readonly journalKeepMs: number;
  readonly target: ChainTarget;
  readonly privateKey: Hex;
}

/** Rules over several chain variables, for `readSettings`' `check`. */
export function checkChainVariables(variables: ChainVariables): readonly SettingFault[] {
  const faults: SettingFault[] = [];
  const addresses = ["T4T_CHAIN_ID", "T4T_REGISTRY_ADDRESS", "T4T_ESCROW_ADDRESS"] as const;
  const missing = addresses.filter((name) => variables[name] === undefined);
  if (variables.T4T_DEPLOYMENT_FILE === undefined) {
    if (missing.length === addresses.length) {
      faults.push({
        variable: "T4T_DEPLOYMENT_FILE",
        message: `is not set; name the deployment file, or set ${addresses.join(", ")}`,
      });
    } else {
      for (const variable of missing)
        faults.push({ variable, message: "is not set; it is needed beside the other addresses" });
    }
  } else if (missing.length < addresses.length) {
    const given = addresses.filter((name) => variables[name] !== undefined);
    for (const variable of given)
      faults.push({ variable, message: "contradicts T4T_DEPLOYMENT_FILE; set one or the other" });
  }
  const keys = [variables.T4T_PRIVATE_KEY, variables.T4T_PRIVATE_KEY_FILE].filter(
    (value) => value !== undefined,
  ).length;
  if (keys === 0)
    faults.push({
      variable: "T4T_PRIVATE_KEY_FILE",
      message: "is not set; name a file (mode 0600) that holds the key, or set T4T_PRIVATE_KEY",
    });
  if (variables.T4T_JOURNAL_DAYS > 0 && variables.T4T_JOURNAL_DAYS < leastJournalDays)
    faults.push({
      variable: "T4T_JOURNAL_DAYS",
      message: `must be 0 (for ever) or at least ${leastJournalDays}: a job that runs on chain for days must not be forgotten before it ends`,
    });
  if (keys === 2)
    faults.push({ variable: "T4T_PRIVATE_KEY", message: "is set together with T4T_PRIVATE_KEY_FILE; set one of them" });
  return faults;
}

/**
 * Reads the files that the variables name. Call after `readSettings` with `checkChainVariables`.
 *
 * @throws SettingsError naming the variable whose file cannot be used; a key is never repeated.
 */
export async function loadChainSettings(variables: ChainVariables): Promise<ChainSettings> {
  const faults: SettingFault[] = [...checkChainVariables(variables)];
  if (faults.length > 0) throw new SettingsError(faults);
  const target = await loadTarget(variables, faults);
  const privateKey = variables.T4T_PRIVATE_KEY ?? (await loadKey(variables.T4T_PRIVATE_KEY_FILE ?? "", faults));
  if (target === undefined || privateKey === undefined) throw new SettingsError(faults);
  return Object.freeze({
    rpcUrl: variables.T4T_RPC_URL,
    wsUrl: variables.T4T_RPC_WS_URL ?? (/^wss?:/.test(variables.T4T_RPC_URL) ? variables.T4T_RPC_URL : undefined),
    rpcTimeoutMs: variables.T4T_RPC_TIMEOUT_MS,
    pollMs: variables.T4T_CHAIN_POLL_MS,
    confirmations: variables.T4T_CONFIRMATIONS,
    feeBumpMs: variables.T4T_FEE_BUMP_SECONDS * 1000,
    maxFeePerGas: variables.T4T_MAX_FEE_PER_GAS,
    dataDir: variables.T4T_DATA_DIR,
    journalKeepMs: variables.T4T_JOURNAL_DAYS * dayMs,
    target,
    privateKey,
  });
}

async function loadTarget(variables: ChainVariables, faults: SettingFault[]): Promise<ChainTarget | undefined> {
  if (variables.T4T_DEPLOYMENT_FILE !== undefined) {
    try {
      return await readDeployment(variables.T4T_DEPLOYMENT_FILE);
    } catch (error) {
      if (!(error instanceof DeploymentFileError)) throw error;
      faults.push({ variable: "T4T_DEPLOYMENT_FILE", message: error.message });
      return undefined;
    }
  }
  const { T4T_CHAIN_ID: chainId, T4T_REGISTRY_ADDRESS: registry, T4T_ESCROW_ADDRESS: escrow } = variables;
  if (chainId === undefined || registry === undefined || escrow === undefined) return undefined;
  return { chainId, registry, escrow, token: undefined, deployedAtBlock: variables.T4T_DEPLOYED_AT_BLOCK };
}

async function loadKey(path: string, faults: SettingFault[]): Promise<Hex | undefined> {
  const variable = "T4T_PRIVATE_KEY_FILE";
  let text: string;
  try {
    const { mode } = await stat(path);
    // Windows has no such bits.
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      faults.push({ variable, message: `names ${path}, which others can read; run: chmod 600 ${path}` });
      return undefined;
    }
    text = await readFile(path, "utf8");
  } catch {
    faults.push({ variable, message: `names ${path}, which cannot be read` });
    return undefined;
  }
  const key = parsePrivateKey(text);
  if (key === undefined)
    faults.push({ variable, message: `names ${path}, which does not hold 64 hexadecimal digits and nothing else` });
  return key;
}
