import type { Address } from "viem";
import { HashRing } from "../ring/hash-ring.ts";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { Standing } from "../reputation.ts";
import { type Member, memberShape, standings } from "./member.ts";
import { SlotMap } from "./slot-map.ts";
import { SortedTree } from "./sorted-tree.ts";

export type MemberTree = SortedTree<Member>;

/** Where a provider stands in a pool. `full` is by the chain's count alone. */
export type Place = Standing | "full" | "stale" | "inactive";
const places: readonly Place[] = [...standings, "full", "stale", "inactive"];

/** One provider's change in a pool: where it was and where it is now. */
export interface Move {
  readonly before: Placed | undefined;
  readonly after: Placed | undefined;
}

export interface Placed {
  readonly member: Member;
  readonly place: Place;
}

/**
 * All providers of one model (or of any model: the wildcard pool) as of one snapshot, sorted so that a decision looks at few of them:
 * by standing, capacity and liveness, in each by price; and the ring of the live ones. Immutable, sharing structure with older versions.
 */
export class Pool {
  readonly #trees: Readonly<Record<Place, MemberTree>>;
  /** All members by their slots. */
  readonly #bySlot: SlotMap<Placed>;
  readonly #slots: MemberSlots | undefined;
  /** Live providers, full or not; undefined when there are none. */
  readonly ring: HashRing | undefined;

  private constructor(
    trees: Readonly<Record<Place, MemberTree>>,
    bySlot: SlotMap<Placed>,
    slots: MemberSlots | undefined,
    ring: HashRing | undefined,
  ) {
    this.#trees = trees;
    this.#bySlot = bySlot;
    this.#slots = slots;
    this.ring = ring;
  }

  static readonly empty = new Pool(
    Object.fromEntries(places.map((place) => [place, SortedTree.empty(memberShape)])) as Record<Place, MemberTree>,
    SlotMap.empty(),
    undefined,
    undefined,
  );

  /** Members at a place. */
  at(place: Place): MemberTree {
    return this.#trees[place];
  }

  /** The member of a slot, and where it stands. */
  placed(slot: number): Placed | undefined {
    return this.#bySlot.get(slot);
  }

  /** All slots are below this. */
  get slotCount(): number {
    return this.#slots?.count ?? 0;
  }

  /** All members. */
  get size(): number {
    return places.reduce((sum, place) => sum + this.#trees[place].size, 0);
  }

  /** Live members with a free slot by the chain's count. */
  get freeSize(): number {
    return standings.reduce((sum, standing) => sum + this.#trees[standing].size, 0);
  }

  /** The pool after some moves; each provider at most once. Cost: O(log n) a move, and the ring's when a live member comes or goes. */
  apply(moves: readonly Move[], slots: MemberSlots): Pool {
    if (moves.length === 0) return this;
    const trees = { ...this.#trees };
    for (const place of places) {
      const leaving = moves.filter(({ before }) => before?.place === place);
      const coming = moves.filter(({ after }) => after?.place === place);
      if (leaving.length === 0 && coming.length === 0) continue;
      trees[place] = trees[place].edit((edit) => {
        for (const { before } of leaving) if (before !== undefined) edit.delete(before.member);
        for (const { after } of coming) if (after !== undefined) edit.put(after.member);
      });
    }
    const add: Address[] = [];
    const remove: Address[] = [];
    for (const { before, after } of moves) {
      if (!isLive(before) && after !== undefined && isLive(after)) add.push(after.member.provider);
      if (before !== undefined && isLive(before) && !isLive(after)) remove.push(before.member.provider);
    }
    const bySlot = this.#bySlot.with(
      moves.flatMap(({ before, after }) => {
        const provider = (after ?? before)?.member.provider;
        return provider === undefined ? [] : [[slots.slotOf(provider), after] as const];
      }),
    );
    return new Pool(trees, bySlot, slots, HashRing.change(this.ring, slots, { add, remove }));
  }
}

function isLive(placed: Placed | undefined): boolean {
  return placed !== undefined && placed.place !== "stale" && placed.place !== "inactive";
}
