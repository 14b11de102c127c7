import type { Address } from "viem";
import {
  type ChainSettings,
  chainSettingsShape,
  checkChainVariables,
  loadChainSettings,
} from "../../chain/settings.ts";
import {
  addressSetting,
  amountSetting,
  booleanSetting,
  choiceSetting,
  integerSetting,
  numberSetting,
  textSetting,
  urlSetting,
} from "../../protocol/setting-kinds.ts";
import { type Environment, readSettings, type SettingFault, type Settings } from "../../protocol/settings.ts";
import { type EndpointsSource, type SimpleEndpoint, simpleEndpoints } from "./endpoints-source.ts";
import { siblingVariables } from "./sibling-variables.ts";

const seconds = (max: number) => integerSetting({ min: 0, max });

/** Variables of a provider node, beside those of the chain. */
export const providerSettingsShape = {
  ...chainSettingsShape,
  T4T_PROVIDER_HOST: textSetting(255).default("127.0.0.1"),
  /** 0 picks a free port. */
  T4T_PROVIDER_PORT: integerSetting({ min: 0, max: 65_535 }).default(8080),
  /** Public base URL as published on chain; host and port where unset. */
  T4T_ENDPOINT: urlSetting().optional(),
  T4T_ENDPOINTS_FILE: textSetting().optional(),
  T4T_BACKEND_URL: urlSetting().optional(),
  T4T_BACKEND_API_KEY: textSetting().optional(),
  T4T_MODEL: textSetting(128).optional(),
  /** Name of the model at the backend where it differs. */
  T4T_BACKEND_MODEL: textSetting(512).optional(),
  T4T_INPUT_PRICE: amountSetting().optional(),
  T4T_OUTPUT_PRICE: amountSetting().optional(),
  T4T_CONTEXT_LENGTH: integerSetting({ min: 1, max: 4_294_967_295 }).optional(),
  /** 0 = no cap. */
  T4T_MAX_CONCURRENT_JOBS: integerSetting({ min: 0, max: 4_294_967_295 }).default(2),
  T4T_HEARTBEAT_INTERVAL_SECONDS: integerSetting({ min: 1, max: 86_400 }).default(300),
  /** The provider's owner, where the key is only its operator. */
  T4T_OWNER: addressSetting().optional(),
  /** Where stake and earnings are withdrawn to; the owner where unset. Used at registration. */
  T4T_PAYOUT: addressSetting().optional(),
  /** Stake to reach, by adding what is missing; never withdraws. */
  T4T_STAKE: amountSetting().default(0n),
  /** Come back when the owner had deactivated the provider. */
  T4T_REACTIVATE: booleanSetting().default(false),
  /** Most that SIGTERM waits for running streams. */
  T4T_DRAIN_SECONDS: seconds(86_400).default(60),
  /** Posted jobs that no request came for are declined after this time. */
  T4T_UNFETCHED_DECLINE_SECONDS: seconds(86_400).default(60),
  /** How long a delivered job waits for the client's receipt before the unsigned part is claimed. */
  T4T_RECEIPT_GRACE_SECONDS: seconds(86_400).default(60),
  /** Time before a job's deadline by which it is cut off and settled. */
  T4T_SETTLE_MARGIN_SECONDS: seconds(3600).default(10),
  /** Least time to the deadline that a new job must leave, beyond the settle margin. */
  T4T_MIN_JOB_SECONDS: seconds(3600).default(10),
  /** How long a ready settlement waits for others to share its transaction. */
  T4T_SETTLE_WINDOW_MS: integerSetting({ min: 0, max: 600_000 }).default(10),
  T4T_SETTLE_BATCH: integerSetting({ min: 1, max: 50 }).default(20),
  /** Longest silence of a backend within an answer. */
  T4T_BACKEND_IDLE_SECONDS: numberSetting({ min: 0.05, max: 86_400 }).default(120),
  /** Longest wait for the first byte of a stream; a JSON answer may take until the job's deadline. */
  T4T_BACKEND_FIRST_BYTE_SECONDS: numberSetting({ min: 0.05, max: 86_400 }).default(300),
  /** Most that an authorisation may be valid for. */
  T4T_MAX_AUTHORIZATION_SECONDS: integerSetting({ min: 1, max: 86_400 }).default(3600),
  T4T_LOG_LEVEL: choiceSetting(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
} as const;

export type ProviderVariables = Settings<typeof providerSettingsShape>;

/** Settings of one provider node; holds keys, so never log it whole. */
export interface ProviderSettings {
  readonly chain: ChainSettings;
  readonly host: string;
  readonly port: number;
  readonly endpoint: string | undefined;
  readonly endpoints: EndpointsSource;
  readonly maxConcurrentJobs: number;
  readonly heartbeatIntervalMs: number;
  readonly owner: Address | undefined;
  readonly payout: Address | undefined;
  readonly stake: bigint;
  readonly reactivate: boolean;
  readonly drainMs: number;
  readonly unfetchedDeclineMs: number;
  readonly receiptGraceMs: number;
  readonly settleMarginSeconds: number;
  readonly minJobSeconds: number;
  readonly settleWindowMs: number;
  readonly settleBatch: number;
  readonly backendIdleMs: number;
  readonly backendFirstByteMs: number;
  readonly maxAuthorizationSeconds: number;
  readonly logLevel: string;
}

/**
 * Reads a provider node's settings from environment variables and the files that they name.
 *
 * @throws SettingsError naming every fault at once.
 */
export async function readProviderSettings(environment: Environment): Promise<ProviderSettings> {
  const variables = readSettings(providerSettingsShape, environment, {
    alsoKnown: siblingVariables,
    check: (read) => [...checkChainVariables(read), ...checkProviderVariables(read)],
  });
  const chain = await loadChainSettings(variables);
  return Object.freeze({
    chain,
    host: variables.T4T_PROVIDER_HOST,
    port: variables.T4T_PROVIDER_PORT,
    endpoint: variables.T4T_ENDPOINT?.replace(/\/+$/, ""),
    endpoints: endpointsSource(variables),
    maxConcurrentJobs: variables.T4T_MAX_CONCURRENT_JOBS,
    heartbeatIntervalMs: variables.T4T_HEARTBEAT_INTERVAL_SECONDS * 1000,
    owner: variables.T4T_OWNER,
    payout: variables.T4T_PAYOUT,
    stake: variables.T4T_STAKE,
    reactivate: variables.T4T_REACTIVATE,
    drainMs: variables.T4T_DRAIN_SECONDS * 1000,
    unfetchedDeclineMs: variables.T4T_UNFETCHED_DECLINE_SECONDS * 1000,
    receiptGraceMs: variables.T4T_RECEIPT_GRACE_SECONDS * 1000,
    settleMarginSeconds: variables.T4T_SETTLE_MARGIN_SECONDS,
    minJobSeconds: variables.T4T_MIN_JOB_SECONDS,
    settleWindowMs: variables.T4T_SETTLE_WINDOW_MS,
    settleBatch: variables.T4T_SETTLE_BATCH,
    backendIdleMs: variables.T4T_BACKEND_IDLE_SECONDS * 1000,
    backendFirstByteMs: variables.T4T_BACKEND_FIRST_BYTE_SECONDS * 1000,
    maxAuthorizationSeconds: variables.T4T_MAX_AUTHORIZATION_SECONDS,
    logLevel: variables.T4T_LOG_LEVEL,
  });
}

const simpleVariables = [
  "T4T_BACKEND_URL",
  "T4T_MODEL",
  "T4T_INPUT_PRICE",
  "T4T_OUTPUT_PRICE",
  "T4T_CONTEXT_LENGTH",
] as const;

function checkProviderVariables(variables: ProviderVariables): readonly SettingFault[] {
  const faults: SettingFault[] = [];
  if (variables.T4T_ENDPOINTS_FILE !== undefined) {
    for (const variable of [...simpleVariables, "T4T_BACKEND_API_KEY", "T4T_BACKEND_MODEL"] as const) {
      if (variables[variable] !== undefined) {
        faults.push({ variable, message: "contradicts T4T_ENDPOINTS_FILE; set one or the other" });
      }
    }
  } else {
    const given = simpleVariables.filter((name) => variables[name] !== undefined);
    if (given.length === 0) {
      const message = `is not set; name the file of backends and offerings, or set ${simpleVariables.join(", ")}`;
      faults.push({ variable: "T4T_ENDPOINTS_FILE", message });
    } else {
      for (const variable of simpleVariables) {
        if (!given.includes(variable)) {
          faults.push({ variable, message: "is not set; it is needed beside the others of one backend" });
        }
      }
    }
    if (variables.T4T_INPUT_PRICE === 0n && variables.T4T_OUTPUT_PRICE === 0n) {
      faults.push({ variable: "T4T_INPUT_PRICE", message: "and T4T_OUTPUT_PRICE must not both be 0" });
    }
  }
  const host = variables.T4T_PROVIDER_HOST;
  if (variables.T4T_ENDPOINT === undefined && (host === "0.0.0.0" || host === "::")) {
    const message = "is not set; T4T_PROVIDER_HOST listens everywhere, so gateways must be told where to call";
    faults.push({ variable: "T4T_ENDPOINT", message });
  }
  return faults;
}

function endpointsSource(variables: ProviderVariables): EndpointsSource {
  if (variables.T4T_ENDPOINTS_FILE !== undefined) return { kind: "file", path: variables.T4T_ENDPOINTS_FILE };
  return { kind: "simple", endpoints: simpleEndpoints(simpleEndpoint(variables)) };
}

/** The plain form's backend; `checkProviderVariables` has made sure that it is complete. */
function simpleEndpoint(variables: ProviderVariables): SimpleEndpoint {
  return {
    url: required(variables.T4T_BACKEND_URL),
    model: required(variables.T4T_MODEL),
    contextLength: required(variables.T4T_CONTEXT_LENGTH),
    prices: { inputPrice: required(variables.T4T_INPUT_PRICE), outputPrice: required(variables.T4T_OUTPUT_PRICE) },
    backendModel: variables.T4T_BACKEND_MODEL,
    apiKey: variables.T4T_BACKEND_API_KEY,
  };
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError("a checked variable is missing");
  return value;
}
