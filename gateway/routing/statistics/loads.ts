import type { Address } from "viem";

/** Streams of one registration of a provider. Replaced whole when the provider registers anew. */
interface Load {
  readonly generation: number;
  readonly perModel: Map<string, number>;
  count: number;
  /** A newer registration took its place: what ends now belongs to nobody's count. */
  detached: boolean;
}

/** A place in the counts, given back once. */
export interface LoadTicket {
  /** False when it was given back already. */
  release(): boolean;
}

/**
 * Open streams per provider and model. A count belongs to one registration generation: a provider that leaves and returns starts
 * at zero, and a stream of its former registration cannot touch the new count.
 */
export class Loads {
  readonly #loads = new Map<Address, Load>();
  readonly #totals = new Map<string, number>();
  #total = 0;

  /** Takes a place. A generation older than the one known counts nowhere. */
  take(provider: Address, generation: number, modelId: string): LoadTicket {
    const load = this.#current(provider, generation);
    if (load !== undefined) this.#change(load, modelId, 1);
    let released = false;
    return {
      release: () => {
        if (released) return false;
        released = true;
        if (load !== undefined && !load.detached) {
          this.#change(load, modelId, -1);
          if (load.count === 0) this.#loads.delete(provider);
        }
        return true;
      },
    };
  }

  /** Streams at a provider, all models. With `generation`, those of that registration only. */
  of(provider: Address, generation?: number): number {
    const load = this.#loads.get(provider);
    if (load === undefined || (generation !== undefined && load.generation !== generation)) return 0;
    return load.count;
  }

  /** Streams at a provider for one model. */
  ofModel(provider: Address, modelId: string): number {
    return this.#loads.get(provider)?.perModel.get(modelId) ?? 0;
  }

  /** Streams of one model, or of all, at all providers. */
  total(modelId: string | undefined): number {
    return modelId === undefined ? this.#total : (this.#totals.get(modelId) ?? 0);
  }

  /** Providers that have streams. */
  providers(): IterableIterator<Address> {
    return this.#loads.keys();
  }

  /** Forgets the counts of every registration that is not the current one. @param generationOf undefined: not registered. */
  retain(generationOf: (provider: Address) => number | undefined): void {
    for (const [provider, load] of this.#loads) {
      const generation = generationOf(provider);
      // An index that lags behind the lease knows an older generation: only a newer one, or none, ends a count.
      if (generation === undefined || generation > load.generation) this.#detach(provider, load);
    }
  }

  #current(provider: Address, generation: number): Load | undefined {
    const known = this.#loads.get(provider);
    if (known !== undefined && known.generation > generation) return undefined;
    if (known !== undefined && known.generation === generation) return known;
    if (known !== undefined) this.#detach(provider, known);
    const load: Load = { generation, perModel: new Map(), count: 0, detached: false };
    this.#loads.set(provider, load);
    return load;
  }

  #detach(provider: Address, load: Load): void {
    load.detached = true;
    this.#loads.delete(provider);
    this.#total -= load.count;
    for (const [modelId, count] of load.perModel) this.#changeTotal(modelId, -count);
  }

  #change(load: Load, modelId: string, by: 1 | -1): void {
    load.count += by;
    const ofModel = (load.perModel.get(modelId) ?? 0) + by;
    if (ofModel === 0) load.perModel.delete(modelId);
    else load.perModel.set(modelId, ofModel);
    this.#total += by;
    this.#changeTotal(modelId, by);
  }

  #changeTotal(modelId: string, by: number): void {
    const total = (this.#totals.get(modelId) ?? 0) + by;
    if (total === 0) this.#totals.delete(modelId);
    else this.#totals.set(modelId, total);
  }
}
