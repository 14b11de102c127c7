import { z } from "zod";
import { anyModel } from "../openai/completion-request.ts";
import { objectMembers, skipSpace } from "../openai/json-spans.ts";
import { createPolicy } from "./create-policy.ts";
import { type PolicyConfig, policyConfigSchema, type ResolvedPolicyConfig } from "./policy-config.ts";
import type { Policy } from "./types.ts";

/** Header by which a request asks for one of the allowed policies. */
export const routingHeader = "x-t4t-routing";

const label = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_.-]{0,63}$/, "must be lower-case letters, digits, '_', '.' or '-', at most 64");

const fileSchema = z.strictObject({
  /** For every request that nothing below says otherwise of. */
  default: policyConfigSchema,
  /** By exact model id; `auto`, by which a client names no model, is that of requests without one. */
  models: z.record(z.string().min(1).max(256), policyConfigSchema).default({}),
  /** What a request may ask for by header, by label. */
  requests: z.record(label, policyConfigSchema).default({}),
});

/** The text of a policy file that cannot be used, with every fault. */
export class PolicyFileError extends Error {
  override readonly name = "PolicyFileError";
}

/** A policy that a request asked for and may not have. */
export class PolicyNotAllowedError extends Error {
  override readonly name = "PolicyNotAllowedError";
  readonly allowed: readonly string[];

  constructor(allowed: readonly string[]) {
    super(`'${routingHeader}' must be one of: ${allowed.join(", ") || "(none is allowed)"}.`);
    this.allowed = allowed;
  }
}

/** All policies of a gateway as of one reading of its file. Immutable: a request keeps the one it began with. */
export class RoutingPolicies {
  readonly #default: Policy;
  readonly #models: ReadonlyMap<string, Policy>;
  readonly #requests: ReadonlyMap<string, Policy>;
  /** Each built policy by its configuration, so that a reload keeps what did not change, caches and all. */
  readonly #built: ReadonlyMap<string, Policy>;

  constructor(
    byDefault: Policy,
    models: ReadonlyMap<string, Policy>,
    requests: ReadonlyMap<string, Policy>,
    built: ReadonlyMap<string, Policy>,
  ) {
    this.#default = byDefault;
    this.#models = models;
    this.#requests = requests;
    this.#built = built;
  }

  /** Policies of a gateway without a file: one for all. Throws `PolicyConfigError`. */
  static single(config: PolicyConfig): RoutingPolicies {
    return new RoutingPolicies(createPolicy(config), new Map(), new Map(), new Map());
  }

  /**
   * The policy of a request: what it asked for, else its model's, else the default.
   * @param requested Value of `x-t4t-routing`. Throws `PolicyNotAllowedError` when it is not in the file's list.
   */
  policyFor(modelId: string | undefined, requested?: string): Policy {
    if (requested !== undefined) {
      const policy = this.#requests.get(requested.trim().toLowerCase());
      if (policy === undefined) throw new PolicyNotAllowedError(this.allowed);
      return policy;
    }
    return this.#models.get(modelId ?? anyModel) ?? this.#default;
  }

  /** Labels that a request may ask for, sorted. */
  get allowed(): readonly string[] {
    return [...this.#requests.keys()].toSorted();
  }

  /** The policy that was built from a configuration, if there is one. */
  builtFrom(config: ResolvedPolicyConfig): Policy | undefined {
    return this.#built.get(keyOf(config));
  }
}

/**
 * Reads a policy file and builds every policy in it. Throws `PolicyFileError` that names every fault: bad JSON, unknown fields, those
 * given twice, values out of bounds.
 * @param previous Policies whose configuration is unchanged are taken over from here.
 */
export function readPolicyFile(text: string, previous?: RoutingPolicies): RoutingPolicies {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new PolicyFileError("the routing policy file is not JSON", { cause });
  }
  const parsed = fileSchema.safeParse(json);
  const repeated = repeatedMembers(text).map((path) => `${path}: is given twice`);
  if (!parsed.success || repeated.length > 0) {
    const issues = parsed.error?.issues ?? [];
    const faults = issues.map(({ path, message }) => `${path.join(".") || "file"}: ${message}`);
    throw new PolicyFileError(`the routing policy file is invalid: ${[...repeated, ...faults].join("; ")}`);
  }
  const built = new Map<string, Policy>();
  const build = (config: ResolvedPolicyConfig): Policy => {
    const key = keyOf(config);
    const policy = built.get(key) ?? previous?.builtFrom(config) ?? createPolicy(config);
    built.set(key, policy);
    return policy;
  };
  const buildAll = (configs: Readonly<Record<string, ResolvedPolicyConfig>>) =>
    new Map(Object.entries(configs).map(([name, config]) => [name, build(config)]));
  const { default: byDefault, models, requests } = parsed.data;
  return new RoutingPolicies(build(byDefault), buildAll(models), buildAll(requests), built);
}

/** The policies in force; a reload takes effect for requests that come after it. */
export class PolicyHolder {
  #current: RoutingPolicies;

  constructor(policies: RoutingPolicies) {
    this.#current = policies;
  }

  get current(): RoutingPolicies {
    return this.#current;
  }

  /** Takes a new file. Throws `PolicyFileError` and keeps the old policies when it is faulty. */
  reload(text: string): void {
    this.#current = readPolicyFile(text, this.#current);
  }
}

/** Paths of members that an object of the file has twice, of which `JSON.parse` takes the last without a word. */
function repeatedMembers(text: string, at = skipSpace(text, 0), path: readonly string[] = []): string[] {
  const seen = new Set<string>();
  return objectMembers(text, at).flatMap(({ key, valueStart }) => {
    const own = [...path, key];
    const inside = repeatedMembers(text, valueStart, own);
    if (seen.has(key)) return [own.join("."), ...inside];
    seen.add(key);
    return inside;
  });
}

function keyOf(config: ResolvedPolicyConfig): string {
  return JSON.stringify(Object.entries(config).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
