import type { Random } from "../../../../protocol/clock.ts";
import type { RoutingRequest } from "../../../../gateway/routing/types.ts";
import { testModel } from "./registry.ts";

/** A request of 100 input and 100 output tokens for `testModel`. */
export function requestOf(change: Partial<RoutingRequest> = {}): RoutingRequest {
  return {
    modelId: testModel,
    inputTokens: 100,
    outputTokens: 100,
    affinityKey: undefined,
    routingText: "",
    elapsedMs: 0,
    tried: new Set(),
    maxPrice: undefined,
    ...change,
  };
}

/** mulberry32: a small seeded source, the same sequence on every machine. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
