import { KeyHasher } from "../hash/key-hasher.ts";
import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, LiveStatistics, Policy, PolicyInput, PolicyName, Ranking, RoutingRequest } from "../types.ts";
import { choiceReason, keyedCount } from "./ranked.ts";

/** Settings of the ring policies. */
export interface HashSettings {
  readonly seed: number;
  /** No member takes more than this times its fair share of the streams, plus the margin. */
  readonly load_factor: number;
  readonly load_margin: number;
}

/** A policy that walks the ring from the place of a request's key. */
export function hashPolicy(
  name: PolicyName,
  settings: HashSettings,
  keyOf: (request: RoutingRequest) => string | undefined,
): Policy {
  return {
    name,
    rank: (input) => {
      const { ring } = input.pool;
      const key = keyOf(input.request);
      if (ring === undefined) return { ranked: [], reason: "no_ring", wait: false, excluded: [] };
      // Without a key there is nothing to keep together: a random place spreads such requests over the ring.
      const hasher = new KeyHasher(settings.seed, key ?? `random ${input.random()}`);
      return walkRing(input, ring, hasher, settings, key === undefined);
    },
  };
}

/** Distinct members looked at before the few that match are searched for directly. */
const mostWalked = 256;
/** As many as a pool lists of a rare match: then who they are is no matter of chance, and a key stays where it is. */
const mostListed = 1024;

function walkRing(
  input: PolicyInput,
  ring: HashRing,
  hasher: KeyHasher,
  settings: HashSettings,
  keyless: boolean,
): Ranking {
  const { pool, statistics, request } = input;
  const bound = loadBound(ring, statistics, request.modelId, settings);
  const ranked: Candidate[] = [];
  /** Over the bound: better than nobody, in the order of the ring. */
  const over: Candidate[] = [];
  let walked = 0;
  let ownerIsOver = false;
  let ownerIsFree = false;
  const walk = ring.walk(hasher.position());
  for (let slot = walk.nextSlot(); slot !== undefined; slot = walk.nextSlot()) {
    walked += 1;
    const candidate = pool.find(slot);
    if (candidate !== undefined) {
      if (walked === 1) ownerIsFree = true;
      const isOver = loadOf(statistics, candidate, request.modelId) >= bound;
      if (isOver && ranked.length === 0) ownerIsOver = true;
      (isOver ? over : ranked).push(candidate);
      if (ranked.length >= keyedCount) break;
    }
    if (walked >= mostWalked) break;
  }
  const found = [...ranked, ...over].slice(0, keyedCount);
  if (found.length === 0 && walked < ring.size) {
    const few = byRendezvous(pool.sample(mostListed), hasher);
    return { ranked: few, reason: choiceReason(few, "few_match"), wait: false, excluded: [] };
  }
  const reason = ranked.length === 0 ? "all_over_bound" : reasonOf(ownerIsOver, ownerIsFree, keyless);
  return { ranked: found, reason: choiceReason(found, reason), wait: false, excluded: [] };
}

function reasonOf(ownerIsOver: boolean, ownerIsFree: boolean, keyless: boolean): string {
  if (keyless) return "no_key";
  if (ownerIsOver) return "bounded_load";
  return ownerIsFree ? "ring_owner" : "ring_successor";
}

/** Streams at which a member takes no more: `ceil(c (total + 1) / n) + margin`. */
function loadBound(
  ring: HashRing,
  statistics: LiveStatistics,
  modelId: string | undefined,
  settings: HashSettings,
): number {
  const total =
    statistics.totalInFlight?.(modelId) ?? ring.members().reduce((sum, member) => sum + statistics.inFlight(member), 0);
  return Math.ceil((settings.load_factor * (total + 1)) / ring.size) + settings.load_margin;
}

/** Streams of the ring's model at a member, of all models on the wildcard ring: what the bound's total counts. */
function loadOf(statistics: LiveStatistics, candidate: Candidate, modelId: string | undefined): number {
  if (modelId === undefined || statistics.modelInFlight === undefined) {
    return statistics.inFlight(candidate.provider, candidate.generation);
  }
  return statistics.modelInFlight(candidate.provider, modelId);
}

/** When few of many members match, the walk would be long: they are ordered by their own hash of the key, as stable as the ring. */
function byRendezvous(candidates: readonly Candidate[], hasher: KeyHasher): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, unit: hasher.unit(candidate.provider) }))
    .toSorted((a, b) => b.unit - a.unit)
    .slice(0, keyedCount)
    .map(({ candidate }) => candidate);
}
