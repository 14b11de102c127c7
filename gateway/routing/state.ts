import type { Address } from "viem";
import type { Derive, ProviderRecord, RegistryDelta, RegistrySnapshot } from "../../chain/registry-index/types.ts";
import { freshFrom, memberIn } from "./pool/placement.ts";
import { type Move, Pool } from "./pool/pool.ts";
import { SortedTree } from "./pool/sorted-tree.ts";
import type { TreeShape } from "./pool/tree-node.ts";
import type { HashRing } from "./ring/hash-ring.ts";
import { MemberSlots } from "./ring/member-slots.ts";

/** What routing derives from one snapshot of the registry, published together with it. Immutable. */
export interface RoutingState {
  /** Version of the snapshot it was derived from. */
  readonly version: number;
  readonly snapshot: RegistrySnapshot;
  /** Providers of a model; of any model when undefined. Undefined when nobody offers it. */
  pool(modelId: string | undefined): Pool | undefined;
  /** The ring of a model's live providers; with undefined the wildcard ring. No members, no ring. */
  ring(modelId: string | undefined): HashRing | undefined;
}

/** Active providers in the order in which they grow stale. */
interface Seen {
  readonly lastSeen: number;
  readonly address: Address;
}

const seenShape: TreeShape<Seen> = {
  compare: (a, b) => {
    if (a.lastSeen !== b.lastSeen) return a.lastSeen - b.lastSeen;
    if (a.address === b.address) return 0;
    return a.address < b.address ? -1 : 1;
  },
  summaryWidth: 0,
  summarise: () => [],
};

interface ModelPool {
  readonly modelId: string;
  readonly pool: Pool;
}

/** Sorted, not a map, because a version shares all but the changed pools with the one before. */
type ModelPools = SortedTree<ModelPool>;

const modelShape: TreeShape<ModelPool> = {
  compare: (a, b) => (a.modelId === b.modelId ? 0 : a.modelId < b.modelId ? -1 : 1),
  summaryWidth: 0,
  summarise: () => [],
};

function poolOf(pools: ModelPools, modelId: string): Pool | undefined {
  return pools.get({ modelId, pool: Pool.empty })?.pool;
}

/** The parts of a routing state that the next derivation builds on. */
class DerivedState implements RoutingState {
  readonly snapshot: RegistrySnapshot;
  readonly pools: ModelPools;
  readonly wildcard: Pool;
  readonly seen: SortedTree<Seen>;
  readonly slots: MemberSlots;

  constructor(
    snapshot: RegistrySnapshot,
    pools: ModelPools,
    wildcard: Pool,
    seen: SortedTree<Seen>,
    slots: MemberSlots,
  ) {
    this.snapshot = snapshot;
    this.pools = pools;
    this.wildcard = wildcard;
    this.seen = seen;
    this.slots = slots;
  }

  get version(): number {
    return this.snapshot.version;
  }

  pool(modelId: string | undefined): Pool | undefined {
    if (modelId !== undefined) return poolOf(this.pools, modelId);
    return this.pools.size === 0 ? undefined : this.wildcard;
  }

  ring(modelId: string | undefined): HashRing | undefined {
    return this.pool(modelId)?.ring;
  }
}

/**
 * Derives the routing state of a snapshot; pass it to the registry index. Cost: proportional to what changed, and to the providers
 * that grew stale (or, on a reorganisation, fresh) because the block time moved.
 */
export const deriveRoutingState: Derive<RoutingState> = (snapshot, delta, previous) => {
  if (!(previous instanceof DerivedState) || previous.slots.full) return rebuild(snapshot);
  return advance(snapshot, delta, previous);
};

function rebuild(snapshot: RegistrySnapshot): DerivedState {
  const blank = new DerivedState(
    emptied(snapshot),
    SortedTree.empty(modelShape),
    Pool.empty,
    SortedTree.empty(seenShape),
    new MemberSlots(),
  );
  const everyone = new Set<Address>();
  for (const provider of snapshot.providers()) everyone.add(provider.address);
  return advance(snapshot, { providers: everyone, models: new Set() }, blank);
}

