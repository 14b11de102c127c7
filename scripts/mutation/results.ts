import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import type { Mutant } from "./operators.ts";

const schema = z.record(
  z.string(),
  z.object({
    /** `void`: it does not compile, or to the same code. */
    verdict: z.enum(["killed", "survived", "void"]),
    killer: z.string().optional(),
    /** Where it is, for the guess what kills its neighbours. */
    place: z.string(),
  }),
);

export type Result = z.infer<typeof schema>[string];

/** What became of each mutant, in a file: a run that was stopped goes on where it was. */
export class Results {
  readonly #file: string;
  readonly #rows: Record<string, Result>;

  constructor(file: string) {
    this.#file = file;
    this.#rows = existsSync(file) ? schema.parse(JSON.parse(readFileSync(file, "utf8"))) : {};
  }

  get(mutant: Mutant): Result | undefined {
    return this.#rows[keyOf(mutant)];
  }

  set(mutant: Mutant, result: Result): void {
    this.#rows[keyOf(mutant)] = result;
    mkdirSync(path.dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, JSON.stringify(this.#rows));
  }

  /** Tests that killed mutants at the same place, the most frequent first. */
  killersAt(place: string): readonly string[] {
    const counts = new Map<string, number>();
    for (const { place: where, killer } of Object.values(this.#rows)) {
      if (where === place && killer !== undefined) counts.set(killer, (counts.get(killer) ?? 0) + 1);
    }
    return [...counts].toSorted(([, a], [, b]) => b - a).map(([killer]) => killer);
  }
}

function keyOf(mutant: Mutant): string {
  return createHash("sha256").update(`${mutant.file}\n${mutant.source}`).digest("hex");
}
