import { cheapestPolicy } from "./policies/cheapest.ts";
import { consistentHashPolicy } from "./policies/consistent-hash.ts";
import { leastInflightPolicy } from "./policies/least-inflight.ts";
import { manualPolicy } from "./policies/manual.ts";
import { prefixHashPolicy } from "./policies/prefix-hash.ts";
import { pulsarPolicy } from "./policies/pulsar.ts";
import { pulsarWaitAndWidenPolicy } from "./policies/pulsar-wait-and-widen.ts";
import { topRepCheapestPolicy } from "./policies/top-rep-cheapest.ts";
import { waitAndWidenPolicy } from "./policies/wait-and-widen.ts";
import { type PolicyConfig, policyConfigSchema, type ResolvedPolicyConfig } from "./policy-config.ts";
import type { Policy, PolicyName } from "./types.ts";

/** A policy that cannot be built, with the field at fault. */
export class PolicyConfigError extends Error {
  override readonly name = "PolicyConfigError";
}

type Builders = { readonly [N in PolicyName]: (config: Extract<ResolvedPolicyConfig, { name: N }>) => Policy };

const builders: Builders = {
  cheapest: cheapestPolicy,
  top_rep_cheapest: topRepCheapestPolicy,
  manual: manualPolicy,
  least_inflight: leastInflightPolicy,
  consistent_hash: consistentHashPolicy,
  prefix_hash: prefixHashPolicy,
  pulsar: pulsarPolicy,
  wait_and_widen: waitAndWidenPolicy,
  pulsar_wait_and_widen: pulsarWaitAndWidenPolicy,
};

/** Builds a policy. Throws `PolicyConfigError` that names every fault, unknown fields among them. */
export function createPolicy(config: PolicyConfig): Policy {
  const parsed = policyConfigSchema.safeParse(config);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join(".") || "policy"}: ${issue.message}`);
    throw new PolicyConfigError(`invalid routing policy: ${faults.join("; ")}`);
  }
  return { ...build(parsed.data), settings: JSON.stringify(parsed.data) };
}

function build<N extends PolicyName>(config: Extract<ResolvedPolicyConfig, { name: N }>): Policy {
  const builder: Builders[N] = builders[config.name];
  return builder(config);
}
