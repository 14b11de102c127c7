import type { Address } from "viem";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { SlotWeights, WeightStatistic } from "../types.ts";

/** The part of a report that ranks its provider. */
export interface WeighedReport {
  readonly maxInputTps: number | undefined;
  readonly lastMeanInputTps: number | undefined;
  readonly clusterId: string | undefined;
  /** Monotonic ms. */
  readonly receivedMs: number;
}

/** Numbers of an entry, side by side: half a line of memory. */
const width = 4;
const field = { max: 0, mean: 1, receivedMs: 2 } as const;
/** In place of a rate that is not known: rates are positive. */
const unknown = 0;
/** Of a slot without a report. */
const never = Number.NEGATIVE_INFINITY;
/** Slots of a block, as a power of 2. */
const blockBits = 6;
const blockSlots = 2 ** blockBits;
/** In place of a block that is not there. */
const none = -1;

/**
 * What the providers of one model report that ranks them, by their slots on a ring: a decision reads sixteen, and an address would be
 * found by reading its text first. The owner of the reports tells every change; slots that are given later are looked for when the
 * table is read. Only blocks of slots are kept in which somebody reports: slots are given in the order of joining and never again, so
 * that the blocks of those that left fall empty.
 */
export class SlotWeightTable {
  readonly slots: MemberSlots;
  readonly #reports: ReadonlyMap<Address, WeighedReport>;
  /** Of those few that share an engine. */
  readonly #clusters = new Map<number, string>();
  /** The block of some slots among the entries; `none`: nobody there reports. */
  #blocks = new Int32Array(16).fill(none);
  #entries = new Float64Array(0);
  /** How many report, by block. */
  readonly #reporting: number[] = [];
  /** Blocks that fell empty. */
  readonly #free: number[] = [];
  /** Slots below this are in the table if their providers report. */
  #lookedFor = 0;

  /** @param reports The reports of the model, which stay the owner's. */
  constructor(slots: MemberSlots, reports: ReadonlyMap<Address, WeighedReport>) {
    this.slots = slots;
    this.#reports = reports;
    this.#lookedFor = slots.count;
    for (const [provider, report] of reports) this.put(provider, report);
  }

  /** Takes a provider's new report; undefined: it has none any more. */
  put(provider: Address, report: WeighedReport | undefined): void {
    const slot = this.slots.find(provider);
    if (slot !== undefined) this.#put(slot, report);
  }

  /**
   * The weights as of a moment, to be read at once: they follow the table.
   * @param staleAfterMs Age in ms after which a report says nothing any more.
   */
  read(statistic: WeightStatistic, nowMs: number, staleAfterMs: number): SlotWeights {
    for (; this.#lookedFor < this.slots.count; this.#lookedFor += 1) {
      const report = this.#reports.get(this.slots.addressOf(this.#lookedFor));
      if (report !== undefined) this.#put(this.#lookedFor, report);
    }
    const rate = statistic === "max-input-tps" ? field.max : field.mean;
    const clusters = this.#clusters;
    return {
      weightsOf: (some) => this.#weightsOf(some, rate, nowMs - staleAfterMs),
      clustersOf: (some) => {
        if (clusters.size === 0) return undefined;
        const ids = some.map((slot) => clusters.get(slot));
        return ids.some((id) => id !== undefined) ? ids : undefined;
      },
    };
  }

  #weightsOf(slots: readonly number[], rate: number, oldestMs: number): number[] {
    const blocks = this.#blocks;
    const entries = this.#entries;
    const weights: number[] = [];
    for (const slot of slots) {
      const block = slot >>> blockBits < blocks.length ? (blocks[slot >>> blockBits] as number) : none;
      const at = placeIn(block, slot);
      const isFresh = block !== none && (entries[at + field.receivedMs] as number) >= oldestMs;
      weights.push(isFresh ? (entries[at + rate] as number) : unknown);
    }
    return weights;
  }

  #put(slot: number, report: WeighedReport | undefined): void {
    let block = this.#blocks[slot >>> blockBits] ?? none;
    if (block === none) {
      if (report === undefined) return;
      block = this.#takeBlock();
      this.#setBlock(slot >>> blockBits, block);
    }
    const entries = this.#entries;
    const at = placeIn(block, slot);
    const had = entries[at + field.receivedMs] !== never;
    entries[at + field.max] = report?.maxInputTps ?? unknown;
    entries[at + field.mean] = report?.lastMeanInputTps ?? unknown;
    entries[at + field.receivedMs] = report?.receivedMs ?? never;
    if (report?.clusterId === undefined) this.#clusters.delete(slot);
    else this.#clusters.set(slot, report.clusterId);
    const reporting = (this.#reporting[block] as number) + Number(report !== undefined) - Number(had);
    this.#reporting[block] = reporting;
    if (reporting > 0) return;
    this.#setBlock(slot >>> blockBits, none);
    this.#free.push(block);
  }

  /** A block of which nobody reports. */
  #takeBlock(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const block = this.#reporting.push(0) - 1;
    const length = (block + 1) * blockSlots * width;
    if (length > this.#entries.length) {
      const entries = new Float64Array(2 * length).fill(never);
      entries.set(this.#entries);
      this.#entries = entries;
    }
    return block;
  }

  #setBlock(at: number, block: number): void {
    if (at >= this.#blocks.length) {
      const blocks = new Int32Array(2 * (at + 1)).fill(none);
      blocks.set(this.#blocks);
      this.#blocks = blocks;
    }
    this.#blocks[at] = block;
  }
}

/** Where the entry of a slot begins. */
function placeIn(block: number, slot: number): number {
  return (block * blockSlots + (slot & (blockSlots - 1))) * width;
}
