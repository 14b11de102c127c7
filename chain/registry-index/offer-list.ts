import type { Address } from "viem";
import type { Offer } from "./types.ts";

/** A provider's offer of one model after a block; undefined when it has none any more. */
export type OfferChange = readonly [provider: Address, offer: Offer | undefined];

/**
 * Offers of one model, ordered by provider address, after some changes (at most one a provider). A new array; the given one stays as
 * it is. Costs one copy, whatever the number of changes.
 */
export function changeOffers(offers: readonly Offer[], changes: readonly OfferChange[]): readonly Offer[] {
  const copy = offers.slice();
  const arrivals: Offer[] = [];
  let departures = false;
  for (const [provider, offer] of changes) {
    const at = positionOf(offers, provider);
    if (offers[at]?.provider.address !== provider) {
      if (offer !== undefined) arrivals.push(offer);
    } else if (offer === undefined) {
      departures = true;
    } else {
      copy[at] = offer;
    }
  }
  if (arrivals.length === 0 && !departures) return copy;
  const leaving = new Set(changes.flatMap(([provider, offer]) => (offer === undefined ? [provider] : [])));
  const kept = departures ? copy.filter((offer) => !leaving.has(offer.provider.address)) : copy;
  return merge(
    kept,
    arrivals.toSorted((a, b) => (a.provider.address < b.provider.address ? -1 : 1)),
  );
}

/** Index of the first offer whose provider is not before the address. */
function positionOf(offers: readonly Offer[], provider: Address): number {
  let low = 0;
  let high = offers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const address = offers[middle]?.provider.address;
    if (address !== undefined && address < provider) low = middle + 1;
    else high = middle;
  }
  return low;
}

function merge(offers: readonly Offer[], arrivals: readonly Offer[]): readonly Offer[] {
  if (arrivals.length === 0) return offers;
  const merged: Offer[] = [];
  let from = 0;
  for (const arrival of arrivals) {
    const until = positionOf(offers, arrival.provider.address);
    for (let at = from; at < until; at += 1) {
      const offer = offers[at];
      if (offer !== undefined) merged.push(offer);
    }
    merged.push(arrival);
    from = until;
  }
  for (let at = from; at < offers.length; at += 1) {
    const offer = offers[at];
    if (offer !== undefined) merged.push(offer);
  }
  return merged;
}
