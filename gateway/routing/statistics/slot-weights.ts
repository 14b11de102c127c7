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
const field = { slot: 0, max: 1, mean: 2, receivedMs: 3 } as const;
/** Slot of an entry that nobody took. */
const vacant = -1;
/** In place of a rate that is not known: rates are positive. */
const unknown = 0;
const leastEntries = 64;

/**
 * What the providers of one model report that ranks them, by their slots on a ring: a decision reads sixteen, and an address would be
 * found by reading its text first. The owner of the reports tells every change; slots that are given later are looked for when the
 * table is read. A hash table in one array, at most half full, so that its size goes with the number of reports.
 */
export class SlotWeightTable {
  readonly slots: MemberSlots;
  readonly #reports: ReadonlyMap<Address, WeighedReport>;
  /** Of those few that share an engine. */
  readonly #clusters = new Map<number, string>();
  #entries = vacantEntries(leastEntries);
  /** Entries that are not vacant, those of slots without a report included. */
  #taken = 0;
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
    return {
      weightOf: (slot) => {
        const entries = this.#entries;
        const at = placeOf(entries, slot);
        if (entries[at] === vacant || nowMs - (entries[at + field.receivedMs] as number) > staleAfterMs) {
          return undefined;
        }
        const weight = entries[at + rate] as number;
        return weight === unknown ? undefined : weight;
      },
      clusterOf: (slot) => (this.#clusters.size === 0 ? undefined : this.#clusters.get(slot)),
    };
  }

  #put(slot: number, report: WeighedReport | undefined): void {
    let at = placeOf(this.#entries, slot);
    if (this.#entries[at] === vacant) {
      if (report === undefined) return;
      if (2 * (this.#taken + 1) > this.#entries.length / width) {
        this.#rebuild();
        at = placeOf(this.#entries, slot);
      }
      this.#taken += 1;
    }
    const entries = this.#entries;
    entries[at] = slot;
    entries[at + field.max] = report?.maxInputTps ?? unknown;
    entries[at + field.mean] = report?.lastMeanInputTps ?? unknown;
    entries[at + field.receivedMs] = report?.receivedMs ?? Number.NEGATIVE_INFINITY;
    if (report?.clusterId === undefined) this.#clusters.delete(slot);
    else this.#clusters.set(slot, report.clusterId);
  }

  /** Room for twice as many entries as have a report; the others are left behind. */
  #rebuild(): void {
    const before = this.#entries;
    const kept: number[] = [];
    for (let at = 0; at < before.length; at += width) {
      const hasReport = before[at] !== vacant && before[at + field.receivedMs] !== Number.NEGATIVE_INFINITY;
      if (hasReport) kept.push(at);
    }
    let count = leastEntries;
    while (count < 4 * (kept.length + 1)) count *= 2;
    const entries = vacantEntries(count);
    for (const from of kept) {
      const to = placeOf(entries, before[from] as number);
      for (let offset = 0; offset < width; offset += 1) entries[to + offset] = before[from + offset] as number;
    }
    this.#entries = entries;
    this.#taken = kept.length;
  }
}

/** @param count A power of 2. */
function vacantEntries(count: number): Float64Array {
  return new Float64Array(count * width).fill(vacant);
}

/** Where the entry of a slot is, or the vacant one that it would take. */
function placeOf(entries: Float64Array, slot: number): number {
  const mask = entries.length / width - 1;
  // Odd and near 2^32 over the golden ratio: neighbouring slots come apart.
  let place = (Math.imul(slot, 0x9e3779b1) >>> 8) & mask;
  while (entries[place * width] !== slot && entries[place * width] !== vacant) place = (place + 1) & mask;
  return place * width;
}
