import type { Published, RegistryDelta } from "../chain/registry-index/types.ts";
import type { CapacityLines } from "./capacity/capacity-lines.ts";
import type { GatewayStatistics } from "./jobs/gateway-statistics.ts";
import { anyModelLine, type Grant } from "./jobs/selection.ts";
import type { OfferedStatuses } from "./routing/offered-status.ts";
import type { RoutingState } from "./routing/state.ts";
import type { StatusFollower } from "./routing/status-follower.ts";

/** What follows the registry's snapshots. */
export interface SnapshotReaders {
  readonly statistics: GatewayStatistics;
  readonly statuses: OfferedStatuses;
  readonly follower: StatusFollower;
  readonly lines: CapacityLines<Grant>;
}

/** A new snapshot: what was posted is in it, and what came free goes to the heads of the lines. */
export function takeSnapshot(
  { statistics, statuses, follower, lines }: SnapshotReaders,
  published: Published<RoutingState>,
  delta: RegistryDelta,
): void {
  const { snapshot } = published;
  for (const address of delta.providers)
    statistics.endpointMayHaveChanged(address, snapshot.provider(address)?.endpoint);
  statistics.indexed(snapshot);
  statuses.indexed(snapshot);
  follower.sync(delta.providers, (address) => {
    const provider = snapshot.provider(address);
    return provider?.active === true ? provider : undefined;
  });
  for (const name of lines.names()) {
    if (name === anyModelLine || offersAny(published, delta, name)) lines.capacityFreed(name);
  }
}

/** Whether one of the providers that changed offers a model. */
function offersAny({ snapshot }: Published<RoutingState>, delta: RegistryDelta, modelId: string): boolean {
  if (delta.models.has(modelId)) return true;
  for (const address of delta.providers) if (snapshot.provider(address)?.offerings.has(modelId) === true) return true;
  return false;
}
