import type { ClientWeights } from "../../chain/registry-index/client-weights.ts";
import { decayOver } from "../../chain/registry-index/reputation.ts";
import type { OfferingRecord, ReputationRecord } from "../../chain/registry-index/types.ts";

/** Evidence, in reference jobs, from which a record says something; also the most that the word of strangers counts for. */
export const seasonedJobs = 20;
/** Least share of successes of a seasoned provider. */
export const seasonedRatio = 0.95;
/** Input tokens, and as many output tokens, of a reference job. Its worth at an offering's prices is the unit of evidence. */
export const referenceTokens = 1000;
/** One client counts for at most this part of all that strangers say. */
const clientsPerTotal = 10;

/** Rounding of decayed sums may not cost a provider its standing. */
const tolerance = 1e-9;

/** What the record of a provider's offering amounts to, in reference jobs. */
export interface Reputation {
  readonly served: number;
  readonly faults: number;
  /** The parts that this gateway's own wallet saw, as the chain tells. */
  readonly ownServed: number;
  readonly ownFaults: number;
}

/** Nothing is known. */
export const noReputation: Reputation = Object.freeze({ served: 0, faults: 0, ownServed: 0, ownFaults: 0 });

/** Whether a provider is known to be good, is not known yet, or is known to be bad. */
export type Standing = "seasoned" | "newcomer" | "poor";

/**
 * Weighs a record by the prices of the offering as they are now: who raises its price must earn its name anew at that price.
 * The formula and what it bounds are in docs/routing/reputation.md.
 *
 * @param now Chain time, Unix seconds.
 */
export function reputationOf(
  record: ReputationRecord | undefined,
  { inputPrice, outputPrice }: Pick<OfferingRecord, "inputPrice" | "outputPrice">,
  now: number,
): Reputation {
  if (record === undefined) return noReputation;
  const share = decayOver(now - record.time, record.halfLifeSeconds);
  const unit = ((Number(inputPrice) + Number(outputPrice)) * referenceTokens) / 1e6;
  const paid = (creditedPayments(record.paid) * share) / unit;
  const failed = record.failed.total === 0 ? 0 : creditedFaults(record.failed, share / unit, paid + seasonedJobs);
  const strangers = paid + failed;
  const heard = strangers > seasonedJobs ? seasonedJobs / strangers : 1;
  const [ownServed, ownFaults] = [record.ownServed * share, record.ownFaults * share];
  return { served: ownServed + paid * heard, faults: ownFaults + failed * heard, ownServed, ownFaults };
}

/**
 * Good or bad by what is known now.
 *
 * @param seenFaults Faults that this gateway saw itself, decayed; those that it also proved on the chain among them.
 */
export function standingOf({ served, faults, ownFaults }: Reputation, seenFaults = 0): Standing {
  const bad = faults + Math.max(0, seenFaults - ownFaults);
  if (isTooMuch(bad, served)) return "poor";
  return served + bad >= seasonedJobs - tolerance ? "seasoned" : "newcomer";
}

/** Whether this gateway's own outcomes alone make the provider poor, whatever strangers say. */
export function isBlamed({ ownServed, ownFaults }: Reputation, seenFaults = 0): boolean {
  return isTooMuch(Math.max(ownFaults, seenFaults), ownServed);
}

/** More than a twentieth of all jobs, where a record of few jobs is given a twentieth of twenty. */
function isTooMuch(faults: number, served: number): boolean {
  return faults > (1 - seasonedRatio) * Math.max(served + faults, seasonedJobs) + tolerance;
}

/**
 * What remains of payments when no client may count for more than a tenth of what counts: the greatest V with
 * `V = sum of min(weight, V / 10)`, which is `min over j < 10 of (total - the j heaviest) * 10 / (10 - j)`. With fewer than ten clients it
 * is 0; `k` clients that belong together can bring it to at most `10 / (10 - k)` times what all others paid.
 */
export function creditedPayments({ total, unlisted, weights }: ClientWeights): number {
  let credited = total;
  let left = total;
  for (let heaviest = 1; heaviest < clientsPerTotal; heaviest += 1) {
    // Who is listed may have paid more than is known: the cautious side is to take it that it did.
    left -= (weights[heaviest - 1] ?? 0) + unlisted;
    credited = Math.min(credited, (left * clientsPerTotal) / (clientsPerTotal - heaviest));
  }
  // What rounding leaves of a difference of equals is nothing.
  return credited > total * tolerance ? credited : 0;
}

/**
 * What counts of faults when no client may count for more than a tenth of everything: of a base that is there anyhow and all faults.
 *
 * @param factor From the weights' unit to that of the base.
 */
function creditedFaults({ total, weights }: ClientWeights, factor: number, base: number): number {
  const faults = total * factor;
  let credited = faults;
  let left = base + faults;
  for (let heaviest = 1; heaviest < clientsPerTotal; heaviest += 1) {
    left -= (weights[heaviest - 1] ?? 0) * factor;
    credited = Math.min(credited, (left * clientsPerTotal) / (clientsPerTotal - heaviest) - base);
  }
  return Math.max(0, credited);
}
