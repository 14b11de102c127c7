import type { Address } from "viem";
import type { OfferingRecord, ProviderRecord } from "../../../chain/registry-index/types.ts";
import { reputationOf, type Standing, standingOf } from "../reputation.ts";
import { atLeastDouble, atMostDouble } from "../stake.ts";
import type { Candidate } from "../types.ts";
import type { TreeShape } from "./tree-node.ts";

/** Best first. */
export const standings: readonly Standing[] = ["seasoned", "newcomer", "poor"];

/** Where a provider stands in a pool: apart from the free ones, or among those of its standing. `full` is by the chain's count alone. */
export type Place = Standing | "full" | "stale" | "inactive";

/** Whether the members of a place are free. */
export function isFreePlace(place: Place): place is Standing {
  return place === "seasoned" || place === "newcomer" || place === "poor";
}

/** A provider in the pool of one model, or of all models together. */
export interface Member {
  /** Among the free by the best of its offerings. */
  readonly place: Place;
  /** The offering when there is but one. */
  readonly only: Candidate | undefined;
  readonly provider: Address;
  /** Its offerings in this pool: one in the pool of a model, several in the wildcard pool. The cheapest input first. */
  readonly candidates: readonly Candidate[];
  /** Input price, output price and context of each offering as doubles, one behind the other; absent when there is but one. */
  readonly terms: readonly number[] | undefined;
  /** Least prices and greatest context among the offerings, as doubles: what the best of them can be at most. */
  readonly leastInput: number;
  readonly leastOutput: number;
  readonly mostContext: number;
  /** Its stake in wei, rounded down and up. */
  readonly leastStake: number;
  readonly mostStake: number;
}

/**
 * Numbers of a summary of members, by place. The least of each number is kept, so what is wanted at its greatest is stored negative. The
 * first three bound every offering of every member; the next three hold for one offering of each member. Stake is rounded away from
 * what lies between its bounds, so that no bound is on the wrong side of an exact amount.
 */
export const memberSummary = {
  leastInput: 0,
  leastOutput: 1,
  negativeMostContext: 2,
  negativeSureInput: 3,
  negativeSureOutput: 4,
  sureContext: 5,
  leastContext: 6,
  negativeMostStake: 7,
  leastStake: 8,
} as const;

/** Order by least input price, then output price, then address: a price limit is a prefix, one price is one range. */
export const memberShape: TreeShape<Member> = {
  compare: (a, b) => {
    if (a.leastInput !== b.leastInput) return a.leastInput < b.leastInput ? -1 : 1;
    if (a.leastOutput !== b.leastOutput) return a.leastOutput < b.leastOutput ? -1 : 1;
    if (a.provider === b.provider) return 0;
    return a.provider < b.provider ? -1 : 1;
  },
  summaryWidth: 9,
  summarise: (member) => {
    const sure = member.candidates[0];
    return [
      member.leastInput,
      member.leastOutput,
      -member.mostContext,
      -Number(sure?.inputPrice ?? 0n),
      -Number(sure?.outputPrice ?? 0n),
      sure?.contextLength ?? 0,
      member.candidates.reduce((least, { contextLength }) => Math.min(least, contextLength), member.mostContext),
      -member.mostStake,
      member.leastStake,
    ];
  },
};

/** A provider's offering as a candidate. */
export function candidateOf(provider: ProviderRecord, offering: OfferingRecord): Candidate {
  // Chain time as of the provider's last sign of life: the record alone tells it, and a live provider's is hardly older than now.
  const reputation = reputationOf(provider.reputation.get(offering.modelId), offering, provider.lastSeen);
  return {
    // What every decision reads of whom it meets comes first: it shares the first lines of memory.
    provider: provider.address,
    modelId: offering.modelId,
    contextLength: offering.contextLength,
    maxConcurrentJobs: provider.maxConcurrentJobs,
    openJobs: provider.openJobs,
    stake: provider.stake,
    inputPrice: offering.inputPrice,
    outputPrice: offering.outputPrice,
    generation: provider.generation,
    endpoint: provider.endpoint,
    offeringId: offering.offeringId,
    reputation,
  };
}

/**
 * The provider as a member of a model's pool, or with `modelId` undefined of the wildcard pool; undefined when it offers nothing there.
 *
 * @param heldBack Where it stands apart from the free ones; undefined: it is free.
 */
export function memberOf(
  provider: ProviderRecord,
  modelId: string | undefined,
  heldBack: Exclude<Place, Standing> | undefined,
): Member | undefined {
  const candidates: Candidate[] = [];
  if (modelId === undefined) {
    for (const offering of provider.offerings.values()) candidates.push(candidateOf(provider, offering));
    candidates.sort(byInputPrice);
  } else {
    const offering = provider.offerings.get(modelId);
    if (offering !== undefined) candidates.push(candidateOf(provider, offering));
  }
  const first = candidates[0];
  if (first === undefined) return undefined;
  let standing: Standing = "poor";
  let leastOutput = Number.POSITIVE_INFINITY;
  let mostContext = 0;
  for (const candidate of candidates) {
    leastOutput = Math.min(leastOutput, Number(candidate.outputPrice));
    mostContext = Math.max(mostContext, candidate.contextLength);
    standing = better(standing, standingOf(candidate.reputation));
  }
  return {
    place: heldBack ?? standing,
    only: candidates.length === 1 ? first : undefined,
    provider: provider.address,
    candidates,
    terms: candidates.length === 1 ? undefined : candidates.flatMap(termsOf),
    leastInput: Number(first.inputPrice),
    leastOutput,
    mostContext,
    leastStake: atLeastDouble(provider.stake),
    mostStake: atMostDouble(provider.stake),
  };
}

function termsOf({ inputPrice, outputPrice, contextLength }: Candidate): number[] {
  return [Number(inputPrice), Number(outputPrice), contextLength];
}

function better(a: Standing, b: Standing): Standing {
  return standings.indexOf(a) < standings.indexOf(b) ? a : b;
}

function byInputPrice(a: Candidate, b: Candidate): number {
  if (a.inputPrice !== b.inputPrice) return a.inputPrice < b.inputPrice ? -1 : 1;
  return a.modelId < b.modelId ? -1 : 1;
}
