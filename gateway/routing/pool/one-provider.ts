import type { Address } from "viem";
import type { RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import { MemberSlots } from "../ring/member-slots.ts";
import { memberIn } from "./placement.ts";
import { Pool } from "./pool.ts";

/** The pool of a single provider, for the policy that allows no other. */
export function narrowToOne(snapshot: RegistrySnapshot, modelId: string | undefined, provider: Address): Pool {
  const member = memberIn(snapshot, snapshot.provider(provider), modelId);
  if (member === undefined) return Pool.empty;
  return Pool.empty.apply([{ before: undefined, after: member }], new MemberSlots());
}
