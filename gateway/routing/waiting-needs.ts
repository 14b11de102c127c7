import type { Policy, RoutingRequest } from "./types.ts";

/**
 * What the answer to a waiting request depends on, beside the model and the moment: of two requests with equal needs the later one
 * cannot be served while the earlier one must wait, so they stand in one order. Requests with different needs do not hold up one
 * another.
 *
 * @param offerClass Equal for requests that fit the same offers.
 */
export function waitingNeeds(
  policy: Policy,
  { affinityKey, tried }: Pick<RoutingRequest, "affinityKey" | "tried">,
  offerClass: string,
): string {
  const key = policy.waitsByKey === true ? (affinityKey ?? "") : "";
  return JSON.stringify([policy.settings ?? policy.name, offerClass, [...tried].toSorted(), key]);
}
