import type { ProviderRecord, ReputationRecord } from "./types.ts";

const none: ReputationRecord = Object.freeze({ completed: 0, failed: 0, earned: 0n });

/** A provider's record with more outcomes of one model added to its reputation. */
export function withReputation(record: ProviderRecord, modelId: string, added: ReputationRecord): ProviderRecord {
  const before = record.reputation.get(modelId) ?? none;
  const reputation = new Map(record.reputation);
  reputation.set(
    modelId,
    Object.freeze({
      completed: before.completed + added.completed,
      failed: before.failed + added.failed,
      earned: before.earned + added.earned,
    }),
  );
  return Object.freeze({ ...record, reputation });
}
