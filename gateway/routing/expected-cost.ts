import type { Candidate, RoutingRequest } from "./types.ts";

/** Expected cost of one request at a candidate, in wei times one million (exact, no rounding). */
export function expectedCost(
  candidate: Candidate,
  request: Pick<RoutingRequest, "inputTokens" | "outputTokens">,
): bigint {
  return BigInt(request.inputTokens) * candidate.inputPrice + BigInt(request.outputTokens) * candidate.outputPrice;
}

/** Tokens of context that the request needs: prompt and longest answer. */
export function neededContext(request: Pick<RoutingRequest, "inputTokens" | "outputTokens">): number {
  return request.inputTokens + request.outputTokens;
}
