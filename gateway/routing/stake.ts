import type { Candidate, RoutingRequest } from "./types.ts";

/**
 * Whether a candidate's stake cannot cover the request's job, whatever else it has open. What its open jobs hold of the stake is not
 * known here, so the chain may still refuse one that passes.
 */
export function isUnderstaked(candidate: Candidate, { collateralAt }: Pick<RoutingRequest, "collateralAt">): boolean {
  return collateralAt !== undefined && candidate.stake < collateralAt(candidate);
}