function advance(snapshot: RegistrySnapshot, delta: RegistryDelta, previous: DerivedState): DerivedState {
  const changed = new Set(delta.providers);
  for (const address of flipped(previous, freshFrom(snapshot))) changed.add(address);
  const moves = new Map<string, Move[]>();
  const wildcardMoves: Move[] = [];
  const seen = previous.seen.edit((edit) => {
    for (const address of changed) {
      const before = previous.snapshot.provider(address);
      const after = snapshot.provider(address);
      collectMoves(before, previous.snapshot, after, snapshot, moves, wildcardMoves);
      if (before?.active === true) edit.delete({ lastSeen: before.lastSeen, address });
      if (after?.active === true) edit.put({ lastSeen: after.lastSeen, address });
    }
  });
  const pools = previous.pools.edit((edit) => {
    for (const [modelId, ofModel] of moves) {
      const pool = (poolOf(previous.pools, modelId) ?? Pool.empty).apply(ofModel, previous.slots);
      if (pool.size === 0) edit.delete({ modelId, pool });
      else edit.put({ modelId, pool });
    }
  });
  return new DerivedState(snapshot, pools, wildcardOf(previous, pools, wildcardMoves), seen, previous.slots);
}

/**
 * With exactly one model the wildcard pool is that model's pool, the same object. The moves still apply when a second model comes:
 * until then every member of the one pool is what it would be in the wildcard pool.
 */
function wildcardOf(previous: DerivedState, pools: ModelPools, moves: readonly Move[]): Pool {
  if (pools.size === 0) return Pool.empty;
  if (pools.size === 1) return pools.at(0)?.pool ?? Pool.empty;
  return previous.wildcard.apply(moves, previous.slots);
}

function collectMoves(
  before: ProviderRecord | undefined,
  beforeSnapshot: RegistrySnapshot,
  after: ProviderRecord | undefined,
  afterSnapshot: RegistrySnapshot,
  moves: Map<string, Move[]>,
  wildcardMoves: Move[],
): void {
  const models = new Set([...(before?.offerings.keys() ?? []), ...(after?.offerings.keys() ?? [])]);
  if (models.size === 0) return;
  for (const modelId of models) {
    const move = { before: memberIn(beforeSnapshot, before, modelId), after: memberIn(afterSnapshot, after, modelId) };
    const list = moves.get(modelId);
    if (list === undefined) moves.set(modelId, [move]);
    else list.push(move);
  }
  wildcardMoves.push({
    before: memberIn(beforeSnapshot, before, undefined),
    after: memberIn(afterSnapshot, after, undefined),
  });
}

/** Providers that the movement of chain time alone made stale or fresh. */
function* flipped(previous: DerivedState, nowFreshFrom: number): IterableIterator<Address> {
  const wasFreshFrom = freshFrom(previous.snapshot);
  const from = Math.min(wasFreshFrom, nowFreshFrom);
  const until = Math.max(wasFreshFrom, nowFreshFrom);
  if (from === until) return;
  for (const { lastSeen, address } of previous.seen.from(previous.seen.rankOf((seen) => seen.lastSeen < from))) {
    if (lastSeen >= until) return;
    yield address;
  }
}

/** The snapshot's time without its providers: what a derivation from nothing starts from. */
function emptied(snapshot: RegistrySnapshot): RegistrySnapshot {
  return {
    version: snapshot.version,
    blockNumber: snapshot.blockNumber,
    blockHash: snapshot.blockHash,
    blockTimestamp: snapshot.blockTimestamp,
    timeToLive: snapshot.timeToLive,
    providerCount: 0,
    provider: () => undefined,
    providers: () => [],
    offers: () => [],
    models: () => [],
  };
}
