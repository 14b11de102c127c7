import type { Address } from "viem";
import { KeyHasher } from "../hash/key-hasher.ts";
import type { HashRing } from "../ring/hash-ring.ts";
import type { PolicyInput, WeightStatistic } from "../types.ts";
import { RankingCache } from "./ranking-cache.ts";
import { rendezvousScore } from "./rendezvous.ts";
import { type Cluster, sameWeights, type WeightTable, weightTable } from "./weight-table.ts";

/** Settings that the ranking depends on. */
export interface PulsarRankingSettings {
  readonly seed: number;
  readonly rendezvous_weight: WeightStatistic;
  /** Rankings kept, over all keys and models. */
  readonly ranking_cache_size: number;
}

/** Up to so many members every one is scored for a key that is not cached. */
export const scoredWhole = 1024;
/**
 * Above, the key's place on the ring names so many neighbours that are scored: who they are moves as little as the ring does, and the
 * owner's probability stays w / sum w up to the spread of the weights among them.
 */
const neighbours = 32;
/** Neighbours looked at for one window before it is taken as it is: most may not report the statistic. */
const mostLookedAt = 512;
/** Best clusters kept of a ranking; more are worked out when all of these are of no use. */
const kept = 64;

/** A cluster with its score for one key. */
export interface ScoredCluster {
  readonly cluster: Cluster;
  readonly score: number;
}

/** A ranking for one key: the best first, worked out as far as it is walked. */
export interface PulsarRanking {
  readonly clusters: Iterable<ScoredCluster>;
  /** Members that were not ranked because the selected statistic is unknown; of a large ring those met so far. */
  readonly unweighted: readonly Address[];
}

interface KnownTable {
  readonly ring: HashRing;
  readonly epoch: number | undefined;
  readonly table: WeightTable;
}

/**
 * Ranks clusters by weighted rendezvous. Its caches are invisible: a ranking is used only for the same members with the same bits of the
 * selected weight. A change of the other statistic leaves it.
 */
export class PulsarRanker {
  readonly #settings: PulsarRankingSettings;
  readonly #tables = new RankingCache<KnownTable>(256);
  readonly #rankings: RankingCache<{ readonly table: WeightTable; readonly best: readonly ScoredCluster[] }>;

  constructor(settings: PulsarRankingSettings) {
    this.#settings = settings;
    this.#rankings = new RankingCache(settings.ranking_cache_size);
  }

  /** The ranking of the request's key; a request without one gets a random key and leaves no trace in the cache. */
  rank(input: PolicyInput, ring: HashRing): PulsarRanking {
    const { affinityKey, modelId } = input.request;
    const model = modelId ?? "";
    const key = affinityKey ?? `random ${input.random()}`;
    if (ring.size > scoredWhole) return this.#rankNeighbours(input, ring, model, key);
    const table = this.#tableOf(input, ring, model);
    const cacheKey = `${model.length} ${model} ${key}`;
    const known = affinityKey === undefined ? undefined : this.#rankings.get(cacheKey);
    if (known?.table === table)
      return { clusters: this.#continued(known.best, table, model, key), unweighted: table.unweighted };
    const best = this.#scored(table.clusters, model, key).slice(0, kept);
    if (affinityKey !== undefined) this.#rankings.set(cacheKey, { table, best });
    return { clusters: this.#continued(best, table, model, key), unweighted: table.unweighted };
  }

  *#continued(
    best: readonly ScoredCluster[],
    table: WeightTable,
    model: string,
    key: string,
  ): IterableIterator<ScoredCluster> {
    yield* best;
    if (best.length < table.clusters.length) yield* this.#scored(table.clusters, model, key).slice(best.length);
  }

  /** The same table object as long as members and selected weights are the same, so that rankings compare by identity. */
  #tableOf(input: PolicyInput, ring: HashRing, model: string): WeightTable {
    const statistic = this.#settings.rendezvous_weight;
    const { modelId } = input.request;
    const epoch = modelId === undefined ? undefined : input.statistics.weightEpoch?.(modelId, statistic);
    const known = this.#tables.get(model);
    if (known !== undefined && known.ring === ring && epoch !== undefined && known.epoch === epoch) return known.table;
    const fresh = this.#tableFor(input, ring.members());
    const table = known !== undefined && sameWeights(known.table, fresh) ? known.table : fresh;
    this.#tables.set(model, { ring, epoch, table });
    return table;
  }

  #tableFor(input: PolicyInput, members: Iterable<Address>): WeightTable {
    const { modelId } = input.request;
    const modelsOf =
      modelId === undefined
        ? (provider: Address) => [...(input.published.snapshot.provider(provider)?.offerings.keys() ?? [])].toSorted()
        : () => [modelId];
    return weightTable(members, input.statistics, modelsOf, this.#settings.rendezvous_weight);
  }

  #scored(clusters: readonly Cluster[], model: string, key: string): ScoredCluster[] {
    const hasher = new KeyHasher(this.#settings.seed, model, key);
    const scored = clusters.map((cluster) => ({
      cluster,
      score: rendezvousScore(cluster.weight, hasher.unit(cluster.idBytes)),
    }));
    return scored.toSorted((a, b) => b.score - a.score || (a.cluster.id < b.cluster.id ? -1 : 1));
  }

  #rankNeighbours(input: PolicyInput, ring: HashRing, model: string, key: string): PulsarRanking {
    const unweighted: Address[] = [];
    const walk = ring.walk(new KeyHasher(this.#settings.seed, model, key).position());
    const windows = function* (this: PulsarRanker): IterableIterator<ScoredCluster> {
      for (;;) {
        const table = this.#window(input, walk);
        if (table === undefined) return;
        unweighted.push(...table.unweighted);
        yield* this.#scored(table.clusters, model, key);
      }
    };
    return { clusters: windows.call(this), unweighted };
  }

  /** The next neighbours that have the selected statistic; undefined at the end of the ring. */
  #window(input: PolicyInput, walk: Iterator<Address>): WeightTable | undefined {
    const members: Address[] = [];
    let weighted = 0;
    while (weighted < neighbours && members.length < mostLookedAt) {
      const next = walk.next();
      if (next.done === true) break;
      members.push(next.value);
      if (this.#tableFor(input, [next.value]).clusters.length > 0) weighted += 1;
    }
    return members.length === 0 ? undefined : this.#tableFor(input, members);
  }
}
