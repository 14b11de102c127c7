import type { Policy } from "./types.ts";
import { type PolicyConfig, policyConfigSchema, type ResolvedPolicyConfig } from "./policy-config.ts";
import { cheapestPolicy } from "./policies/cheapest.ts";
import { leastInflightPolicy } from "./policies/least-inflight.ts";
import { manualPolicy } from "./policies/manual.ts";
import { topRepCheapestPolicy } from "./policies/top-rep-cheapest.ts";

/** A policy that cannot be built, with the field at fault. */
export class PolicyConfigError extends Error {
  override readonly name = "PolicyConfigError";
}

/** Builds a policy. Throws `PolicyConfigError` that names every fault, unknown fields among them. */
export function createPolicy(config: PolicyConfig): Policy {
  const parsed = policyConfigSchema.safeParse(config);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join(".") || "policy"}: ${issue.message}`);
    throw new PolicyConfigError(`invalid routing policy: ${faults.join("; ")}`);
  }
  return build(parsed.data);
}

function build(config: ResolvedPolicyConfig): Policy {
  switch (config.name) {
    case "cheapest":
      return cheapestPolicy();
    case "top_rep_cheapest":
      return topRepCheapestPolicy(config);
    case "manual":
      return manualPolicy(config);
    default:
      return leastInflightPolicy();
  }
}
