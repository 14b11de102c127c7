import type { Address } from "viem";
import { type MemberSlots, slotBits } from "./member-slots.ts";
import { virtualNodes, virtualPositions } from "./virtual-nodes.ts";

/** A point is `position * 2^21 + slot`: exact in a double, sorted by position, ties in the order of slots. */
const slotSpan = 2 ** slotBits;
const chunkPoints = 512;
const smallChunk = chunkPoints >> 2;
const largeChunk = chunkPoints + (chunkPoints >> 1);

/** Changes of membership. Adding a member or removing a stranger does nothing. */
export interface RingChange {
  readonly add: Iterable<Address>;
  readonly remove: Iterable<Address>;
}

/**
 * An immutable consistent-hash ring: 150 virtual nodes a member in one sorted sequence, cut into chunks that versions share. A change
 * copies the chunks it touches and the list of chunks.
 */
export class HashRing {
  readonly #slots: MemberSlots;
  readonly #chunks: readonly Float64Array[];
  /** First point of each chunk. */
  readonly #firsts: Float64Array;
  /** Number of distinct members, at least 1. */
  readonly size: number;

  private constructor(slots: MemberSlots, chunks: readonly Float64Array[], size: number) {
    this.#slots = slots;
    this.#chunks = chunks;
    this.#firsts = Float64Array.from(chunks, (chunk) => chunk[0] as number);
    this.size = size;
  }

  /** The ring after a change; undefined when no member is left: no members, no ring. The same ring when nothing changed. */
  static change(previous: HashRing | undefined, slots: MemberSlots, change: RingChange): HashRing | undefined {
    const has = (address: Address): boolean => previous?.has(address) === true;
    const removed = [...new Set(change.remove)].filter(has);
    const leaving = new Set(removed);
    const added = [...new Set(change.add)].filter((address) => !has(address) || leaving.has(address));
    if (removed.length === 0 && added.length === 0) return previous;
    const size = (previous?.size ?? 0) - removed.length + added.length;
    if (size === 0) return undefined;
    const points = (members: readonly Address[]) => sortedPoints(members, slots);
    return new HashRing(
      slots,
      mergeChunks(previous === undefined ? [] : previous.#chunks, points(added), points(removed)),
      size,
    );
  }

  /** Whether an address is a member. */
  has(address: Address): boolean {
    const point = (virtualPositions(address)[0] as number) * slotSpan + this.#slots.slotOf(address);
    const chunk = this.#chunks[lastAtOrBefore(this.#firsts, point)];
    return chunk !== undefined && chunk[firstAtOrAfter(chunk, point)] === point;
  }

  /**
   * Distinct members clockwise from a position, each once; ends when every member was seen.
   * @param position Unsigned 32-bit number.
   */
  *walk(position: number): IterableIterator<Address> {
    for (const slot of this.walkSlots(position)) yield this.#slots.addressOf(slot);
  }

  /** `walk` as slot numbers of the shared table. */
  *walkSlots(position: number): IterableIterator<number> {
    const start = position * slotSpan;
    let chunkIndex = Math.max(0, lastAtOrBefore(this.#firsts, start));
    let chunk = this.#chunks[chunkIndex] as Float64Array;
    let index = firstAtOrAfter(chunk, start);
    const seen = new Set<number>();
    while (seen.size < this.size) {
      if (index >= chunk.length) {
        chunkIndex = (chunkIndex + 1) % this.#chunks.length;
        chunk = this.#chunks[chunkIndex] as Float64Array;
        index = 0;
      }
      const slot = (chunk[index] as number) % slotSpan;
      index += 1;
      if (seen.has(slot)) continue;
      seen.add(slot);
      yield slot;
    }
  }

  /** All members, in no order. */
  members(): Address[] {
    return [...this.walk(0)];
  }

  /** Share of the circle that each member owns; the shares sum to 1. */
  shares(): Map<Address, number> {
    const points = this.#chunks.flatMap((chunk) => [...chunk]);
    const shares = new Map<Address, number>();
    let before = Math.floor((points.at(-1) as number) / slotSpan) - 2 ** 32;
    for (const point of points) {
      const position = Math.floor(point / slotSpan);
      const address = this.#slots.addressOf(point % slotSpan);
      shares.set(address, (shares.get(address) ?? 0) + (position - before) / 2 ** 32);
      before = position;
    }
    return shares;
  }
}

function sortedPoints(members: readonly Address[], slots: MemberSlots): Float64Array {
  const points = new Float64Array(members.length * virtualNodes);
  members.forEach((member, order) => {
    const slot = slots.slotOf(member);
    virtualPositions(member).forEach((position, index) => {
      points[order * virtualNodes + index] = position * slotSpan + slot;
    });
  });
  return points.toSorted();
}

/** The chunks with points added and removed; untouched chunks are shared. */
function mergeChunks(chunks: readonly Float64Array[], added: Float64Array, removed: Float64Array): Float64Array[] {
  if (chunks.length === 0) return cut(added);
  const merged: Float64Array[] = [];
  let addedAt = 0;
  let removedAt = 0;
  chunks.forEach((chunk, index) => {
    const limit = chunks[index + 1]?.[0] ?? Number.POSITIVE_INFINITY;
    const addedFrom = addedAt;
    const removedFrom = removedAt;
    while (addedAt < added.length && (added[addedAt] as number) < limit) addedAt += 1;
    while (removedAt < removed.length && (removed[removedAt] as number) < limit) removedAt += 1;
    if (addedAt === addedFrom && removedAt === removedFrom) merged.push(chunk);
    else {
      const points = mergePoints(chunk, added.subarray(addedFrom, addedAt), removed.subarray(removedFrom, removedAt));
      append(merged, points);
    }
  });
  return merged;
}

/** Adds changed points to the list: cut when too many, joined to the chunk before when too few. */
function append(merged: Float64Array[], points: Float64Array): void {
  const last = merged.at(-1);
  if (points.length < smallChunk && last !== undefined && last.length + points.length <= largeChunk) {
    const joined = new Float64Array(last.length + points.length);
    joined.set(last);
    joined.set(points, last.length);
    merged[merged.length - 1] = joined;
  } else if (points.length > largeChunk) merged.push(...cut(points));
  else if (points.length > 0) merged.push(points);
}

function cut(points: Float64Array): Float64Array[] {
  const chunks: Float64Array[] = [];
  for (let from = 0; from < points.length; from += chunkPoints) chunks.push(points.slice(from, from + chunkPoints));
  return chunks;
}

function mergePoints(chunk: Float64Array, added: Float64Array, removed: Float64Array): Float64Array {
  const points = new Float64Array(chunk.length + added.length);
  let length = 0;
  let addedAt = 0;
  let removedAt = 0;
  for (let index = 0; index <= chunk.length; index += 1) {
    const point = chunk[index] ?? Number.POSITIVE_INFINITY;
    while (addedAt < added.length && (added[addedAt] as number) < point) {
      points[length] = added[addedAt] as number;
      length += 1;
      addedAt += 1;
    }
    if (index === chunk.length) break;
    if (removed[removedAt] === point) {
      removedAt += 1;
      continue;
    }
    points[length] = point;
    length += 1;
  }
  return points.slice(0, length);
}

/** Index of the last value <= target; -1 when all are greater. */
function lastAtOrBefore(values: Float64Array, target: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) <= target) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Index of the first value >= target; the length when all are smaller. */
function firstAtOrAfter(values: Float64Array, target: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < target) low = middle + 1;
    else high = middle;
  }
  return low;
}
