import type { Address } from "viem";
import {
  type ChainSettings,
  type ChainVariables,
  chainSettingsShape,
  checkChainVariables,
  loadChainSettings,
} from "../chain/settings.ts";
import {
  addressSetting,
  amountSetting,
  booleanSetting,
  choiceSetting,
  integerSetting,
  listSetting,
  numberSetting,
  textSetting,
} from "../protocol/setting-kinds.ts";
import {
  type Environment,
  readSettings,
  type SettingFault,
  type Settings,
  SettingsError,
} from "../protocol/settings.ts";
import { readKeyFile } from "./http/api-keys.ts";
import { isLoopbackHost } from "./http/loopback.ts";
import { type PolicyName, policyNames } from "./routing/types.ts";

/** Variables of a gateway, beside those of the chain. Seconds may have decimals where tests need it. */
export const gatewaySettingsShape = {
  ...chainSettingsShape,
  T4T_GATEWAY_HOST: textSetting(255).default("127.0.0.1"),
  /** 0 picks a free port. */
  T4T_GATEWAY_PORT: integerSetting({ min: 0, max: 65_535 }).default(8484),
  /** Metrics on a port of loopback apart from the API; unset: at `/metrics` of the API port, under the same API keys. */
  T4T_METRICS_PORT: integerSetting({ min: 0, max: 65_535 }).optional(),
  T4T_API_KEYS: listSetting().optional(),
  /** One key a line. */
  T4T_API_KEYS_FILE: textSetting().optional(),
  /** Answers everybody without a key on addresses that are not loopback. */
  T4T_ALLOW_UNAUTHENTICATED: booleanSetting().default(false),
  T4T_MAX_BODY_BYTES: integerSetting({ min: 1024, max: 1_073_741_824 }).default(20 * 1024 * 1024),
  /** Longest JSON answer of a provider that is taken. */
  T4T_MAX_ANSWER_BYTES: integerSetting({ min: 1024, max: 1_073_741_824 }).default(64 * 1024 * 1024),

  T4T_SELECTION_STRATEGY: choiceSetting(policyNames).default("cheapest"),
  T4T_MANUAL_PROVIDER: addressSetting().optional(),
  /** Policies by model and by request, as JSON; in place of the three variables around. Read again at SIGHUP. */
  T4T_ROUTING_FILE: textSetting().optional(),
  /** Strategies that a request may ask for by `x-t4t-routing`. */
  T4T_ALLOWED_STRATEGIES: listSetting().optional(),
  /** Highest price of either kind, in the token's smallest unit per million tokens. */
  T4T_MAX_PRICE_PER_MILLION_TOKENS: amountSetting().optional(),
  T4T_PROVIDER_WAIT_SECONDS: numberSetting({ min: 0, max: 86_400 }).default(120),
  T4T_PROVIDER_WAIT_POLL_SECONDS: numberSetting({ min: 0.05, max: 3600 }).default(5),
  /** In which an outcome loses half its weight in a provider's reputation. */
  T4T_REPUTATION_HALF_LIFE_DAYS: numberSetting({ min: 0.01, max: 365 }).default(7),
  /** Requests in one model's line. */
  T4T_MAX_WAITING: integerSetting({ min: 0, max: 1_000_000 }).default(1000),

  T4T_DEFAULT_DEADLINE_SECONDS: integerSetting({ min: 1, max: 604_800 }).default(900),
  T4T_DEFAULT_MAX_OUTPUT_TOKENS: integerSetting({ min: 1, max: 100_000_000 }).default(16_384),
  T4T_ESCROW_HEADROOM_RATIO: numberSetting({ min: 0, max: 10 }).default(0.2),
  /** Share of a job's locked amount that its provider can claim without the gateway's receipt. */
  T4T_UNSIGNED_LIMIT_RATIO: numberSetting({ min: 0, max: 1 }).default(0.1),
  T4T_MAX_ESCROW_PER_JOB: amountSetting().optional(),
  /** Free balance that the escrow account is filled up to from the wallet when a job cannot be funded; unset: never. */
  T4T_ESCROW_TARGET_BALANCE: amountSetting().optional(),
  /** Wei per gas up to which a provider that signed for a job and vanished is slashed; 0: never, its job is cancelled at once. */
  T4T_SLASH_MAX_FEE_PER_GAS: amountSetting("wei").optional(),

  T4T_ALLOW_PRIVATE_ENDPOINTS: booleanSetting().default(false),
  T4T_CONNECT_TIMEOUT_SECONDS: numberSetting({ min: 0.05, max: 300 }).default(5),
  T4T_ACK_TIMEOUT_SECONDS: numberSetting({ min: 0.05, max: 3600 }).default(15),
  T4T_UPSTREAM_IDLE_SECONDS: numberSetting({ min: 0.05, max: 86_400 }).default(120),
  /** How long the status line of a stream is held. */
  T4T_COMMIT_GRACE_MS: integerSetting({ min: 0, max: 60_000 }).default(1500),
  T4T_KEEP_ALIVE_SECONDS: numberSetting({ min: 0.05, max: 300 }).default(8),
  /** Longest time that a client may not read while bytes wait for it. */
  T4T_CLIENT_STALL_SECONDS: numberSetting({ min: 0.05, max: 86_400 }).default(120),
  T4T_DRAIN_SECONDS: numberSetting({ min: 0, max: 86_400 }).default(60),
  T4T_LOG_LEVEL: choiceSetting(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
} as const;

/** What the gateway's variables say, before files are read. */
export type GatewayVariables = Settings<typeof gatewaySettingsShape>;

/** Settings of one gateway; holds keys, so never log it whole. Times in ms unless named otherwise. */
export interface GatewaySettings {
  readonly chain: ChainSettings;
  readonly host: string;
  readonly port: number;
  readonly metricsPort: number | undefined;
  readonly apiKeys: readonly string[];
  readonly allowUnauthenticated: boolean;
  readonly maxBodyBytes: number;
  readonly maxAnswerBytes: number;
  readonly strategy: PolicyName;
  readonly manualProvider: Address | undefined;
  readonly allowedStrategies: readonly PolicyName[];
  readonly routingFile: string | undefined;
  readonly maxPrice: bigint | undefined;
  readonly waitLimitMs: number;
  readonly waitPollMs: number;
  readonly reputationHalfLifeSeconds: number;
  readonly maxWaiting: number;
  readonly deadlineSeconds: number;
  readonly defaultMaxOutputTokens: number;
  readonly headroomRatio: number;
  readonly unsignedLimitRatio: number;
  readonly maxEscrowPerJob: bigint | undefined;
  readonly escrowTarget: bigint | undefined;
  readonly maxSlashFee: bigint | undefined;
  readonly allowPrivateEndpoints: boolean;
  readonly connectTimeoutMs: number;
  readonly ackTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly commitGraceMs: number;
  readonly keepAliveMs: number;
  readonly clientStallMs: number;
  readonly drainMs: number;
  readonly logLevel: string;
}

/** Variables of provider nodes and the local network: one environment file may serve all programs. */
const siblingVariables: readonly string[] = [
  "T4T_BACKEND_API_KEY",
  "T4T_BACKEND_FIRST_BYTE_SECONDS",
  "T4T_BACKEND_IDLE_SECONDS",
  "T4T_BACKEND_MODEL",
  "T4T_BACKEND_PORT",
  "T4T_BACKEND_URL",
  "T4T_BLOCK_TIME_MS",
  "T4T_CHAIN_PORT",
  "T4T_CONTEXT_LENGTH",
  "T4T_ENDPOINT",
  "T4T_ENDPOINTS_FILE",
  "T4T_ENGINE",
  "T4T_HEARTBEAT_INTERVAL_SECONDS",
  "T4T_INPUT_PRICE",
  "T4T_MAX_AUTHORIZATION_SECONDS",
  "T4T_MAX_CONCURRENT_JOBS",
  "T4T_MIN_JOB_SECONDS",
  "T4T_MODEL",
  "T4T_OUTPUT_PRICE",
  "T4T_OWNER",
  "T4T_PAYOUT",
  "T4T_PROVIDER_HOST",
  "T4T_PROVIDER_PORT",
  "T4T_REACTIVATE",
  "T4T_RECEIPT_GRACE_SECONDS",
  "T4T_SETTLE_BATCH",
  "T4T_SETTLE_MARGIN_SECONDS",
  "T4T_SETTLE_WINDOW_MS",
  "T4T_STAKE",
  "T4T_UNFETCHED_DECLINE_SECONDS",
];

/**
 * Reads a gateway's settings from environment variables and the files that they name.
 *
 * @throws SettingsError naming every fault at once.
 */
export async function readGatewaySettings(environment: Environment): Promise<GatewaySettings> {
  const variables = readSettings(gatewaySettingsShape, environment, {
    alsoKnown: siblingVariables,
    check: (read) => [...checkChainVariables(read), ...checkGatewayVariables(read)],
  });
  const faults: SettingFault[] = [];
  const apiKeys = loadApiKeys(variables, faults);
  const chain = await chainOrFaults(variables, faults);
  if (chain === undefined || faults.length > 0) throw new SettingsError(faults);
  return Object.freeze({
    chain,
    host: variables.T4T_GATEWAY_HOST,
    port: variables.T4T_GATEWAY_PORT,
    metricsPort: variables.T4T_METRICS_PORT,
    apiKeys,
    allowUnauthenticated: variables.T4T_ALLOW_UNAUTHENTICATED,
    maxBodyBytes: variables.T4T_MAX_BODY_BYTES,
    maxAnswerBytes: variables.T4T_MAX_ANSWER_BYTES,
    strategy: variables.T4T_SELECTION_STRATEGY,
    manualProvider: variables.T4T_MANUAL_PROVIDER,
    allowedStrategies: (variables.T4T_ALLOWED_STRATEGIES ?? []).filter(isPolicyName),
    routingFile: variables.T4T_ROUTING_FILE,
    maxPrice: variables.T4T_MAX_PRICE_PER_MILLION_TOKENS,
    waitLimitMs: variables.T4T_PROVIDER_WAIT_SECONDS * 1000,
    waitPollMs: variables.T4T_PROVIDER_WAIT_POLL_SECONDS * 1000,
    reputationHalfLifeSeconds: variables.T4T_REPUTATION_HALF_LIFE_DAYS * 86_400,
    maxWaiting: variables.T4T_MAX_WAITING,
    deadlineSeconds: variables.T4T_DEFAULT_DEADLINE_SECONDS,
    defaultMaxOutputTokens: variables.T4T_DEFAULT_MAX_OUTPUT_TOKENS,
    headroomRatio: variables.T4T_ESCROW_HEADROOM_RATIO,
    unsignedLimitRatio: variables.T4T_UNSIGNED_LIMIT_RATIO,
    maxEscrowPerJob: variables.T4T_MAX_ESCROW_PER_JOB,
    escrowTarget: variables.T4T_ESCROW_TARGET_BALANCE,
    maxSlashFee: variables.T4T_SLASH_MAX_FEE_PER_GAS,
    allowPrivateEndpoints: variables.T4T_ALLOW_PRIVATE_ENDPOINTS,
    connectTimeoutMs: variables.T4T_CONNECT_TIMEOUT_SECONDS * 1000,
    ackTimeoutMs: variables.T4T_ACK_TIMEOUT_SECONDS * 1000,
    idleTimeoutMs: variables.T4T_UPSTREAM_IDLE_SECONDS * 1000,
    commitGraceMs: variables.T4T_COMMIT_GRACE_MS,
    keepAliveMs: variables.T4T_KEEP_ALIVE_SECONDS * 1000,
    clientStallMs: variables.T4T_CLIENT_STALL_SECONDS * 1000,
    drainMs: variables.T4T_DRAIN_SECONDS * 1000,
    logLevel: variables.T4T_LOG_LEVEL,
  });
}

function checkGatewayVariables(variables: GatewayVariables): readonly SettingFault[] {
  const faults: SettingFault[] = [];
  const hasKeys = variables.T4T_API_KEYS !== undefined || variables.T4T_API_KEYS_FILE !== undefined;
  if (!hasKeys && !isLoopbackHost(variables.T4T_GATEWAY_HOST) && !variables.T4T_ALLOW_UNAUTHENTICATED) {
    faults.push({
      variable: "T4T_GATEWAY_HOST",
      message:
        "is not a loopback address, and anybody who reaches it could spend the wallet's money; set T4T_API_KEYS or T4T_API_KEYS_FILE, or T4T_ALLOW_UNAUTHENTICATED=true",
    });
  }
  for (const key of variables.T4T_API_KEYS ?? []) {
    if (/\s/.test(key) || key.length < 8) {
      faults.push({ variable: "T4T_API_KEYS", message: "holds a key of less than 8 characters, or with blanks in it" });
      break;
    }
  }
  const strategies = [variables.T4T_SELECTION_STRATEGY, ...(variables.T4T_ALLOWED_STRATEGIES ?? [])];
  if (strategies.includes("manual") && variables.T4T_MANUAL_PROVIDER === undefined) {
    faults.push({
      variable: "T4T_MANUAL_PROVIDER",
      message: "is not set; the strategy manual needs the provider's address",
    });
  }
  if ((variables.T4T_ALLOWED_STRATEGIES ?? []).some((name) => !isPolicyName(name))) {
    faults.push({ variable: "T4T_ALLOWED_STRATEGIES", message: `must hold names among ${policyNames.join(", ")}` });
  }
  if (
    variables.T4T_METRICS_PORT !== undefined &&
    variables.T4T_METRICS_PORT !== 0 &&
    variables.T4T_METRICS_PORT === variables.T4T_GATEWAY_PORT
  ) {
    faults.push({
      variable: "T4T_METRICS_PORT",
      message: "is the same as T4T_GATEWAY_PORT; leave it unset for metrics on the API port",
    });
  }
  return faults;
}

function isPolicyName(name: string): name is PolicyName {
  return (policyNames as readonly string[]).includes(name);
}

function loadApiKeys(variables: GatewayVariables, faults: SettingFault[]): readonly string[] {
  const keys = [...(variables.T4T_API_KEYS ?? [])];
  const path = variables.T4T_API_KEYS_FILE;
  if (path === undefined) return keys;
  try {
    const read = readKeyFile(path);
    if (read.length === 0) faults.push({ variable: "T4T_API_KEYS_FILE", message: `names ${path}, which holds no key` });
    keys.push(...read);
  } catch {
    faults.push({ variable: "T4T_API_KEYS_FILE", message: `names ${path}, which cannot be read` });
  }
  return keys;
}

async function chainOrFaults(variables: ChainVariables, faults: SettingFault[]): Promise<ChainSettings | undefined> {
  try {
    return await loadChainSettings(variables);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    faults.push(...error.faults);
    return undefined;
  }
}
