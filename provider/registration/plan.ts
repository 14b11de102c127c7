import type { Address } from "viem";
import type { OfferingConfig } from "../settings/endpoints-source.ts";
import type { PublishedOffering, RegisteredProvider, RegistryRules } from "./registry-reader.ts";

/** What the node wants the chain to say. */
export interface WantedPublication {
  readonly operator: Address;
  readonly payout: Address;
  readonly endpoint: string;
  /** 0 = no cap. */
  readonly maxConcurrentJobs: number;
  readonly offerings: ReadonlyMap<string, OfferingConfig>;
  /** Stake to reach; never lowered. */
  readonly stake: bigint;
  readonly reactivate: boolean;
}

/** What the chain says. */
export interface FoundPublication {
  /** undefined: not registered. */
  readonly provider: RegisteredProvider | undefined;
  readonly offerings: ReadonlyMap<string, PublishedOffering>;
  readonly rules: RegistryRules;
  /** Of the owner. */
  readonly balance: bigint;
  readonly allowance: bigint;
}

/** One transaction of a publication. */
export type PublicationStep =
  | { readonly kind: "approve"; readonly amount: bigint }
  | {
      readonly kind: "register";
      readonly operator: Address;
      readonly payout: Address;
      readonly endpoint: string;
      readonly stake: bigint;
    }
  | { readonly kind: "addStake"; readonly amount: bigint }
  | { readonly kind: "reactivate" }
  | { readonly kind: "setMaxConcurrentJobs"; readonly maxConcurrentJobs: number }
  | { readonly kind: "setEndpoint"; readonly endpoint: string }
  | { readonly kind: "setOffering"; readonly offering: OfferingConfig }
  | { readonly kind: "removeOffering"; readonly model: string };

/** Steps to take, and what stands in the way of serving. */
export interface PublicationPlan {
  readonly steps: readonly PublicationStep[];
  /** What others must change on chain or in the wallet before the node has all that it wants. */
  readonly warnings: readonly string[];
  /** Why no job can be taken once the steps are done, for want of stake; undefined when one can. */
  readonly noStake: string | undefined;
  /** Why the provider cannot be published now; steps is empty then. */
  readonly obstacle: string | undefined;
}

/**
 * The fewest transactions from what the chain says to what the node wants; none when they agree. The cap comes before the offerings:
 * a new provider has no cap, and must not be found with one.
 *
 * @param isOwner Whether the node's key is the owner's: an operator can neither register nor stake nor come back.
 */
export function planPublication(found: FoundPublication, wanted: WantedPublication, isOwner: boolean): PublicationPlan {
  const { provider, rules } = found;
  const steps: PublicationStep[] = [];
  const warnings: string[] = [];
  let stakeAfter: bigint;
  if (provider === undefined) {
    if (!isOwner) return stopped("the owner is not registered; it must register with this node's key as operator");
    const stake = wanted.stake > rules.minStake ? wanted.stake : rules.minStake;
    if (found.balance < stake)
      return stopped(`the wallet holds ${found.balance} of the ${stake} ${units} of stake to register with`);
    if (found.allowance < stake) steps.push({ kind: "approve", amount: stake });
    const { operator, payout, endpoint } = wanted;
    steps.push({ kind: "register", operator, payout, endpoint, stake });
    stakeAfter = stake;
  } else {
    stakeAfter = provider.stake;
    // Who has deactivated the provider may be about to take its stake out: none is added until it comes back.
    if (provider.stake < wanted.stake && (provider.active || wanted.reactivate)) {
      const missing = wanted.stake - provider.stake;
      if (!isOwner) warnings.push("T4T_STAKE is above the stake on chain, which only the owner can raise");
      else if (found.balance < missing) {
        warnings.push(`the wallet holds ${found.balance} of the ${missing} ${units} missing to T4T_STAKE`);
      } else {
        if (found.allowance < missing) steps.push({ kind: "approve", amount: missing });
        steps.push({ kind: "addStake", amount: missing });
        stakeAfter = wanted.stake;
      }
    }
    if (!provider.active) {
      if (isOwner && wanted.reactivate) steps.push({ kind: "reactivate" });
      else warnings.push("the provider is deactivated on chain; set T4T_REACTIVATE=true to come back");
    }
  }
  const noStake = stakeAfter === 0n && rules.collateralBps > 0 ? stakeMissing(wanted.stake, isOwner) : undefined;
  if (noStake !== undefined) warnings.push(noStake);
  if ((provider?.maxConcurrentJobs ?? 0) !== wanted.maxConcurrentJobs) {
    steps.push({ kind: "setMaxConcurrentJobs", maxConcurrentJobs: wanted.maxConcurrentJobs });
  }
  if (provider !== undefined && provider.endpoint !== wanted.endpoint) {
    steps.push({ kind: "setEndpoint", endpoint: wanted.endpoint });
  }
  for (const model of found.offerings.keys()) {
    if (!wanted.offerings.has(model)) steps.push({ kind: "removeOffering", model });
  }
  for (const offering of wanted.offerings.values()) {
    if (!isPublished(offering, found.offerings.get(offering.model))) steps.push({ kind: "setOffering", offering });
  }
  return { steps, warnings, noStake, obstacle: undefined };
}

const units = "smallest units of the payment token";

function stakeMissing(wanted: bigint, isOwner: boolean): string {
  const cure =
    wanted === 0n
      ? "T4T_STAKE is set"
      : isOwner
        ? "the wallet holds what T4T_STAKE asks for"
        : "the owner has added some";
  return `the provider has no stake, but every job holds some: it gets no jobs until ${cure}`;
}

function stopped(obstacle: string): PublicationPlan {
  return { steps: [], warnings: [], noStake: undefined, obstacle };
}

function isPublished(wanted: OfferingConfig, published: PublishedOffering | undefined): boolean {
  return (
    published !== undefined &&
    published.prices.inputPrice === wanted.prices.inputPrice &&
    published.prices.outputPrice === wanted.prices.outputPrice &&
    published.contextLength === wanted.contextLength
  );
}
