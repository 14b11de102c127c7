import type { Published, RegistrySnapshot } from "../../chain/registry-index/types.ts";
import type { JobCollateral } from "../routing/stake.ts";
import type { RoutingState } from "../routing/state.ts";

/** What requests for one model differ by, of all its active offers in one snapshot. */
interface OfferFacts {
  /** Each once, ascending. */
  readonly contexts: Float64Array;
  /** Each once, in wei to the nearest double, ascending. */
  readonly stakes: Float64Array;
  readonly leastInput: number;
  readonly leastOutput: number;
  readonly mostInput: number;
  readonly mostOutput: number;
  readonly mostContext: number;
}

/** A request as far as it depends on the request which offers fit. */
export interface RequestSize {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly collateral: JobCollateral;
}

/** More than doubles of wei and of bounds on them can be off, relative to them. */
const slack = 2 ** -50;

/** By what stays the same while the offers do, though slots are taken and freed with every block. */
const factsOf = new WeakMap<object, OfferFacts>();

/**
 * Names the offers of a model that have context and stake enough for a request: equal names, the same offers. By the least context and
 * stake that are enough, not by their number: requests that came under other snapshots stand in the same line. Where it depends on the
 * price of each offer whose stake is enough, the request's own size stands in the name.
 */
export function offerClass(
  { snapshot, derived }: Published<RoutingState>,
  modelId: string | undefined,
  size: RequestSize,
): string {
  const { inputTokens, outputTokens, collateral } = size;
  const own = `${inputTokens}+${outputTokens}`;
  if (modelId === undefined) return own;
  const { contexts, stakes, ...bounds } = factsIn(snapshot, derived.pool(modelId)?.offers ?? snapshot, modelId);
  const needed = inputTokens + outputTokens;
  const context = contexts[countBelow(contexts, needed)] ?? "none";
  const surely = collateral.atLeast(bounds.leastInput, bounds.leastOutput, needed);
  const perhaps = collateral.atMost(bounds.mostInput, bounds.mostOutput, bounds.mostContext);
  const tooLittle = countBelow(stakes, surely * (1 - slack));
  const perhapsTooLittle = countBelow(stakes, perhaps * (1 + slack));
  return tooLittle === perhapsTooLittle ? `${context}/${stakes[tooLittle] ?? "none"}` : `${context}/${own}`;
}

/** @param offers The same as long as the offers of the model are. */
function factsIn(snapshot: RegistrySnapshot, offers: object, modelId: string): OfferFacts {
  let facts = factsOf.get(offers);
  if (facts === undefined) {
    facts = gather(snapshot, modelId);
    factsOf.set(offers, facts);
  }
  return facts;
}

function gather(snapshot: RegistrySnapshot, modelId: string): OfferFacts {
  const contexts = new Set<number>();
  const stakes = new Set<number>();
  let [leastInput, leastOutput, mostInput, mostOutput, mostContext] = [Infinity, Infinity, 0, 0, 0];
  for (const { provider, offering } of snapshot.offers(modelId)) {
    if (!provider.active) continue;
    const [input, output] = [Number(offering.inputPrice), Number(offering.outputPrice)];
    contexts.add(offering.contextLength);
    stakes.add(Number(provider.stake));
    leastInput = Math.min(leastInput, input);
    leastOutput = Math.min(leastOutput, output);
    mostInput = Math.max(mostInput, input);
    mostOutput = Math.max(mostOutput, output);
    mostContext = Math.max(mostContext, offering.contextLength);
  }
  if (contexts.size === 0) [leastInput, leastOutput] = [0, 0];
  const bounds = { leastInput, leastOutput, mostInput, mostOutput, mostContext };
  return {
    contexts: Float64Array.from(contexts).toSorted(),
    stakes: Float64Array.from(stakes).toSorted(),
    ...bounds,
  };
}

function countBelow(ascending: Float64Array, limit: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] as number) < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
