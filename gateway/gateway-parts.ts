import type { Logger } from "pino";
import type { Clock, Random } from "../protocol/clock.ts";
import type { Journal } from "../store/journal.ts";
import type { ChainPort, GatewayChainOptions } from "./chain/gateway-chain.ts";
import type { GatewaySettings } from "./settings.ts";
import type { Resolve } from "./upstream/guarded-lookup.ts";

/** What a gateway is made of. */
export interface GatewayParts {
  readonly settings: GatewaySettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly janitorMs: number;
  readonly journal: Journal | undefined;
  readonly openChain: ((options: GatewayChainOptions) => Promise<ChainPort>) | undefined;
  readonly resolve: Resolve | undefined;
  readonly onFatal: ((error: Error) => void) | undefined;
}
