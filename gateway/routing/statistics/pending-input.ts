import type { Address } from "viem";

/** Input tokens of streams that have no first token yet, per model and provider. */
export class PendingInput {
  readonly #models = new Map<string, Map<Address, number>>();

  of(provider: Address, modelId: string): number {
    return this.#models.get(modelId)?.get(provider) ?? 0;
  }

  /** Counts a prompt; the returned function takes it off again, once. */
  add(provider: Address, modelId: string, tokens: number): () => void {
    if (!(tokens > 0)) return () => undefined;
    this.#change(provider, modelId, tokens);
    let isCounted = true;
    return () => {
      if (isCounted) this.#change(provider, modelId, -tokens);
      isCounted = false;
    };
  }

  #change(provider: Address, modelId: string, by: number): void {
    const providers = this.#models.get(modelId) ?? new Map<Address, number>();
    const tokens = (providers.get(provider) ?? 0) + by;
    if (tokens > 0) providers.set(provider, tokens);
    else providers.delete(provider);
    if (providers.size > 0) this.#models.set(modelId, providers);
    else this.#models.delete(modelId);
  }
}
