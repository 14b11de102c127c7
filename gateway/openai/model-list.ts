import type { Address } from "viem";
import type { ProviderRecord, RegistrySnapshot } from "../../chain/registry-index/types.ts";
import { T4tError } from "../../protocol/errors.ts";
import { tokensPerPrice } from "../../protocol/money.ts";
import type { TokenUnit } from "../jobs/escrow-calls.ts";
import { noProviderOnlineError } from "../jobs/request-errors.ts";
import { publicMessage } from "../relay/public-message.ts";

/** One model as `GET /v1/models` shows it. */
export interface ModelEntry {
  readonly id: string;
  readonly object: "model";
  /** Unix seconds. */
  readonly created: number;
  readonly owned_by: string;
  /** Facts of the market; OpenAI clients pass over them. */
  readonly t4t: {
    readonly providers: number;
    /** Free slots now; null = a provider without a cap. */
    readonly freeSlots: number | null;
    readonly contextLength: number;
    /** Lowest prices, as `priceUnit` says. */
    readonly inputPrice: string;
    readonly outputPrice: string;
    readonly priceUnit: PriceUnit;
  };
}

/** What a price of 1 means: one smallest unit of the token for so many tokens of text. */
export interface PriceUnit {
  readonly perTokens: number;
  /** The payment token; its amounts in the API are in its smallest unit, of which 10^decimals are one. */
  readonly token: { readonly address: Address; readonly symbol: string | null; readonly decimals: number | null };
}

/** The unit of all prices that are paid in a token. */
export function priceUnitOf({ address, symbol, decimals }: TokenUnit): PriceUnit {
  const shown = symbol === undefined ? null : publicMessage(symbol.slice(0, 32), "");
  return {
    perTokens: Number(tokensPerPrice),
    token: { address, symbol: shown === "" ? null : shown, decimals: decimals ?? null },
  };
}

/** What is the same for all models of a market. */
export interface MarketFacts {
  /** Unix seconds. */
  readonly created: number;
  readonly unit: PriceUnit;
  /** Smallest units of stake without which a provider cannot be given even the smallest job. */
  readonly leastStake: bigint;
  /** Whether the gateway would not call a provider, whose endpoint it refuses. */
  readonly isRefused: (provider: Address) => boolean;
}

/** Models that somebody offers and is online for, sorted by id. */
export function listModels(snapshot: RegistrySnapshot, facts: MarketFacts): readonly ModelEntry[] {
  return snapshot.models().flatMap((id) => modelEntry(snapshot, id, facts) ?? []);
}

/** One model. Throws `no_provider_online` while nobody who offers it is, `model_not_found` when nobody does. */
export function findModel(snapshot: RegistrySnapshot, id: string, facts: MarketFacts): ModelEntry {
  const entry = modelEntry(snapshot, id, facts);
  if (entry === undefined) {
    if (snapshot.offers(id).some(({ provider }) => provider.active && !facts.isRefused(provider.address)))
      throw noProviderOnlineError(id);
    throw new T4tError("model_not_found", `The model '${publicMessage(id, "?").slice(0, 128)}' does not exist.`, {
      param: "model",
    });
  }
  return entry;
}

function modelEntry(snapshot: RegistrySnapshot, id: string, facts: MarketFacts): ModelEntry | undefined {
  const offers = snapshot
    .offers(id)
    .filter(({ provider }) => isOnline(snapshot, provider) && canServe(provider, facts));
  if (offers.length === 0) return undefined;
  const uncapped = offers.some(({ provider }) => provider.maxConcurrentJobs === 0);
  const free = offers.reduce(
    (sum, { provider }) => sum + Math.max(0, provider.maxConcurrentJobs - provider.openJobs),
    0,
  );
  return {
    id,
    object: "model",
    created: facts.created,
    owned_by: "t4t",
    t4t: {
      providers: offers.length,
      freeSlots: uncapped ? null : free,
      contextLength: Math.max(...offers.map(({ offering }) => offering.contextLength)),
      inputPrice: lowest(offers.map(({ offering }) => offering.inputPrice)),
      outputPrice: lowest(offers.map(({ offering }) => offering.outputPrice)),
      priceUnit: facts.unit,
    },
  };
}

/** What would be left out of every choice is not shown either. */
function canServe({ address, stake }: ProviderRecord, { leastStake, isRefused }: MarketFacts): boolean {
  return stake >= leastStake && !isRefused(address);
}

function isOnline(snapshot: RegistrySnapshot, provider: ProviderRecord): boolean {
  return provider.active && provider.lastSeen + snapshot.timeToLive >= snapshot.blockTimestamp;
}

function lowest(prices: readonly bigint[]): string {
  return String(prices.reduce((least, price) => (price < least ? price : least)));
}
