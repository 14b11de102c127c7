import type { Address } from "viem";
import { utf8 } from "../hash/key-hasher.ts";
import type { LiveStatistics, WeightStatistic } from "../types.ts";

/** Providers that share one engine; most are alone. */
export interface Cluster {
  readonly id: string;
  readonly idBytes: Uint8Array;
  /** The cluster's maximum is the greatest member value, its mean the sum. */
  readonly weight: number;
  readonly members: readonly Address[];
}

/** The weighted clusters of some members, in the order of their ids. */
export interface WeightTable {
  readonly clusters: readonly Cluster[];
  /** Members whose selected statistic is unknown: never ranked, never by the other statistic. */
  readonly unweighted: readonly Address[];
}

/** The selected statistic of a provider for a model; undefined when it is no value. */
export function weightOf(
  statistics: LiveStatistics,
  provider: Address,
  modelId: string,
  statistic: WeightStatistic,
): { readonly weight: number; readonly clusterId: string } | undefined {
  const reported = statistics.reported(provider, modelId);
  const weight = statistic === "max-input-tps" ? reported?.maxInputTps : reported?.lastMeanInputTps;
  if (weight === undefined || !Number.isFinite(weight) || weight <= 0) return undefined;
  return { weight, clusterId: reported?.clusterId ?? provider };
}

/** Gathers members into clusters. @param modelsOf Models to look for a statistic of, the first that has one counts. */
export function weightTable(
  members: Iterable<Address>,
  statistics: LiveStatistics,
  modelsOf: (provider: Address) => readonly string[],
  statistic: WeightStatistic,
): WeightTable {
  const clusters = new Map<string, { weight: number; members: Address[] }>();
  const unweighted: Address[] = [];
  for (const provider of members) {
    const own = firstWeight(statistics, provider, modelsOf(provider), statistic);
    if (own === undefined) {
      unweighted.push(provider);
      continue;
    }
    const cluster = clusters.get(own.clusterId);
    if (cluster === undefined) clusters.set(own.clusterId, { weight: own.weight, members: [provider] });
    else {
      const joined = statistic === "max-input-tps" ? Math.max(cluster.weight, own.weight) : cluster.weight + own.weight;
      cluster.weight = joined;
      cluster.members.push(provider);
    }
  }
  const sorted = [...clusters].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    clusters: sorted.map(([id, { weight, members: inCluster }]) => ({
      id,
      idBytes: utf8(id),
      weight,
      members: inCluster.toSorted(),
    })),
    unweighted,
  };
}

function firstWeight(
  statistics: LiveStatistics,
  provider: Address,
  models: readonly string[],
  statistic: WeightStatistic,
): ReturnType<typeof weightOf> {
  for (const modelId of models) {
    const own = weightOf(statistics, provider, modelId, statistic);
    if (own !== undefined) return own;
  }
  return undefined;
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
