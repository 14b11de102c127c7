import type { Address } from "viem";
import type { Fields } from "../hash/field-table.ts";
import { fieldWords, xxh3 } from "../hash/xxh3.ts";
import type { MemberSlots } from "../ring/member-slots.ts";
import type { SlotWeights, WeightStatistic } from "../types.ts";

/** The part of a report that ranks its provider. */
export interface WeighedReport {
  readonly maxInputTps: number | undefined;
  readonly lastMeanInputTps: number | undefined;
  readonly clusterId: string | undefined;
}

/** 32-bit words of an entry: both rates as doubles, then the field of the provider's address. One line of memory. */
const entryWords = 16;
const entryDoubles = entryWords / 2;
const rates = { max: 0, mean: 1 } as const;
const fieldAt = 4;
/** In place of a rate that is not known: rates are positive. */
const unknown = 0;
/** In place of both rates: nobody reports. */
const vacant = -1;
/** A large buffer is given out 16 bytes behind the start of a page: from here on, each entry is one line of memory and not parts of two. */
const alignBytes = 48;
/** Slots of a block, as a power of 2. */
const blockBits = 6;
const blockSlots = 2 ** blockBits;
/** In place of a block that is not there. */
const none = -1;

/**
 * What the providers of one model report that ranks them, by their slots on a ring, and their addresses, which are hashed with it: a
 * decision reads sixteen, each somewhere else. The owner of the reports tells every change; slots that are given later are looked for when the
 * table is read. Only blocks of slots are kept in which somebody reports: slots are given in the order of joining and never again, so
 * that the blocks of those that left fall empty.
 */
export class SlotWeightTable implements Fields {
  readonly slots: MemberSlots;
  readonly #reports: ReadonlyMap<Address, WeighedReport>;
  /** Of those few that share an engine. */
  readonly #clusters = new Map<number, string>();
  /** The block of some slots among the entries; `none`: nobody there reports. */
  #blocks = new Int32Array(16).fill(none);
  #doubles = new Float64Array(0);
  /** The same memory. */
  #words = new Uint32Array(0);
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

  /** The weights as they are, to be read at once: they follow the table. */
  read(statistic: WeightStatistic): SlotWeights {
    for (; this.#lookedFor < this.slots.count; this.#lookedFor += 1) {
      const report = this.#reports.get(this.slots.addressOf(this.#lookedFor));
      if (report !== undefined) this.#put(this.#lookedFor, report);
    }
    const rate = statistic === "max-input-tps" ? rates.max : rates.mean;
    const clusters = this.#clusters;
    return {
      weightsOf: (some) => this.#weightsOf(some, rate),
      clustersOf: (some) => {
        if (clusters.size === 0) return undefined;
        const ids = some.map((slot) => clusters.get(slot));
        return ids.some((id) => id !== undefined) ? ids : undefined;
      },
      texts: this,
    };
  }

  /** The addresses of providers that report, by their slots. */
  write(slots: readonly number[], from: number, to: number): void {
    const blocks = this.#blocks;
    const words = this.#words;
    const { fields } = xxh3;
    for (let index = from; index < to; index += 1) {
      const slot = slots[index] as number;
      const at = placeIn(blocks[slot >>> blockBits] as number, slot) * entryWords + fieldAt;
      const into = (index - from) * fieldWords;
      for (let word = 0; word < fieldWords; word += 1) fields[into + word] = words[at + word] as number;
    }
  }

  #weightsOf(slots: readonly number[], rate: number): number[] {
    const blocks = this.#blocks;
    const doubles = this.#doubles;
    const weights: number[] = [];
    for (const slot of slots) {
      const block = slot >>> blockBits < blocks.length ? (blocks[slot >>> blockBits] as number) : none;
      const weight = block === none ? unknown : (doubles[placeIn(block, slot) * entryDoubles + rate] as number);
      weights.push(weight > 0 ? weight : unknown);
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
    const place = placeIn(block, slot);
    const doubles = this.#doubles;
    const at = place * entryDoubles;
    const had = doubles[at] !== vacant;
    if (!had && report !== undefined) this.slots.texts.copy(slot, this.#words, place * entryWords + fieldAt);
    doubles[at + rates.max] = report === undefined ? vacant : (report.maxInputTps ?? unknown);
    doubles[at + rates.mean] = report === undefined ? vacant : (report.lastMeanInputTps ?? unknown);
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
    const length = (block + 1) * blockSlots * entryDoubles;
    if (length > this.#doubles.length) {
      const buffer = new ArrayBuffer(alignBytes + 2 * length * Float64Array.BYTES_PER_ELEMENT);
      const doubles = new Float64Array(buffer, alignBytes).fill(vacant);
      doubles.set(this.#doubles);
      this.#doubles = doubles;
      this.#words = new Uint32Array(buffer, alignBytes);
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

/** The number of a slot's entry. */
function placeIn(block: number, slot: number): number {
  return block * blockSlots + (slot & (blockSlots - 1));
}
