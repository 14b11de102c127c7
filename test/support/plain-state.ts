import type { ClientWeights } from "../../chain/registry-index/client-weights.ts";
import type { RegistryState } from "../../chain/registry-index/state.ts";
import type { ProviderRecord, RegistrySnapshot, ReputationRecord } from "../../chain/registry-index/types.ts";

/** A state as plain data, for comparison. */
export function plainState(state: RegistryState): unknown {
  return {
    providers: [...state.providers.values()].map(plainRecord),
    jobs: [...state.jobs.entries()],
    historyComplete: state.historyComplete,
  };
}

/** Everything that a snapshot shows, without version and block. */
export function plainSnapshot(snapshot: RegistrySnapshot): unknown {
  const models = snapshot.models();
  return {
    providerCount: snapshot.providerCount,
    providers: [...snapshot.providers()].map(plainRecord),
    models,
    offers: models.map((model) =>
      snapshot.offers(model).map(({ provider, offering }) => ({ provider: plainRecord(provider), offering })),
    ),
  };
}

function plainRecord(record: ProviderRecord): unknown {
  return { ...record, reputation: new Map([...record.reputation].map(([id, each]) => [id, plainReputation(each)])) };
}

/** Rounded, because sums of decayed weights depend in their last digit on who was added first. */
export function plainReputation(record: ReputationRecord): unknown {
  const { paid, failed, ownServed, ownFaults } = record;
  return {
    ...record,
    paid: plainWeights(paid),
    failed: plainWeights(failed),
    ownServed: rounded(ownServed),
    ownFaults: rounded(ownFaults),
  };
}

function plainWeights({ total, unlisted, clients, weights }: ClientWeights): unknown {
  const listed = clients.map((client, index): [string, number] => [client, rounded(weights[index] ?? 0)]);
  return {
    total: rounded(total),
    unlisted: rounded(unlisted),
    clients: new Map(listed.toSorted(([client], [other]) => (client < other ? -1 : 1))),
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(9));
}
