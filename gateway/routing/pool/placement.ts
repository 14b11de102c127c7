import type { ProviderRecord, RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import type { Standing } from "../reputation.ts";
import { memberOf } from "./member.ts";
import type { Place, Placed } from "./pool.ts";

/** Where a provider stands in a pool as of a snapshot; undefined when it offers nothing there. */
export function placedIn(
  snapshot: Pick<RegistrySnapshot, "blockTimestamp" | "timeToLive">,
  provider: ProviderRecord | undefined,
  modelId: string | undefined,
): Placed | undefined {
  const member = provider === undefined ? undefined : memberOf(provider, modelId);
  if (provider === undefined || member === undefined) return undefined;
  return { member, place: heldBackAt(provider, snapshot) ?? member.standing };
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
