import type { Address } from "viem";
import { SeenNumbers } from "../seen-numbers.ts";
import { type MemberSlots, slotBits } from "./member-slots.ts";
import { type PointCursor, PointList } from "./point-list.ts";
import { virtualPositions } from "./virtual-nodes.ts";

/** A point is `position * 2^21 + slot`: exact in a double, sorted by position, ties in the order of slots. */
const slotSpan = 2 ** slotBits;

/** Changes of membership. Adding a member or removing a stranger does nothing. */
export interface RingChange {
  readonly add: Iterable<Address>;
  readonly remove: Iterable<Address>;
}

/**
 * An immutable consistent-hash ring: 150 virtual nodes a member in one sorted sequence. A change costs the points that come and go;
 * versions share the rest.
 */
export class HashRing {
  /** Numbers of the members, in every version of the ring the same. */
  readonly slots: MemberSlots;
  readonly #points: PointList;
  /** Number of distinct members, at least 1. */
  readonly size: number;
  #memberSlots: readonly number[] | undefined;

  private constructor(slots: MemberSlots, points: PointList, size: number) {
    this.slots = slots;
    this.#points = points;
    this.size = size;
  }

  /** The ring after a change; undefined when no member is left: no members, no ring. The same ring when nothing changed. */
  static change(previous: HashRing | undefined, slots: MemberSlots, change: RingChange): HashRing | undefined {
    const before = previous === undefined ? PointList.empty : previous.#points;
    const removed = distinctPoints(change.remove, slots).filter((points) => before.has(points[0] as number));
    const leaving = new Set(removed.map((points) => points[0]));
    const added = distinctPoints(change.add, slots).filter(
      (points) => leaving.has(points[0]) || !before.has(points[0] as number),
    );
    if (removed.length === 0 && added.length === 0) return previous;
    const size = (previous?.size ?? 0) - removed.length + added.length;
    if (size === 0) return undefined;
    return new HashRing(slots, before.change(added.flat(), removed.flat()), size);
  }

  /** Whether an address is a member. */
  has(address: Address): boolean {
    return this.#points.has(pointsOf(address, this.slots)[0] as number);
  }

  /**
   * Distinct members clockwise from a position, each once; ends when every member was seen.
   * @param position Unsigned 32-bit number.
   */
  walk(position: number): RingWalk {
    return new RingWalk(this.slots, this.#points.cursor(position * slotSpan), this.size);
  }

  /** The member of a slot that a walk gave. */
  addressOf(slot: number): Address {
    return this.slots.addressOf(slot);
  }

  /** Slots of all members, in the order of their addresses. */
  memberSlots(): readonly number[] {
    // Asked for whenever a weight has changed, while the members stay.
    this.#memberSlots ??= this.walk(0)
      .nextSlots(this.size)
      .toSorted((a, b) => (this.addressOf(a) < this.addressOf(b) ? -1 : 1));
    return this.#memberSlots;
  }

  /** All members, in the order of their addresses. */
  members(): Address[] {
    return this.memberSlots().map((slot) => this.addressOf(slot));
  }

  /** Share of the circle that each member owns; the shares sum to 1. */
  shares(): Map<Address, number> {
    const points = this.#points.all();
    const shares = new Map<Address, number>();
    let before = Math.floor((points.at(-1) as number) / slotSpan) - 2 ** 32;
    for (const point of points) {
      const position = Math.floor(point / slotSpan);
      const address = this.slots.addressOf(slotOf(point));
      shares.set(address, (shares.get(address) ?? 0) + (position - before) / 2 ** 32);
      before = position;
    }
    return shares;
  }
}

/** A walk over the distinct members of a ring. Not a generator: a step is on the path of every decision. */
export class RingWalk {
  readonly #slots: MemberSlots;
  readonly #cursor: PointCursor;
  readonly #size: number;
  readonly #seen = new SeenNumbers();

  constructor(slots: MemberSlots, cursor: PointCursor, size: number) {
    this.#slots = slots;
    this.#cursor = cursor;
    this.#size = size;
  }

  /** The next member; undefined when all were seen. */
  next(): Address | undefined {
    const slot = this.nextSlot();
    return slot === undefined ? undefined : this.#slots.addressOf(slot);
  }

  /** The slots of the next members, as many as asked for while there are so many. */
  nextSlots(count: number): number[] {
    const slots: number[] = [];
    while (slots.length < count) {
      const slot = this.nextSlot();
      if (slot === undefined) break;
      slots.push(slot);
    }
    return slots;
  }

  /** The slot of the next member; undefined when all were seen. */
  nextSlot(): number | undefined {
    const seen = this.#seen;
    while (seen.size < this.#size) {
      const slot = slotOf(this.#cursor.next() as number);
      if (seen.add(slot)) return slot;
    }
    return undefined;
  }
}

/** The member of a point. By a division, because the remainder of doubles is a loop over their bits. */
function slotOf(point: number): number {
  return point - Math.floor(point / slotSpan) * slotSpan;
}

/** A member's points, ascending. */
function pointsOf(member: Address, slots: MemberSlots): number[] {
  const slot = slots.slotOf(member);
  const points: number[] = [];
  // Two virtual nodes of one member at one place are one point.
  for (const position of virtualPositions(member)) {
    const point = position * slotSpan + slot;
    if (points.at(-1) !== point) points.push(point);
  }
  return points;
}

function distinctPoints(members: Iterable<Address>, slots: MemberSlots): number[][] {
  return [...new Set(members)].map((member) => pointsOf(member, slots));
}
