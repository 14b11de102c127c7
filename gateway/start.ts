import type { Logger } from "pino";
import { systemClock } from "../chain/system-clock.ts";
import type { Clock, Random } from "../protocol/clock.ts";
import type { Journal } from "../store/journal.ts";
import type { ChainPort, GatewayChainOptions } from "./chain/gateway-chain.ts";
import { Gateway } from "./gateway.ts";
import { openLogger } from "./ops/log.ts";
import type { GatewaySettings } from "./settings.ts";
import type { Resolve } from "./upstream/guarded-lookup.ts";

/** What a gateway takes from its surroundings; each has a default for a process of its own. */
export interface GatewayDependencies {
  readonly clock?: Clock;
  readonly random?: Random;
  readonly logger?: Logger;
  /** An open journal; the gateway closes it. */
  readonly journal?: Journal;
  /** Another chain in place of the one behind the RPC URL. */
  readonly openChain?: (options: GatewayChainOptions) => Promise<ChainPort>;
  /** How endpoint names are resolved. */
  readonly resolve?: Resolve;
  /** How often the janitor looks, ms. */
  readonly janitorMs?: number;
  /** Nothing can be served any more: the chain came up late and is not the configured one, or the journal is lost. */
  readonly onFatal?: (error: Error) => void;
}

/** A gateway that runs. */
export interface RunningGateway {
  /** Base URL of the API, without `/v1`. */
  readonly url: string;
  /** Base URL of the metrics when they have a port of their own. */
  readonly metricsUrl: string | undefined;
  /** The wallet that pays for jobs. */
  readonly wallet: `0x${string}`;
  /** Why requests are not served now; undefined when they are. */
  notReady(): string | undefined;
  /** Reads the routing policy file again. */
  reload(): void;
  /** Drains, settles what it can, leaves the rest to the journal, and stops. @param drainMs Most ms for running answers. */
  close(drainMs?: number): Promise<void>;
}

/**
 * Starts a gateway: journal, port, then the chain. Resolves when the port is open and the chain was tried once; a chain that cannot be
 * reached leaves the gateway degraded (503 `chain_unavailable`) and retrying.
 *
 * @throws WrongChainError, JournalLockedError, PolicyConfigError or listen errors: what no waiting cures.
 */
export async function startGateway(
  settings: GatewaySettings,
  dependencies: GatewayDependencies = {},
): Promise<RunningGateway> {
  return await Gateway.start({
    settings,
    clock: dependencies.clock ?? systemClock,
    random: dependencies.random ?? Math.random,
    logger: dependencies.logger ?? openLogger(settings.logLevel),
    janitorMs: dependencies.janitorMs ?? 2000,
    journal: dependencies.journal,
    openChain: dependencies.openChain,
    resolve: dependencies.resolve,
    onFatal: dependencies.onFatal,
  });
}
