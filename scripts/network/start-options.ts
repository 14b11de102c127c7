import { existsSync, readFileSync } from "node:fs";
import { type Hex, isHex } from "viem";
import { gatewaySettingsShape } from "../../gateway/settings.ts";
import { readSettings, SettingsError } from "../../protocol/settings.ts";
import { CommandLineError, helpOf, readCommandLine, toggle } from "../command-line.ts";

/** What `npm start` was asked for. */
export interface StartOptions {
  readonly once: boolean;
  readonly json: boolean;
  readonly help: boolean;
  readonly gatewayPort: number;
  readonly chainPort: number;
  readonly rpcUrl: string | undefined;
  readonly funderKey: Hex | undefined;
  readonly deploymentFile: string | undefined;
  readonly backendUrl: string | undefined;
  /** Model id at the backend; needed with a backend URL. */
  readonly backendModel: string | undefined;
  /** Port of the embedded model; 0 = a free one. */
  readonly backendPort: number;
  readonly engine: "auto" | "llama" | "text";
  readonly blockTimeMs: number;
  readonly dataDir: string | undefined;
  /** Most seconds that Ctrl-C waits for running answers (`T4T_DRAIN_SECONDS` of the gateway). */
  readonly drainSeconds: number;
  /** Most seconds that a request waits for a full provider (`T4T_PROVIDER_WAIT_SECONDS` of the gateway). */
  readonly waitSeconds: number;
  /** A key that the gateway accepts, when it asks for one (`T4T_API_KEYS`). */
  readonly apiKey: string | undefined;
  /** Variables that are handed on to the gateway as they are. */
  readonly gatewayEnv: Readonly<Record<string, string>>;
}

/** Flags or variables that cannot be used; each line names one and its cure. */
export class StartOptionsError extends Error {
  override readonly name = "StartOptionsError";
}

const command = {
  name: "npm start --",
  about: `Starts a whole T4T on this machine: a chain, the contracts, a model, three provider nodes and a gateway, sends one job through it and
stays up until Ctrl-C.`,
  options: {
    once: toggle("stops after the job is settled (exit code 0 only then)"),
    json: toggle("one JSON object a line instead of text"),
  },
  notes: `Variables (all optional):
  T4T_GATEWAY_PORT        port of the gateway on 127.0.0.1 (8484; 0 = a free one)
  T4T_CHAIN_PORT          port of the embedded chain (0 = a free one)
  T4T_BLOCK_TIME_MS       the embedded chain mines every so many ms (0 = a block per transaction)
  T4T_RPC_URL             use this chain instead of the embedded one; needs T4T_PRIVATE_KEY
  T4T_PRIVATE_KEY         key that deploys and funds (it needs ETH, and the token when contracts exist already)
  T4T_DEPLOYMENT_FILE     use these contracts instead of deploying
  T4T_BACKEND_URL         OpenAI-compatible backend instead of the embedded model, such as http://127.0.0.1:11434 (Ollama)
  T4T_BACKEND_MODEL       model id at that backend
  T4T_ENGINE              auto, llama or text: the embedded model (auto = llama where it runs)
  T4T_BACKEND_PORT        port of the embedded model on 127.0.0.1 (0 = a free one)
  T4T_DATA_DIR            keep data here instead of in a temporary folder; with T4T_RPC_URL a later run goes on with the same contracts
Every other T4T_ variable of the gateway (docs/settings.md) is handed on to it.`,
  examples: ["--once", "--json"],
};

export const startHelp = `${helpOf(command)}\n`;

/** Variables that `npm start` itself reads. */
export const ownVariables: ReadonlySet<string> = new Set([
  "T4T_GATEWAY_PORT",
  "T4T_CHAIN_PORT",
  "T4T_BLOCK_TIME_MS",
  "T4T_RPC_URL",
  "T4T_PRIVATE_KEY",
  "T4T_DEPLOYMENT_FILE",
  "T4T_BACKEND_URL",
  "T4T_BACKEND_MODEL",
  "T4T_ENGINE",
  "T4T_BACKEND_PORT",
  "T4T_DATA_DIR",
]);

