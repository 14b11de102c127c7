import type { Hex } from "viem";
import { modelKeyOf } from "../../protocol/model-key.ts";
import type { Prices } from "../../protocol/money.ts";
import { type BackendConfig, backendBaseUrl } from "../upstream/backend-config.ts";
import { Secret } from "./secret.ts";

/** One model that the node sells. */
export interface OfferingConfig {
  /** Model id as clients and chain name it. */
  readonly model: string;
  readonly modelKey: Hex;
  /** Name of a backend. */
  readonly backend: string;
  /** The model's name at that backend. */
  readonly backendModel: string;
  readonly prices: Prices;
  /** Tokens. */
  readonly contextLength: number;
}

/** What the node serves and from where. Immutable: a changed file makes a new one. */
export interface EndpointsConfig {
  readonly backends: ReadonlyMap<string, BackendConfig>;
  /** By model id. */
  readonly offerings: ReadonlyMap<string, OfferingConfig>;
  /** 0 = no cap; undefined = the variable's value stands. */
  readonly maxConcurrentJobs: number | undefined;
}

/** Where the node's endpoints come from. */
export type EndpointsSource =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "simple"; readonly endpoints: EndpointsConfig };

/** One backend with one model, as plain variables give it. */
export interface SimpleEndpoint {
  readonly url: string;
  readonly model: string;
  readonly backendModel: string | undefined;
  readonly prices: Prices;
  readonly contextLength: number;
  readonly apiKey: string | undefined;
}

/** The endpoints of the simple form. */
export function simpleEndpoints(simple: SimpleEndpoint): EndpointsConfig {
  const backend: BackendConfig = {
    name: "backend",
    url: backendBaseUrl(simple.url),
    apiKey: simple.apiKey === undefined ? undefined : new Secret(simple.apiKey),
    maxConcurrent: 0,
    clusterId: undefined,
    initialInputTps: undefined,
  };
  const offering: OfferingConfig = {
    model: simple.model,
    modelKey: modelKeyOf(simple.model),
    backend: backend.name,
    backendModel: simple.backendModel ?? simple.model,
    prices: simple.prices,
    contextLength: simple.contextLength,
  };
  return {
    backends: new Map([[backend.name, backend]]),
    offerings: new Map([[offering.model, offering]]),
    maxConcurrentJobs: undefined,
  };
}
