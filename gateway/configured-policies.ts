import { readFileSync } from "node:fs";
import type { PolicyConfig } from "./routing/policy-config.ts";
import { readPolicyFile, type RoutingPolicies } from "./routing/policy-file.ts";
import type { PolicyName } from "./routing/types.ts";
import type { GatewaySettings } from "./settings.ts";

/** The strategies that requests may run under: of the policy file, or of the variables. Throws `PolicyConfigError`. */
export function configuredPolicies(settings: GatewaySettings): RoutingPolicies {
  if (settings.routingFile !== undefined) return readPolicyFile(readFileSync(settings.routingFile, "utf8"));
  const names = new Set([settings.strategy, ...settings.allowedStrategies]);
  const requests = Object.fromEntries([...names].map((name) => [name, policyConfig(name, settings)]));
  return readPolicyFile(JSON.stringify({ default: policyConfig(settings.strategy, settings), requests }));
}

function policyConfig(name: PolicyName, settings: GatewaySettings): PolicyConfig {
  if (name !== "manual") return { name };
  if (settings.manualProvider === undefined) throw new Error("the strategy manual needs a provider");
  return { name, provider: settings.manualProvider };
}
