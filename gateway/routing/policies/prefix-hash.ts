import type { Policy } from "../types.ts";
import { type HashSettings, hashPolicy } from "./hash-policy.ts";

/** Length of the part of a conversation that is the key: about 256 tokens. */
export const prefixCharacters = 1024;

/** Keeps conversations with the same beginning on one provider, whose prefix cache knows it. */
export function prefixHashPolicy(settings: HashSettings): Policy {
  return hashPolicy("prefix_hash", settings, ({ routingText }) =>
    routingText === "" ? undefined : routingText.slice(0, prefixCharacters),
  );
}
