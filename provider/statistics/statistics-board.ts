import type { ModelStatus } from "../../protocol/status.ts";
import { ModelStatistics } from "./model-statistics.ts";

/** A model as the configuration and its backend have it now. */
export interface BoardEntry {
  readonly model: string;
  /** Name of the model at the backend. */
  readonly backendModel: string;
  /** Generation of the backend process. */
  readonly backendGeneration: string;
  readonly initialInputTps: number | undefined;
  readonly clusterId: string | undefined;
  readonly kvFreeTokens: number | undefined;
}

/**
 * Statistics of all offered models. A model whose backend restarted, or that moved to another backend, starts a new generation:
 * streams of the old one go on counting there and cannot touch the new.
 */
export class StatisticsBoard {
  readonly #models = new Map<string, ModelStatistics>();

  /** Statistics of a model for a new stream; of a new generation when its backend is not the one that was measured. */
  of(entry: BoardEntry): ModelStatistics {
    const generation = generationOf(entry);
    const present = this.#models.get(entry.model);
    if (present?.generation === generation) return present;
    const made = new ModelStatistics(entry.model, generation, entry.initialInputTps);
    this.#models.set(entry.model, made);
    return made;
  }

  /** Status of the models offered now; statistics of others are forgotten. */
  read(entries: readonly BoardEntry[]): readonly ModelStatus[] {
    const offered = new Set(entries.map((entry) => entry.model));
    for (const model of this.#models.keys()) if (!offered.has(model)) this.#models.delete(model);
    return entries.map((entry) => ({
      ...this.of(entry).read(),
      ...(entry.kvFreeTokens === undefined ? {} : { kvFreeTokens: entry.kvFreeTokens }),
      ...(entry.clusterId === undefined ? {} : { clusterId: entry.clusterId }),
    }));
  }
}

/** The identity of a model generation. */
function generationOf(entry: BoardEntry): string {
  return entry.backendModel === entry.model
    ? entry.backendGeneration
    : `${entry.backendGeneration}/${entry.backendModel}`;
}
