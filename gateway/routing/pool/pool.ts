import type { Address } from "viem";
import { HashRing } from "../ring/hash-ring.ts";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { Candidate } from "../types.ts";
import { type Member, memberShape, type Place, standings } from "./member.ts";
import { SlotMap } from "./slot-map.ts";
import { SortedTree } from "./sorted-tree.ts";

export type MemberTree = SortedTree<Member>;

const places: readonly Place[] = [...standings, "full", "stale", "inactive"];

/** One provider's change in a pool: where it was and where it is now. */
export interface Move {
  readonly before: Member | undefined;
  readonly after: Member | undefined;
}

/**
 * All providers of one model (or of any model: the wildcard pool) as of one snapshot, sorted so that a decision looks at few of them:
 * by standing, capacity and liveness, in each by price; and the ring of the live ones. Immutable, sharing structure with older versions.
 */
export class Pool {
  readonly #trees: Readonly<Record<Place, MemberTree>>;
  /** All members by their slots. */
  readonly #bySlot: SlotMap<Member>;
  /** The slots of all members are below this. Kept, because the table of slots grows while this version stays as it is. */
  readonly slotCount: number;
  /** Another object whenever an active member came or went, or has other prices, another context or another stake. */
  readonly offers: object;
  /** Live providers, full or not; undefined when there are none. */
  readonly ring: HashRing | undefined;
  /** All members. */
  readonly size: number;
  /** Live members with a free slot by the chain's count. */
  readonly freeSize: number;

  private constructor(
    trees: Readonly<Record<Place, MemberTree>>,
    bySlot: SlotMap<Member>,
    slotCount: number,
    offers: object,
    ring: HashRing | undefined,
  ) {
    this.#trees = trees;
    this.#bySlot = bySlot;
    this.slotCount = slotCount;
    this.offers = offers;
    this.ring = ring;
    const { seasoned, newcomer, poor, full, stale, inactive } = trees;
    this.freeSize = seasoned.size + newcomer.size + poor.size;
    this.size = this.freeSize + full.size + stale.size + inactive.size;
  }

  static readonly empty = new Pool(
    Object.fromEntries(places.map((place) => [place, SortedTree.empty(memberShape)])) as Record<Place, MemberTree>,
    SlotMap.empty(),
    0,
    {},
    undefined,
  );

  /** Members at a place. */
  at(place: Place): MemberTree {
    return this.#trees[place];
  }

  /** The member of a slot. */
  member(slot: number): Member | undefined {
    return this.#bySlot.get(slot);
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
        for (const { before } of leaving) if (before !== undefined) edit.delete(before);
        for (const { after } of coming) if (after !== undefined) edit.put(after);
      });
    }
    const add: Address[] = [];
    const remove: Address[] = [];
    for (const { before, after } of moves) {
      if (!isLive(before) && after !== undefined && isLive(after)) add.push(after.provider);
      if (before !== undefined && isLive(before) && !isLive(after)) remove.push(before.provider);
    }
    const bySlot = this.#bySlot.with(
      moves.flatMap(({ before, after }) => {
        const provider = (after ?? before)?.provider;
        return provider === undefined ? [] : [[slots.slotOf(provider), after] as const];
      }),
    );
    const ring = HashRing.change(this.ring, slots, { add, remove });
    const offers = moves.every(hasSameOffers) ? this.offers : {};
    return new Pool(trees, bySlot, slots.count, offers, ring);
  }
}

function isLive(member: Member | undefined): boolean {
  return member !== undefined && member.place !== "stale" && member.place !== "inactive";
}

function hasSameOffers({ before, after }: Move): boolean {
  const was = before?.place === "inactive" ? undefined : before;
  const is = after?.place === "inactive" ? undefined : after;
  if (was === undefined || is === undefined) return was === is;
  if (was.candidates.length !== is.candidates.length) return false;
  return was.candidates.every((candidate, at) => {
    const other = is.candidates[at] as Candidate;
    return (
      candidate.inputPrice === other.inputPrice &&
      candidate.outputPrice === other.outputPrice &&
      candidate.contextLength === other.contextLength &&
      candidate.stake === other.stake
    );
  });
}