/** Reads flags and variables; throws `StartOptionsError` that lists every fault at once. */
export function readStartOptions(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): StartOptions {
  const faults: string[] = [];
  let flags = { once: false, json: false };
  try {
    const line = readCommandLine(command, args);
    if (line.help) return { ...readStartOptions([], {}), help: true };
    flags = line.values;
  } catch (error) {
    if (!(error instanceof CommandLineError)) throw error;
    faults.push(...error.faults);
  }
  const read = (name: string): string | undefined => {
    const value = env[name]?.trim();
    return value === "" ? undefined : value;
  };
  const port = (name: string, fallback: number): number => integer(name, read(name), fallback, 65_535, faults);
  const url = (name: string, protocols: readonly string[]): string | undefined => {
    const value = read(name);
    if (value === undefined) return undefined;
    if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) {
      faults.push(`${name} must be a URL that starts with ${protocols.map((p) => `${p}//`).join(" or ")}`);
      return undefined;
    }
    return value;
  };
  const engine = read("T4T_ENGINE") ?? "auto";
  if (engine !== "auto" && engine !== "llama" && engine !== "text")
    faults.push("T4T_ENGINE must be auto, llama or text");
  const rpcUrl = url("T4T_RPC_URL", ["http:", "https:"]);
  const backendUrl = url("T4T_BACKEND_URL", ["http:", "https:"]);
  const key = read("T4T_PRIVATE_KEY");
  if (key !== undefined && !(isHex(key) && key.length === 66)) {
    faults.push("T4T_PRIVATE_KEY must be 0x and 64 hexadecimal digits (its value is not shown here)");
  }
  const backendModel = read("T4T_BACKEND_MODEL");
  const deploymentFile = read("T4T_DEPLOYMENT_FILE");
  if (rpcUrl !== undefined && key === undefined)
    faults.push("T4T_RPC_URL needs T4T_PRIVATE_KEY: a key that holds ETH on that chain");
  if (deploymentFile !== undefined && rpcUrl === undefined) {
    faults.push(
      "T4T_DEPLOYMENT_FILE needs T4T_RPC_URL: the embedded chain starts empty, so contracts cannot exist on it",
    );
  }
  if (backendUrl !== undefined && backendModel === undefined)
    faults.push("T4T_BACKEND_URL needs T4T_BACKEND_MODEL: the model id at that backend");
  if (backendModel !== undefined && backendUrl === undefined) faults.push("T4T_BACKEND_MODEL needs T4T_BACKEND_URL");
  const gatewayPort = port("T4T_GATEWAY_PORT", 8484);
  const chainPort = port("T4T_CHAIN_PORT", 0);
  const backendPort = port("T4T_BACKEND_PORT", 0);
  const blockTimeMs = integer("T4T_BLOCK_TIME_MS", read("T4T_BLOCK_TIME_MS"), 0, 600_000, faults);
  const gatewayEnv: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (name.startsWith("T4T_") && !ownVariables.has(name) && value !== undefined) gatewayEnv[name] = value;
  }
  const gateway = readGatewayVariables(gatewayEnv);
  faults.push(...gateway.faults);
  if (faults.length > 0) throw new StartOptionsError(faults.map((fault) => `  ${fault}`).join("\n"));
  return {
    ...flags,
    help: false,
    gatewayPort,
    chainPort,
    rpcUrl,
    funderKey: key as Hex | undefined,
    deploymentFile,
    backendUrl,
    backendModel,
    backendPort,
    engine: engine as StartOptions["engine"],
    blockTimeMs,
    dataDir: read("T4T_DATA_DIR"),
    drainSeconds: gateway.drainSeconds,
    waitSeconds: gateway.waitSeconds,
    apiKey: gateway.apiKey,
    gatewayEnv,
  };
}

/** What the gateway would refuse half a minute later, and what the demonstration has to know of it. */
function readGatewayVariables(gatewayEnv: Readonly<Record<string, string>>): {
  readonly faults: readonly string[];
  readonly drainSeconds: number;
  readonly waitSeconds: number;
  readonly apiKey: string | undefined;
} {
  try {
    const variables = readSettings(
      gatewaySettingsShape,
      { T4T_RPC_URL: "http://127.0.0.1", ...gatewayEnv },
      { alsoKnown: ownVariables },
    );
    return {
      faults: [],
      drainSeconds: variables.T4T_DRAIN_SECONDS,
      waitSeconds: variables.T4T_PROVIDER_WAIT_SECONDS,
      apiKey: variables.T4T_API_KEYS?.[0] ?? firstKeyOf(variables.T4T_API_KEYS_FILE),
    };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const faults = error.faults.map(({ variable, message }) => `${variable}: ${message}`);
    return { faults, drainSeconds: 0, waitSeconds: 0, apiKey: undefined };
  }
}

/** First key of a file of keys. The gateway itself says what is wrong with a file that has none. */
function firstKeyOf(path: string | undefined): string | undefined {
  if (path === undefined || !existsSync(path)) return undefined;
  return readFileSync(path, "utf8")
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line !== "" && !line.startsWith("#"));
}

function integer(name: string, text: string | undefined, fallback: number, max: number, faults: string[]): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > max) {
    faults.push(`${name} must be a whole number from 0 to ${max}`);
    return fallback;
  }
  return value;
}
