import type { RegistryState } from "../../chain/registry-index/state.ts";
import type { RegistrySnapshot } from "../../chain/registry-index/types.ts";

/** A state as plain data, for comparison. */
export function plainState(state: RegistryState): unknown {
  return {
    providers: [...state.providers.values()],
    jobs: [...state.jobs.entries()],
    historyComplete: state.historyComplete,
  };
}

/** Everything that a snapshot shows, without version and block. */
export function plainSnapshot(snapshot: RegistrySnapshot): unknown {
  const models = snapshot.models();
  return {
    providerCount: snapshot.providerCount,
    providers: [...snapshot.providers()],
    models,
    offers: models.map((model) => snapshot.offers(model)),
  };
}
