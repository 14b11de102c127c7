import type { Address } from "viem";
import type { HashRing } from "../ring/hash-ring.ts";
import type { LiveStatistics, WeightStatistic } from "../types.ts";

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
  /** Members whose selected statistic is unknown: never ranked, never by the other statistic. */
  readonly unweighted: readonly Address[];
}

/** A member's own value of the selected statistic. */
export interface MemberWeight {
  readonly slot: number;
  readonly provider: Address;
  readonly weight: number;
  readonly clusterId: string;
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
    const reported = statistics.reported(provider, modelId);
    const weight = statistic === "max-input-tps" ? reported?.maxInputTps : reported?.lastMeanInputTps;
    if (weight === undefined || !Number.isFinite(weight) || weight <= 0) continue;
    return { slot, provider, weight, clusterId: reported?.clusterId ?? provider };
  }
  return undefined;
}

/** Gathers weighted members into clusters, in the order of their first members. */
export function clustersOf(members: readonly MemberWeight[], statistic: WeightStatistic): Cluster[] {
  if (members.every(({ provider, clusterId }) => clusterId === provider)) {
    return members.map(({ provider, weight, slot }) => ({ id: provider, weight, members: [slot] }));
  }
  const clusters = new Map<string, { readonly id: string; weight: number; readonly members: number[] }>();
  for (const { slot, weight, clusterId } of members) {
    const cluster = clusters.get(clusterId);
    if (cluster === undefined) clusters.set(clusterId, { id: clusterId, weight, members: [slot] });
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
  const unweighted: Address[] = [];
  for (const slot of ring.memberSlots()) {
    const provider = ring.addressOf(slot);
    const own = memberWeight(statistics, slot, provider, modelsOf(provider), statistic);
    if (own === undefined) unweighted.push(provider);
    else weighted.push(own);
  }
  // Sorted, so that the order in which members were found changes neither sums nor comparisons.
  weighted.sort((a, b) => (a.provider < b.provider ? -1 : 1));
  const clusters = clustersOf(weighted, statistic).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return { clusters, unweighted };
}

/** Whether two tables rank every key alike: the same members in the same clusters with the same bits of weight. */
export function sameWeights(a: WeightTable, b: WeightTable): boolean {
  if (a.clusters.length !== b.clusters.length) return false;
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
