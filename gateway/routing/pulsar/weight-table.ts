import type { Address } from "viem";
import type { HashRing } from "../ring/hash-ring.ts";
import type { LiveStatistics, ReportedStatistics, WeightStatistic } from "../types.ts";

/** Providers that share one engine; most are alone. */
export interface Cluster {
  readonly id: string;
  /** The cluster's maximum is the greatest member value, its mean the sum. */
  readonly weight: number;
  /** Slots of the ring. */
  readonly members: readonly number[];
}

/** The weighted clusters of some members, in the order of their ids. */
export interface WeightTable {
  readonly clusters: readonly Cluster[];
  /** Slots of members whose selected statistic is unknown and that are therefore not ranked; never by the other statistic. */
  readonly unweighted: readonly number[];
  /** Too few have the statistic for it to say who is better: every member is ranked with the same weight. */
  readonly isEqual: boolean;
  /** The slot of each cluster when every one is a single provider under its own address. */
  readonly alone: readonly number[] | undefined;
}

/** So many members with the statistic are always enough to rank by it. */
export const enoughWeighted = 16;

/**
 * Whether too few members have the selected statistic to rank by it: fewer than half of those looked at, and fewer than
 * `enoughWeighted`. A statistic comes of work: were only the first that has it given work, the others would never have one, and while
 * nobody has it nobody would.
 */
export function isTooFew(weighted: number, looked: number): boolean {
  return weighted < enoughWeighted && weighted * 2 < looked;
}

/** A member's own value of the selected statistic. */
export interface MemberWeight {
  readonly slot: number;
  readonly weight: number;
  /** The engine that it shares; undefined: it is alone, a cluster under its own address. */
  readonly clusterId: string | undefined;
}

/** A member of a ranking in which all weigh the same. */
export function equalWeight(slot: number): MemberWeight {
  return { slot, weight: 1, clusterId: undefined };
}

/** The selected statistic of a provider for the first of some models that has one; undefined when it is no value. */
export function memberWeight(
  statistics: LiveStatistics,
  slot: number,
  provider: Address,
  models: readonly string[],
  statistic: WeightStatistic,
): MemberWeight | undefined {
  for (const modelId of models) {
    const weight = weightOf(statistics.reported(provider, modelId), slot, statistic);
    if (weight !== undefined) return weight;
  }
  return undefined;
}

/** The selected statistic of one report; undefined when it is no value. */
export function weightOf(
  reported: ReportedStatistics | undefined,
  slot: number,
  statistic: WeightStatistic,
): MemberWeight | undefined {
  if (reported === undefined) return undefined;
  const weight = statistic === "max-input-tps" ? reported.maxInputTps : reported.lastMeanInputTps;
  if (weight === undefined || !Number.isFinite(weight) || weight <= 0) return undefined;
  return { slot, weight, clusterId: reported.clusterId };
}

/** Whether every member is a cluster of its own, under its address. */
function areAlone(members: readonly MemberWeight[]): boolean {
  return members.every(({ clusterId }) => clusterId === undefined);
}

/** Gathers weighted members into clusters, in the order of their first members. */
export function clustersOf(ring: HashRing, members: readonly MemberWeight[], statistic: WeightStatistic): Cluster[] {
  if (areAlone(members)) {
    return members.map(({ slot, weight }) => ({ id: ring.addressOf(slot), weight, members: [slot] }));
  }
  const clusters = new Map<string, { readonly id: string; weight: number; readonly members: number[] }>();
  for (const { slot, weight, clusterId } of members) {
    const id = clusterId ?? ring.addressOf(slot);
    const cluster = clusters.get(id);
    if (cluster === undefined) clusters.set(id, { id, weight, members: [slot] });
    else {
      cluster.weight = statistic === "max-input-tps" ? Math.max(cluster.weight, weight) : cluster.weight + weight;
      cluster.members.push(slot);
    }
  }
  return [...clusters.values()];
}

/** Table of all members of a ring. @param modelsOf Models to look for a statistic of; the first that has one counts. */
export function weightTable(
  ring: HashRing,
  statistics: LiveStatistics,
  modelsOf: (provider: Address) => readonly string[],
  statistic: WeightStatistic,
): WeightTable {
  const weighted: MemberWeight[] = [];
  const unweighted: number[] = [];
  for (const slot of ring.memberSlots()) {
    const provider = ring.addressOf(slot);
    const own = memberWeight(statistics, slot, provider, modelsOf(provider), statistic);
    if (own === undefined) unweighted.push(slot);
    else weighted.push(own);
  }
  const isEqual = isTooFew(weighted.length, weighted.length + unweighted.length);
  // In the order of addresses, so that the order in which members were found changes neither sums nor comparisons.
  const ranked = isEqual ? ring.memberSlots().map(equalWeight) : weighted;
  const clusters = clustersOf(ring, ranked, statistic);
  const alone = areAlone(ranked) ? clusters.map(({ members }) => members[0] as number) : undefined;
  if (alone === undefined) clusters.sort((a, b) => (a.id < b.id ? -1 : 1));
  return {
    clusters,
    unweighted: isEqual ? [] : unweighted,
    isEqual,
    alone,
  };
}

/** Whether two tables rank every key alike: the same members in the same clusters with the same bits of weight. */
export function sameWeights(a: WeightTable, b: WeightTable): boolean {
  if (a.isEqual !== b.isEqual || a.clusters.length !== b.clusters.length) return false;
  return a.clusters.every((cluster, index) => {
    const other = b.clusters[index];
    return (
      other !== undefined &&
      cluster.id === other.id &&
      cluster.weight === other.weight &&
      cluster.members.length === other.members.length &&
      cluster.members.every((member, at) => member === other.members[at])
    );
  });
}
