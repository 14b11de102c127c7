import type { Address } from "viem";
import type { ProviderRecord, RegistrySnapshot } from "../../../chain/registry-index/types.ts";

/** Chain seconds after which a sign of life is that of a new process: a draining one still settles what it delivered. */
export const longestDrainSeconds = 300;

type Indexed = Pick<RegistrySnapshot, "provider" | "blockTimestamp">;

/** What the registry had of a provider when it said that it shuts down. */
interface Mark extends Pick<ProviderRecord, "generation" | "endpoint"> {
  /** Chain seconds. */
  readonly since: number;
}

/**
 * Providers that said that they shut down, by their signed status or by refusing a job for it. Believed until a newer status says
 * otherwise, the registration or its endpoint is another, or the provider shows life well after its drain must have ended.
 */
export class Draining {
  readonly #marks = new Map<Address, Mark | undefined>();
  #newest: Indexed | undefined;

  get size(): number {
    return this.#marks.size;
  }

  has(provider: Address): boolean {
    return this.#marks.has(provider);
  }

  /** It shuts down. Said again, it is as said first. */
  add(provider: Address): void {
    if (!this.#marks.has(provider)) this.#marks.set(provider, this.#mark(provider));
  }

  /** It takes jobs again. */
  delete(provider: Address): void {
    this.#marks.delete(provider);
  }

  /** Call with every snapshot: forgets those that registered or came to life anew, and those that are gone. */
  indexed(snapshot: Indexed): void {
    this.#newest = snapshot;
    for (const [provider, mark] of this.#marks) {
      const record = snapshot.provider(provider);
      if (record === undefined || (mark !== undefined && isAnew(mark, record))) this.#marks.delete(provider);
      else if (mark === undefined) this.#marks.set(provider, this.#mark(provider));
    }
  }

  #mark(provider: Address): Mark | undefined {
    const record = this.#newest?.provider(provider);
    if (this.#newest === undefined || record === undefined) return undefined;
    return { generation: record.generation, endpoint: record.endpoint, since: this.#newest.blockTimestamp };
  }
}

function isAnew(mark: Mark, record: ProviderRecord): boolean {
  return (
    record.generation !== mark.generation ||
    record.endpoint !== mark.endpoint ||
    record.lastSeen > mark.since + longestDrainSeconds
  );
}
