const maxModels = 200;

/** Model ids as metric labels: the first so many that were used, the rest as one. Ids come from strangers and are without number. */
export class ModelLabels {
  readonly #known = new Set<string>();

  label(model: string | undefined): string {
    if (model === undefined) return "auto";
    if (this.#known.has(model)) return model;
    if (this.#known.size >= maxModels) return "other";
    this.#known.add(model);
    return model;
  }
}
