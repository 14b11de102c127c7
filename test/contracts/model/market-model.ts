import { EscrowModel } from "./escrow-model.ts";
import { RegistryModel } from "./registry-model.ts";
import { type Emitted, emptyState, type ModelParameters, Refused, type State, type Value } from "./state.ts";

/** Where everything lives. Addresses are checksummed. */
export interface ModelAddresses {
  readonly registry: string;
  readonly escrow: string;
  readonly token: string;
  readonly admin: string;
  readonly jobIdOf: (client: string, nonce: bigint) => string;
}

/** What a transaction did: the events, or the error with which it reverted. */
export type Outcome =
  | { readonly events: readonly Emitted[] }
  | { readonly error: string; readonly args: readonly Value[] };

/** Both contracts as plain TypeScript; a call that is refused changes nothing. */
export class MarketModel {
  readonly #parameters: ModelParameters;
  readonly #addresses: ModelAddresses;
  #state = emptyState();

  constructor(parameters: ModelParameters, addresses: ModelAddresses) {
    this.#parameters = parameters;
    this.#addresses = addresses;
    this.#state.markets.set(addresses.escrow, { known: true, allowed: true, suspended: false, allowableFrom: 0n });
  }

  get state(): State {
    return this.#state;
  }

  get registry(): RegistryModel {
    return this.#models(this.#state, () => undefined).registry;
  }

  /** Runs one transaction at a time of the chain. */
  transact(now: bigint, call: (models: { registry: RegistryModel; escrow: EscrowModel }) => void): Outcome {
    const next = structuredClone(this.#state);
    next.now = now;
    this.#state.now = now;
    const events: Emitted[] = [];
    try {
      call(this.#models(next, (event) => events.push(event)));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { error: error.error, args: error.args };
    }
    this.#state = next;
    return { events };
  }

  #models(state: State, emit: (event: Emitted) => void): { registry: RegistryModel; escrow: EscrowModel } {
    const registry = new RegistryModel(state, this.#parameters, this.#addresses, emit);
    return { registry, escrow: new EscrowModel(state, this.#parameters, registry, this.#addresses, emit) };
  }
}
