import type { Derive, RegistrySnapshot } from "../../chain/registry-index/types.ts";

/** What routing derives from one snapshot of the registry, published together with it. */
export interface RoutingState {
  /** Version of the snapshot it was derived from. */
  readonly version: number;
  readonly snapshot: RegistrySnapshot;
}

/** Derives the routing state of a snapshot; pass it to the registry index. */
export const deriveRoutingState: Derive<RoutingState> = (snapshot) =>
  Object.freeze({ version: snapshot.version, snapshot });
