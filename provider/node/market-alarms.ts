import type { PublicClient } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { Journal } from "../../store/journal.ts";
import type { MissingSlots } from "../escrow/missing-slots.ts";
import type { ProviderMetrics } from "../metrics.ts";
import { proposalFields } from "../registration/market-notice.ts";
import { MarketReader } from "../registration/market-reader.ts";
import { MarketWatch, type MarketWatchOptions } from "../registration/market-watch.ts";
import type { NodeLog } from "./log.ts";

/** What the alarms need of the node. */
export interface MarketAlarmsOptions
  extends Pick<MarketWatchOptions, "chainId" | "registry" | "escrow" | "deployedAtBlock"> {
  readonly client: PublicClient;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly log: NodeLog;
}

/** How an owner takes a provider out of every market's reach. */
const leave =
  "the owner calls on the registry: deactivate(), after which no market can reach the stake once no job is open; startUnbonding(all that is not " +
  "unbonding), withdrawStake()";
const seeMarkets = `see which markets the registry has, markets(). To leave, ${leave}`;

/** A watch over the registry's markets that warns in the node's log. */
export function openMarketWatch(options: MarketAlarmsOptions): MarketWatch {
  const { log } = options;
  return new MarketWatch({
    ...options,
    reader: new MarketReader(options.client, options.registry),
    onProposal: (proposal, unbondingPeriod) =>
      log.warn(
        "a market is proposed: once it is allowed, it has power over the slots and the stake of every active provider",
        proposalFields(proposal, unbondingPeriod),
      ),
    onMarket: (market) =>
      log.warn("the registry has a market that this node did not know: it has power over slots and stake", {
        market,
        cure: `judge the contract at this address. To leave, ${leave}`,
      }),
    onError: (error) => log.fault("markets", error),
  });
}

/** Tells the operator that another market frees slots of the provider's jobs. */
export function reportMissingSlots(log: NodeLog, metrics: ProviderMetrics, missing: MissingSlots): void {
  metrics.missingSlots(missing.count);
  log.error("another market has freed slots of this provider's jobs: it can burn the stake as well", {
    ...missing,
    cure: seeMarkets,
  });
}

/** Tells the operator that the registry counts fewer slots than the provider has open jobs. */
export function reportFewerSlots(log: NodeLog, missing: number): void {
  log.error("the registry counts fewer slots than this provider has open jobs: another market may have freed them", {
    missing,
    cure: seeMarkets,
  });
}
