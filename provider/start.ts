import { type Logger, pino } from "pino";
import type { Address } from "viem";
import { systemClock } from "../chain/system-clock.ts";
import type { Clock, Random } from "../protocol/clock.ts";
import type { Environment } from "../protocol/settings.ts";
import type { ProbeRhythm } from "./upstream/health.ts";
import { ProviderNode } from "./node/provider-node.ts";
import type { ProviderSettings } from "./settings/provider-settings.ts";

/** What a node takes from its surroundings; each has a default for a process of its own. */
export interface ProviderDependencies {
  readonly clock?: Clock;
  readonly random?: Random;
  readonly logger?: Logger;
  /** Where the endpoints file's `apiKeyEnv` are looked up. */
  readonly environment?: Environment;
  readonly probeRhythm?: ProbeRhythm;
  /** Called at named places of transactions; a kill test ends the process there. */
  readonly crashPoint?: (point: string, key: string) => void;
  /** The journal is lost: nothing can be served any more. */
  readonly onFatal?: (error: Error) => void;
}

/** A provider node that runs. */
export interface RunningProvider {
  /** The provider's identity on chain; undefined while the chain has never been reached. */
  readonly address: Address | undefined;
  /** Where it listens. */
  readonly url: string;
  /** Where gateways are told to call. */
  readonly endpoint: string;
  /** Why requests are not served now; undefined when they are. */
  notReady(): string | undefined;
  /** Reads the endpoints file again, and looks anew at what the chain lacks. */
  reload(): Promise<void>;
  /** Drains, settles and stops. */
  close(): Promise<void>;
}

/**
 * Starts a provider node: journal, backends, port, then registration, publication, recovery. Resolves when the port is open and the
 * chain was tried once; a chain that cannot be reached leaves the node degraded and retrying.
 *
 * @throws EndpointsFileError, JournalLockedError, listen errors, or WrongChainError: what no waiting cures.
 */
export async function startProvider(
  settings: ProviderSettings,
  dependencies: ProviderDependencies = {},
): Promise<RunningProvider> {
  const logger = dependencies.logger ?? pino({ level: settings.logLevel });
  const node = await ProviderNode.start({
    settings,
    environment: dependencies.environment ?? process.env,
    clock: dependencies.clock ?? systemClock,
    random: dependencies.random ?? Math.random,
    logger,
    ...(dependencies.probeRhythm === undefined ? {} : { probeRhythm: dependencies.probeRhythm }),
    ...(dependencies.crashPoint === undefined ? {} : { crashPoint: dependencies.crashPoint }),
    ...(dependencies.onFatal === undefined ? {} : { onFatal: dependencies.onFatal }),
  });
  return {
    get address() {
      return node.address;
    },
    get url() {
      return node.url;
    },
    get endpoint() {
      return node.endpoint;
    },
    notReady: () => node.notReady(),
    reload: async () => await node.reload(),
    close: async () => await node.close(),
  };
}
