import { readFileSync } from "node:fs";
import type { PolicyConfig } from "./routing/policy-config.ts";
import { PolicyFileError, type PolicyHolder, readPolicyFile, type RoutingPolicies } from "./routing/policy-file.ts";
import type { PolicyName } from "./routing/types.ts";
import type { GatewaySettings } from "./settings.ts";

/** The strategies that requests may run under: of the policy file, or of the variables. Throws `PolicyFileError`. */
export function configuredPolicies(settings: GatewaySettings): RoutingPolicies {
  if (settings.routingFile !== undefined) return withFile(settings.routingFile, readPolicyFile);
  const names = new Set([settings.strategy, ...settings.allowedStrategies]);
  const requests = Object.fromEntries([...names].map((name) => [name, policyConfig(name, settings)]));
  return readPolicyFile(JSON.stringify({ default: policyConfig(settings.strategy, settings), requests }));
}

/** Takes the policy file as it is now. Throws `PolicyFileError` and keeps the old policies when it is faulty or not there. */
export function reloadPolicies(policies: PolicyHolder, path: string): void {
  withFile(path, (text) => policies.reload(text));
}

/** Whoever set the variable should hear of it, and of the file, by name. */
function withFile<T>(path: string, use: (text: string) => T): T {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new PolicyFileError(`T4T_ROUTING_FILE names ${path}, which cannot be read`, { cause });
  }
  try {
    return use(text);
  } catch (cause) {
    if (!(cause instanceof PolicyFileError)) throw cause;
    throw new PolicyFileError(`T4T_ROUTING_FILE names ${path}: ${cause.message}`, { cause });
  }
}

function policyConfig(name: PolicyName, settings: GatewaySettings): PolicyConfig {
  if (name !== "manual") return { name };
  if (settings.manualProvider === undefined) throw new Error("the strategy manual needs a provider");
  return { name, provider: settings.manualProvider };
}
