import type { Address } from "viem";
import type { OfferingRecord, ProviderRecord } from "../../../chain/registry-index/types.ts";
import { isNewcomer, isSeasoned } from "../reputation.ts";
import type { Candidate } from "../types.ts";
import type { TreeShape } from "./sorted-tree.ts";

/** Reputation of a member in its pool. */
export type Standing = "seasoned" | "newcomer" | "poor";
export const standings: readonly Standing[] = ["seasoned", "newcomer", "poor"];

/** A provider in the pool of one model, or of all models together. */
export interface Member {
  readonly provider: Address;
  /** Its offerings in this pool: one in the pool of a model, several in the wildcard pool. The cheapest input first. */
  readonly candidates: readonly Candidate[];
  /** The offering when there is but one. */
  readonly only: Candidate | undefined;
  readonly standing: Standing;
  /** Least prices and greatest context among the offerings, as doubles: what the best of them can be at most. */
  readonly leastInput: number;
  readonly leastOutput: number;
  readonly mostContext: number;
}

/** What a subtree of members can offer. The first three bound every offering; the last three hold for one offering of each member. */
export interface MemberSummary {
  readonly leastInput: number;
  readonly leastOutput: number;
  readonly mostContext: number;
  readonly sureInput: number;
  readonly sureOutput: number;
  readonly sureContext: number;
}

/** Order by least input price, then output price, then address: a price limit is a prefix, one price is one range. */
export const memberShape: TreeShape<Member, MemberSummary> = {
  compare: (a, b) => {
    if (a.leastInput !== b.leastInput) return a.leastInput < b.leastInput ? -1 : 1;
    if (a.leastOutput !== b.leastOutput) return a.leastOutput < b.leastOutput ? -1 : 1;
    if (a.provider === b.provider) return 0;
    return a.provider < b.provider ? -1 : 1;
  },
  summarise: (member) => {
    const sure = member.candidates[0];
    return {
      leastInput: member.leastInput,
      leastOutput: member.leastOutput,
      mostContext: member.mostContext,
      sureInput: Number(sure?.inputPrice ?? 0n),
      sureOutput: Number(sure?.outputPrice ?? 0n),
      sureContext: sure?.contextLength ?? 0,
    };
  },
  combine: (a, b) => ({
    leastInput: Math.min(a.leastInput, b.leastInput),
    leastOutput: Math.min(a.leastOutput, b.leastOutput),
    mostContext: Math.max(a.mostContext, b.mostContext),
    sureInput: Math.max(a.sureInput, b.sureInput),
    sureOutput: Math.max(a.sureOutput, b.sureOutput),
    sureContext: Math.min(a.sureContext, b.sureContext),
  }),
};

/** A provider's offering as a candidate. */
export function candidateOf(provider: ProviderRecord, offering: OfferingRecord): Candidate {
  const reputation = provider.reputation.get(offering.modelId);
  return {
    provider: provider.address,
    generation: provider.generation,
    endpoint: provider.endpoint,
    modelId: offering.modelId,
    offeringId: offering.offeringId,
    inputPrice: offering.inputPrice,
    outputPrice: offering.outputPrice,
    contextLength: offering.contextLength,
    maxConcurrentJobs: provider.maxConcurrentJobs,
    openJobs: provider.openJobs,
    completedJobs: reputation?.completed ?? 0,
    failedJobs: reputation?.failed ?? 0,
  };
}

/** The provider as a member of a model's pool, or with `modelId` undefined of the wildcard pool; undefined when it offers nothing there. */
export function memberOf(provider: ProviderRecord, modelId: string | undefined): Member | undefined {
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
  const outcomes = { completedJobs: 0, failedJobs: 0 };
  let leastOutput = Number.POSITIVE_INFINITY;
  let mostContext = 0;
  for (const candidate of candidates) {
    leastOutput = Math.min(leastOutput, Number(candidate.outputPrice));
    mostContext = Math.max(mostContext, candidate.contextLength);
    outcomes.completedJobs += candidate.completedJobs;
    outcomes.failedJobs += candidate.failedJobs;
  }
  return {
    provider: provider.address,
    candidates,
    only: candidates.length === 1 ? first : undefined,
    standing: isSeasoned(outcomes) ? "seasoned" : isNewcomer(outcomes) ? "newcomer" : "poor",
    leastInput: Number(first.inputPrice),
    leastOutput,
    mostContext,
  };
}

function byInputPrice(a: Candidate, b: Candidate): number {
  if (a.inputPrice !== b.inputPrice) return a.inputPrice < b.inputPrice ? -1 : 1;
  return a.modelId < b.modelId ? -1 : 1;
}
