import type { Address } from "viem";
import type { Fields } from "../hash/field-table.ts";
import { KeyHasher } from "../hash/key-hasher.ts";
import type { HashRing, RingWalk } from "../ring/hash-ring.ts";
import type { Candidate, PolicyInput, SlotWeights, WeightStatistic } from "../types.ts";
import { type Best, bestOf, nothing } from "./best-list.ts";
import { RankingCache } from "./ranking-cache.ts";
import { rendezvousScore } from "./rendezvous.ts";
import {
  type Cluster,
  clustersOf,
  enoughWeighted,
  equalWeight,
  isTooFew,
  type MemberWeight,
  memberWeight,
  sameWeights,
  type WeightTable,
  weightTable,
} from "./weight-table.ts";

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
const neighbours = enoughWeighted;
/** Neighbours looked at for one window before it is taken as it is: most may not report the statistic. */
const mostLookedAt = 512;
/** Windows of a key before the free candidates are asked for instead: where few of many fit, the walk to one of them would be long. */
const mostWindows = 16;
/** Free candidates that are then looked at: as many as a pool lists of a rare match, so that who they are is no matter of chance. */
const mostSampled = 1024;
/** Best clusters kept of a ranking; more are worked out when all of these are of no use. */
const kept = 24;

/** A cluster with its score for one key. */
export interface RankedCluster {
  /** Slots of the ring. */
  readonly members: readonly number[];
  readonly score: number;
}

/** A ranking for one key, best first, worked out as far as it is asked for. */
export interface PulsarRanking {
  /** The cluster of a rank, 0 being the owner; undefined at the end. */
  at(rank: number): RankedCluster | undefined;
  /** Slots of members not ranked because the selected statistic is unknown; of a large ring those met so far. */
  readonly unweighted: readonly number[];
  /** Whether all weigh the same because too few have the selected statistic. */
  readonly isEqual: boolean;
  /**
   * The free candidates when the ranking was left before its end because most of many members are of no use; undefined when it has no
   * more members. Absent: it never is.
   */
  beyond?(): Beyond | undefined;
}

/** Free candidates that a ranking left before its end did not come to. */
export interface Beyond {
  /** By their score, each on its own. */
  readonly ranked: readonly { readonly candidate: Candidate; readonly score: number }[];
  /** Those whose selected statistic is unknown. */
  readonly unweighted: readonly Candidate[];
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
  readonly #rankings: RankingCache<{ readonly table: WeightTable; readonly best: Best<number> }>;
  readonly #neighbourRankings: RankingCache<{
    readonly ring: HashRing;
    readonly epoch: number;
    readonly best: Best<Members>;
    readonly unweighted: readonly number[];
    readonly isEqual: boolean;
  }>;

  constructor(settings: PulsarRankingSettings) {
    this.#settings = settings;
    this.#rankings = new RankingCache(settings.ranking_cache_size);
    this.#neighbourRankings = new RankingCache(settings.ranking_cache_size);
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
    const hasher = () => new KeyHasher(this.#settings.seed, model, key);
    const scores = () => scoresOf(table, ring, hasher());
    if (known?.table === table) return new WholeRanking(table, known.best, scores);
    const best = bestOf(scores(), kept, (place) => (table.clusters[place] as Cluster).id);
    if (affinityKey !== undefined) this.#rankings.set(cacheKey, { table, best });
    return new WholeRanking(table, best, scores);
  }

  /** A large ring: cached while neither ring nor any weight of the model has changed. */
  #rankNeighbours(input: PolicyInput, ring: HashRing, model: string, key: string): PulsarRanking {
    const { affinityKey, modelId } = input.request;
    const statistic = this.#settings.rendezvous_weight;
    const epoch = modelId === undefined ? undefined : input.statistics.weightEpoch?.(modelId, statistic);
    const cacheKey = `${model.length} ${model} ${key}`;
    const known = this.#neighbourRankings.get(cacheKey);
    if (known !== undefined && known.ring === ring && epoch !== undefined && known.epoch === epoch) {
      return new NeighbourRanking(input, ring, this.#settings, model, key, known);
    }
    const ranking = new NeighbourRanking(input, ring, this.#settings, model, key);
    if (affinityKey !== undefined && epoch !== undefined) {
      ranking.at(0);
      this.#neighbourRankings.set(cacheKey, {
        ring,
        epoch,
        best: ranking.known,
        unweighted: ranking.unweighted,
        isEqual: ranking.isEqual,
      });
    }
    return ranking;
  }

  /** The same table object as long as members and selected weights are the same, so that rankings compare by identity. */
  #tableOf(input: PolicyInput, ring: HashRing, model: string): WeightTable {
    const statistic = this.#settings.rendezvous_weight;
    const { modelId } = input.request;
    const epoch = modelId === undefined ? undefined : input.statistics.weightEpoch?.(modelId, statistic);
    const known = this.#tables.get(model);
    if (known !== undefined && known.ring === ring && epoch !== undefined && known.epoch === epoch) return known.table;
    const fresh = weightTable(ring, input.statistics, modelsOf(input), statistic);
    const table = known !== undefined && sameWeights(known.table, fresh) ? known.table : fresh;
    this.#tables.set(model, { ring, epoch, table });
    return table;
  }
}

