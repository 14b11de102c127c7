/**
 * An immutable sorted list of numbers that shares structure between versions: chunks of numbers in blocks of chunks. Plain arrays, because
 * a small typed array lives outside the heap and costs several times as much to make.
 */
interface Block {
  readonly chunks: number[][];
  /** First number of each chunk. */
  readonly firsts: number[];
}

const chunkLength = 96;
const blockLength = 64;
/** Above this share of numbers that come or go the list is built anew instead of changed number by number. */
const rebuildShare = 1 / 8;

/** A sorted list of distinct numbers. */
export class PointList {
  readonly #blocks: readonly Block[];
  readonly #firsts: readonly number[];
  readonly length: number;

  private constructor(blocks: readonly Block[], length: number) {
    this.#blocks = blocks;
    this.#firsts = blocks.map((block) => block.firsts[0] as number);
    this.length = length;
  }

  static readonly empty = new PointList([], 0);

  /** The list with numbers added that were not in it, and numbers removed that were. Both may be in any order. */
  change(added: readonly number[], removed: readonly number[]): PointList {
    if (added.length + removed.length > this.length * rebuildShare) return this.#rebuilt(added, removed);
    const edit = new Edit(this.#blocks, this.#firsts);
    for (const point of removed) edit.remove(point);
    for (const point of added) edit.add(point);
    return new PointList(edit.blocks, this.length + added.length - removed.length);
  }

  /** Whether a number is in the list. */
  has(point: number): boolean {
    const cursor = this.cursor(point);
    return cursor.next() === point;
  }

  /** A cursor at the first number that is not below `from`, or at the start when all are below. */
  cursor(from: number): PointCursor {
    const block = Math.max(0, lastAtOrBefore(this.#firsts, from));
    const firsts = this.#blocks[block]?.firsts ?? [];
    const chunk = Math.max(0, lastAtOrBefore(firsts, from));
    return new PointCursor(this.#blocks, block, chunk, firstAtOrAfter(this.#blocks[block]?.chunks[chunk] ?? [], from));
  }

  /** All numbers in order. */
  all(): number[] {
    const points: number[] = [];
    for (const { chunks } of this.#blocks) for (const chunk of chunks) for (const point of chunk) points.push(point);
    return points;
  }

  #rebuilt(added: readonly number[], removed: readonly number[]): PointList {
    const gone = Float64Array.from(removed).toSorted();
    const come = Float64Array.from(added).toSorted();
    const points = new Float64Array(this.length - removed.length + added.length);
    let at = 0;
    let nextGone = 0;
    let nextCome = 0;
    for (const point of this.all()) {
      if (point === gone[nextGone]) {
        nextGone += 1;
        continue;
      }
      for (; nextCome < come.length && (come[nextCome] as number) < point; nextCome += 1) {
        points[at] = come[nextCome] as number;
        at += 1;
      }
      points[at] = point;
      at += 1;
    }
    points.set(come.subarray(nextCome), at);
    const blocks: Block[] = [];
    for (let from = 0; from < points.length; ) {
      const chunks: number[][] = [];
      // Three quarters full, so that the next additions find room.
      while (chunks.length < (blockLength * 3) / 4 && from < points.length) {
        const to = Math.min(points.length, from + (chunkLength * 3) / 4);
        chunks.push(Array.from(points.subarray(from, to)));
        from = to;
      }
      blocks.push({ chunks, firsts: chunks.map((chunk) => chunk[0] as number) });
    }
    return new PointList(blocks, points.length);
  }
}

/** Steps through a list of points, around its end to its start, for ever. */
export class PointCursor {
  readonly #blocks: readonly Block[];
  #block: number;
  #chunk: number;
  #points: readonly number[];
  #index: number;

  constructor(blocks: readonly Block[], block: number, chunk: number, index: number) {
    this.#blocks = blocks;
    this.#block = block;
    this.#chunk = chunk;
    this.#points = blocks[block]?.chunks[chunk] ?? [];
    this.#index = index;
  }

  /** The next number; undefined only when the list is empty. */
  next(): number | undefined {
    if (this.#index >= this.#points.length && !this.#advance()) return undefined;
    const point = this.#points[this.#index];
    this.#index += 1;
    return point;
  }

  #advance(): boolean {
    if (this.#blocks.length === 0) return false;
    this.#chunk += 1;
    if (this.#chunk >= (this.#blocks[this.#block] as Block).chunks.length) {
      this.#block = (this.#block + 1) % this.#blocks.length;
      this.#chunk = 0;
    }
    this.#points = (this.#blocks[this.#block] as Block).chunks[this.#chunk] as number[];
    this.#index = 0;
    return true;
  }
}

/** Changes to one version; every touched block and chunk is copied once. */
class Edit {
  readonly blocks: Block[];
  readonly #firsts: number[];
  readonly #owned = new Set<Block | number[]>();

  constructor(blocks: readonly Block[], firsts: readonly number[]) {
    this.blocks = blocks.slice();
    this.#firsts = firsts.slice();
  }

  add(point: number): void {
    const [blockAt, block, chunkAt, chunk] = this.#open(point);
    chunk.splice(firstAtOrAfter(chunk, point), 0, point);
    if (chunk.length > chunkLength) {
      const half = chunk.splice(chunk.length >> 1);
      this.#owned.add(half);
      block.chunks.splice(chunkAt + 1, 0, half);
      block.firsts.splice(chunkAt + 1, 0, half[0] as number);
    }
    block.firsts[chunkAt] = chunk[0] as number;
    if (block.chunks.length > blockLength) {
      const half = block.chunks.length >> 1;
      const right = { chunks: block.chunks.splice(half), firsts: block.firsts.splice(half) };
      this.#owned.add(right);
      this.blocks.splice(blockAt + 1, 0, right);
      this.#firsts.splice(blockAt + 1, 0, right.firsts[0] as number);
    }
    this.#firsts[blockAt] = block.firsts[0] as number;
  }

  remove(point: number): void {
    const [blockAt, block, chunkAt, chunk] = this.#open(point);
    chunk.splice(firstAtOrAfter(chunk, point), 1);
    if (chunk.length > 0) block.firsts[chunkAt] = chunk[0] as number;
    else {
      block.chunks.splice(chunkAt, 1);
      block.firsts.splice(chunkAt, 1);
    }
    if (block.chunks.length > 0) this.#firsts[blockAt] = block.firsts[0] as number;
    else {
      this.blocks.splice(blockAt, 1);
      this.#firsts.splice(blockAt, 1);
    }
  }

  /** Copies of the block and the chunk where a point belongs. */
  #open(point: number): readonly [number, Block, number, number[]] {
    const blockAt = Math.max(0, lastAtOrBefore(this.#firsts, point));
    let block = this.blocks[blockAt] as Block;
    if (!this.#owned.has(block)) {
      block = { chunks: block.chunks.slice(), firsts: block.firsts.slice() };
      this.#owned.add(block);
      this.blocks[blockAt] = block;
    }
    const chunkAt = Math.max(0, lastAtOrBefore(block.firsts, point));
    let chunk = block.chunks[chunkAt] as number[];
    if (!this.#owned.has(chunk)) {
      chunk = chunk.slice();
      this.#owned.add(chunk);
      block.chunks[chunkAt] = chunk;
    }
    return [blockAt, block, chunkAt, chunk];
  }
}

/** Index of the last value <= target; -1 when all are greater. */
function lastAtOrBefore(values: readonly number[], target: number): number {
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
function firstAtOrAfter(values: readonly number[], target: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < target) low = middle + 1;
    else high = middle;
  }
  return low;
}
