import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";

/** The parts of a campaign that are done, in a file, with the time that each took. */
export class Journal {
  readonly done: Map<number, number>;
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
    const rows = existsSync(file)
      ? z.array(z.tuple([z.number(), z.number()])).parse(JSON.parse(readFileSync(file, "utf8")))
      : [];
    this.done = new Map(rows);
  }

  add(part: number, seconds: number): void {
    this.done.set(part, seconds);
    writeFileSync(this.#file, JSON.stringify([...this.done]));
  }

  /** Of the part in the middle of all by speed: one that waited for others' work says nothing of the rate. */
  callsPerSecond(calls: number): number {
    const seconds = [...this.done.values()].toSorted((a, b) => a - b);
    return Math.round(calls / (seconds[Math.floor(seconds.length / 2)] ?? Number.POSITIVE_INFINITY));
  }
}