/** Models of a provider whose statistic may weigh it: the request's, or any for a request without one. */
function modelsOf(input: PolicyInput): (provider: Address) => readonly string[] {
  const { modelId } = input.request;
  if (modelId !== undefined) {
    const one = [modelId];
    return () => one;
  }
  return (provider) => [...(input.published.snapshot.provider(provider)?.offerings.keys() ?? [])].toSorted();
}

/** Slots of a cluster; of a provider that is alone, as most are, its slot itself. */
type Members = number | readonly number[];

/** The scores of a table's clusters for a key. */
function scoresOf({ clusters, alone }: WeightTable, ring: HashRing, hasher: KeyHasher): number[] {
  const units = alone === undefined ? undefined : hasher.units(ring.slots.texts, alone);
  return clusters.map(({ id, weight }, index) => rendezvousScore(weight, units?.[index] ?? hasher.unit(id)));
}

/** All clusters in order, for the rare case that the best are of no use. */
function allOf(clusters: readonly Cluster[], scores: readonly number[]): Best<number> {
  const all = clusters
    .map(({ id }, place) => ({ id, place, score: scores[place] as number }))
    .toSorted((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  return { places: all.map(({ place }) => place), scores: all.map(({ score }) => score) };
}

/** All members of a ring of moderate size, of which a cached ranking may hold only the best. */
class WholeRanking implements PulsarRanking {
  readonly #table: WeightTable;
  readonly #scores: () => readonly number[];
  #known: Best<number>;

  constructor(table: WeightTable, known: Best<number>, scores: () => readonly number[]) {
    this.#table = table;
    this.#known = known;
    this.#scores = scores;
  }

  get unweighted(): readonly number[] {
    return this.#table.unweighted;
  }

  get isEqual(): boolean {
    return this.#table.isEqual;
  }

  at(rank: number): RankedCluster | undefined {
    const { clusters } = this.#table;
    const known = this.#known.scores.length;
    if (rank >= known && known < clusters.length) this.#known = allOf(clusters, this.#scores());
    const cluster = clusters[this.#known.places[rank] ?? clusters.length];
    return cluster && { members: cluster.members, score: this.#known.scores[rank] as number };
  }
}

/** Some neighbours of a key, in the order of the ring. */
interface Window {
  /** Those that are ranked. */
  readonly slots: readonly number[];
  readonly weights: readonly number[];
  /** The engines that they share, undefined for those that are alone; undefined when each is alone. */
  readonly clusterIds: readonly (string | undefined)[] | undefined;
  /** Those without the selected statistic. */
  readonly unweighted: readonly number[];
  /** Where the addresses of those that are ranked stand to be hashed. */
  readonly texts: Fields;
}

/** The neighbours of a key on a large ring, window by window. */
class NeighbourRanking implements PulsarRanking {
  readonly #input: PolicyInput;
  readonly #ring: HashRing;
  readonly #statistic: WeightStatistic;
  readonly #hasher: () => KeyHasher;
  #walk: RingWalk | undefined;
  #known: Best<Members>;
  #unweighted: readonly number[];
  /** Decided by the first window; undefined until then. */
  #isEqual: boolean | undefined;
  #ended = false;
  #windows = 0;
  #isCut = false;

  constructor(
    input: PolicyInput,
    ring: HashRing,
    settings: PulsarRankingSettings,
    model: string,
    key: string,
    known?: {
      readonly best: Best<Members>;
      readonly unweighted: readonly number[];
      readonly isEqual: boolean;
    },
  ) {
    this.#input = input;
    this.#ring = ring;
    this.#statistic = settings.rendezvous_weight;
    this.#hasher = () => new KeyHasher(settings.seed, model, key);
    this.#known = known?.best ?? nothing;
    this.#unweighted = known?.unweighted ?? [];
    this.#isEqual = known?.isEqual;
  }

  get known(): Best<Members> {
    return this.#known;
  }

  get unweighted(): readonly number[] {
    return this.#unweighted;
  }

  get isEqual(): boolean {
    return this.#isEqual === true;
  }

  at(rank: number): RankedCluster | undefined {
    while (rank >= this.#known.scores.length && !this.#ended && !this.#isCut) {
      this.#nextWindow();
      this.#windows += 1;
      this.#isCut = this.#windows >= mostWindows && !this.#ended;
    }
    const members = this.#known.places[rank];
    if (members === undefined) return undefined;
    return {
      members: typeof members === "number" ? [members] : members,
      score: this.#known.scores[rank] as number,
    };
  }

  beyond(): Beyond | undefined {
    if (!this.#isCut) return undefined;
    const hasher = this.#hasher();
    const ranked: { readonly candidate: Candidate; readonly score: number }[] = [];
    const unweighted: Candidate[] = [];
    for (const candidate of this.#input.pool.sample(mostSampled)) {
      const own = this.#isEqual === true ? equalWeight(0) : this.#reportOf(0, candidate.provider);
      if (own === undefined) unweighted.push(candidate);
      else
        ranked.push({
          candidate,
          score: rendezvousScore(own.weight, hasher.unit(own.clusterId ?? candidate.provider)),
        });
    }
    ranked.sort((a, b) => b.score - a.score || (a.candidate.provider < b.candidate.provider ? -1 : 1));
    return { ranked, unweighted };
  }

  #nextWindow(): void {
    const hasher = this.#hasher();
    const walk = this.#walk ?? this.#startWalk(hasher);
    let window: Window;
    if (this.#isEqual === true) window = this.#nextEquals(walk);
    else {
      window = this.#nextWeighted(walk);
      this.#isEqual ??= isTooFew(window.slots.length, window.slots.length + window.unweighted.length);
      if (this.#isEqual) {
        // The search for the statistic went far ahead of the members that are ranked without it.
        this.#ended = false;
        window = this.#nextEquals(this.#startWalk(hasher));
      }
    }
    if (window.unweighted.length > 0) this.#unweighted = [...this.#unweighted, ...window.unweighted];
    const best = this.#bestOf(window, hasher);
    this.#known =
      this.#known.scores.length === 0
        ? best
        : { places: [...this.#known.places, ...best.places], scores: [...this.#known.scores, ...best.scores] };
  }

  /** The clusters of a window by their scores. */
  #bestOf({ slots, weights, clusterIds, texts }: Window, hasher: KeyHasher): Best<Members> {
    const ring = this.#ring;
    if (clusterIds === undefined) {
      const units = hasher.units(texts, slots);
      const scores = weights.map((weight, index) => rendezvousScore(weight, units[index] as number));
      const best = bestOf(scores, neighbours, (place) => ring.addressOf(slots[place] as number));
      return { places: best.places.map((place) => slots[place] as number), scores: best.scores };
    }
    const weighted = slots.map((slot, index) => ({
      slot,
      weight: weights[index] as number,
      clusterId: clusterIds[index],
    }));
    const clusters = clustersOf(ring, weighted, this.#statistic);
    const scores = clusters.map(({ id, weight }) => rendezvousScore(weight, hasher.unit(id)));
    const best = bestOf(scores, neighbours, (place) => (clusters[place] as Cluster).id);
    return { places: best.places.map((place) => (clusters[place] as Cluster).members), scores: best.scores };
  }

  /** Members up to so many that have the statistic, and those passed on the way. */
  #nextWeighted(walk: RingWalk): Window {
    const slots: number[] = [];
    const weights: number[] = [];
    const unweighted: number[] = [];
    // Once for all: by the next reading a report may have grown stale, and its text be gone.
    const bySlot = this.#bySlot();
    for (let looked = 0; looked < mostLookedAt && slots.length < neighbours; ) {
      // As many as are surely looked at, and those all at once.
      const wanted = Math.min(neighbours - slots.length, mostLookedAt - looked);
      const next = walk.nextSlots(wanted);
      looked += next.length;
      const own = bySlot?.weightsOf(next) ?? next.map((slot) => this.#reportOf(slot)?.weight ?? 0);
      for (let index = 0; index < next.length; index += 1) {
        const slot = next[index] as number;
        const weight = own[index] as number;
        if (weight === 0) unweighted.push(slot);
        else {
          slots.push(slot);
          weights.push(weight);
        }
      }
      if (next.length < wanted) {
        this.#ended = true;
        break;
      }
    }
    return {
      slots,
      weights,
      clusterIds: bySlot === undefined ? this.#clustersOf(slots) : bySlot.clustersOf(slots),
      unweighted,
      texts: bySlot?.texts ?? this.#ring.slots.texts,
    };
  }

  #bySlot(): SlotWeights | undefined {
    const { statistics, request } = this.#input;
    if (request.modelId === undefined) return undefined;
    return statistics.slotWeights?.(request.modelId, this.#statistic, this.#ring.slots);
  }

  /** The engines that some members share; undefined when each is alone. */
  #clustersOf(slots: readonly number[]): (string | undefined)[] | undefined {
    const ids = slots.map((slot) => this.#reportOf(slot)?.clusterId);
    return ids.some((id) => id !== undefined) ? ids : undefined;
  }

  #reportOf(slot: number, provider = this.#ring.addressOf(slot)): MemberWeight | undefined {
    return memberWeight(this.#input.statistics, slot, provider, modelsOf(this.#input)(provider), this.#statistic);
  }

  /** The next members as they come, all of the same weight. */
  #nextEquals(walk: RingWalk): Window {
    const slots = walk.nextSlots(neighbours);
    if (slots.length < neighbours) this.#ended = true;
    const { texts } = this.#ring.slots;
    return { slots, weights: slots.map(() => 1), clusterIds: undefined, unweighted: [], texts };
  }

  /** A ranking from the cache holds only its best: what lies behind them is worked out from the start. */
  #startWalk(hasher: KeyHasher): RingWalk {
    this.#known = nothing;
    this.#unweighted = [];
    this.#walk = this.#ring.walk(hasher.position());
    return this.#walk;
  }
}
