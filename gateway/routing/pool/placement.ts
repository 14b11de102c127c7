import type { ProviderRecord, RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import type { Standing } from "../reputation.ts";
import { type Member, memberOf, type Place } from "./member.ts";

/** A provider as a member of a pool as of a snapshot; undefined when it offers nothing there. */
export function memberIn(
  snapshot: Pick<RegistrySnapshot, "blockTimestamp" | "timeToLive">,
  provider: ProviderRecord | undefined,
  modelId: string | undefined,
): Member | undefined {
  return provider === undefined ? undefined : memberOf(provider, modelId, heldBackAt(provider, snapshot));
}

/** Least `lastSeen` of a live provider, by chain time. */
export function freshFrom(snapshot: Pick<RegistrySnapshot, "blockTimestamp" | "timeToLive">): number {
  return snapshot.blockTimestamp - snapshot.timeToLive;
}

/** Where a provider is kept apart from the free ones; undefined when it is free by the chain's count. */
export function heldBackAt(
  provider: ProviderRecord,
  snapshot: Pick<RegistrySnapshot, "blockTimestamp" | "timeToLive">,
): Exclude<Place, Standing> | undefined {
  if (!provider.active) return "inactive";
  if (provider.lastSeen < freshFrom(snapshot)) return "stale";
  if (provider.maxConcurrentJobs !== 0 && provider.openJobs >= provider.maxConcurrentJobs) return "full";
  return undefined;
}
