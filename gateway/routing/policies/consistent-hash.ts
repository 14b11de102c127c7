import type { Policy } from "../types.ts";
import { type HashSettings, hashPolicy } from "./hash-policy.ts";

/** Keeps an affinity key on one provider, with bounded loads. */
export function consistentHashPolicy(settings: HashSettings): Policy {
  return hashPolicy("consistent_hash", settings, ({ affinityKey }) => affinityKey);
}
