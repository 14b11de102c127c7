import { readFile, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { modelKeyOf } from "../../protocol/model-key.ts";
import { maxUint96 } from "../../protocol/money.ts";
import type { Environment } from "../../protocol/settings.ts";
import { type BackendConfig, backendBaseUrl } from "../upstream/backend-config.ts";
import type { EndpointsConfig, OfferingConfig } from "./endpoints-source.ts";
import { Secret } from "./secret.ts";

/** Bounds of the registry, so that a file that the chain would refuse is refused before it costs a transaction. */
const maxModelIdBytes = 128;
const maxOfferings = 64;
const maxUint32 = 4_294_967_295;

/** A file of backends and offerings that cannot be used; lists every fault. */
export class EndpointsFileError extends Error {
  override readonly name = "EndpointsFileError";
  readonly faults: readonly string[];

  constructor(path: string, faults: readonly string[]) {
    super(`the endpoints file ${path} is wrong:\n${faults.map((fault) => `  ${fault}`).join("\n")}`);
    this.faults = faults;
  }
}

const name = z.string().min(1).max(128);
const price = z
  .string()
  .regex(/^\d{1,29}$/, "must be a text of decimal digits: wei per million tokens")
  .transform((text) => BigInt(text))
  .refine((value) => value <= maxUint96, "must be at most 2^96 - 1");

const schema = z.strictObject({
  backends: z
    .array(
      z.strictObject({
        name,
        url: z.url({ protocol: /^https?$/, error: "must be a URL that starts with http:// or https://" }),
        apiKeyEnv: z.string().min(1).optional(),
        apiKeyFile: z.string().min(1).optional(),
        maxConcurrent: z.int().min(0).max(maxUint32).optional(),
        clusterId: name.optional(),
        initialInputTps: z.number().positive().optional(),
      }),
    )
    .min(1),
  offerings: z
    .array(
      z.strictObject({
        model: z
          .string()
          .min(1)
          .refine(
            (id) => Buffer.byteLength(id) <= maxModelIdBytes,
            `must be at most ${maxModelIdBytes} bytes of UTF-8`,
          ),
        backend: name,
        backendModel: z.string().min(1).max(512).optional(),
        inputPrice: price,
        outputPrice: price,
        contextLength: z.int().min(1).max(maxUint32),
      }),
    )
    .max(maxOfferings),
  maxConcurrentJobs: z.int().min(0).max(maxUint32).optional(),
});

type EndpointsFile = z.output<typeof schema>;

/**
 * Reads a file of backends and offerings. Unknown fields are refused: a misspelt one would silently be the default. A relative
 * `apiKeyFile` is looked for in the folder of this file.
 *
 * @throws EndpointsFileError with every fault; keys are never repeated.
 */
export async function readEndpointsFile(path: string, environment: Environment): Promise<EndpointsConfig> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    throw new EndpointsFileError(path, ["cannot be read"]);
  }
  return await parseEndpoints(path, text, environment);
}

async function parseEndpoints(path: string, text: string, environment: Environment): Promise<EndpointsConfig> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new EndpointsFileError(path, ["is not JSON"]);
  }
  const parsed = schema.safeParse(json);
  if (!parsed.success) {
    throw new EndpointsFileError(
      path,
      parsed.error.issues.map((issue) => `${issue.path.map(String).join(".") || "file"}: ${issue.message}`),
    );
  }
  const faults = crossFaults(parsed.data);
  const backends = new Map<string, BackendConfig>();
  for (const [index, backend] of parsed.data.backends.entries()) {
    const key = await apiKeyOf(backend, environment, dirname(path));
    if (typeof key === "string") faults.push(`backends.${index}.${key}`);
    backends.set(backend.name, {
      name: backend.name,
      url: backendBaseUrl(backend.url),
      apiKey: typeof key === "string" ? undefined : key,
      maxConcurrent: backend.maxConcurrent ?? 0,
      clusterId: backend.clusterId,
      initialInputTps: backend.initialInputTps,
    });
  }
  if (faults.length > 0) throw new EndpointsFileError(path, faults);
  const offerings = new Map<string, OfferingConfig>();
  for (const { model, backend, backendModel, inputPrice, outputPrice, contextLength } of parsed.data.offerings) {
    offerings.set(model, {
      model,
      modelKey: modelKeyOf(model),
      backend,
      backendModel: backendModel ?? model,
      prices: { inputPrice, outputPrice },
      contextLength,
    });
  }
  return Object.freeze({ backends, offerings, maxConcurrentJobs: parsed.data.maxConcurrentJobs });
}

/** Faults between the parts of a file whose parts are each well-formed. */
function crossFaults(file: EndpointsFile): string[] {
  const faults: string[] = [];
  const names = new Set<string>();
  for (const [index, backend] of file.backends.entries()) {
    if (names.has(backend.name)) faults.push(`backends.${index}.name: is used twice`);
    names.add(backend.name);
    if (backend.apiKeyEnv !== undefined && backend.apiKeyFile !== undefined) {
      faults.push(`backends.${index}.apiKeyFile: contradicts apiKeyEnv; keep one`);
    }
  }
  const models = new Set<string>();
  for (const [index, offering] of file.offerings.entries()) {
    if (models.has(offering.model)) faults.push(`offerings.${index}.model: is offered twice`);
    models.add(offering.model);
    if (!names.has(offering.backend)) faults.push(`offerings.${index}.backend: is not the name of a backend`);
    if (offering.inputPrice === 0n && offering.outputPrice === 0n) {
      faults.push(`offerings.${index}.inputPrice: and outputPrice must not both be 0`);
    }
  }
  return faults;
}

/**
 * The key of a backend, undefined where it needs none, or a text that says what is wrong.
 * @param folder where the path of a key begins that is not absolute: beside the file that names it.
 */
async function apiKeyOf(
  backend: EndpointsFile["backends"][number],
  environment: Environment,
  folder: string,
): Promise<Secret | string | undefined> {
  if (backend.apiKeyEnv !== undefined) {
    const value = environment[backend.apiKeyEnv]?.trim();
    if (value === undefined || value === "") return `apiKeyEnv: the variable ${backend.apiKeyEnv} is not set`;
    return isHeaderText(value) ? new Secret(value) : "apiKeyEnv: the variable holds what no header can carry";
  }
  if (backend.apiKeyFile === undefined) return undefined;
  const file = resolve(folder, backend.apiKeyFile);
  try {
    const { mode } = await stat(file);
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      return `apiKeyFile: others can read ${file}; run: chmod 600 ${file}`;
    }
    const value = (await readFile(file, "utf8")).trim();
    if (value === "") return `apiKeyFile: ${file} is empty`;
    return isHeaderText(value) ? new Secret(value) : "apiKeyFile: the file holds what no header can carry";
  } catch {
    return `apiKeyFile: ${file} cannot be read`;
  }
}

function isHeaderText(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}
