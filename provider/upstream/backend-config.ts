import type { Secret } from "../settings/secret.ts";

/** One OpenAI-compatible backend of a provider node. */
export interface BackendConfig {
  readonly name: string;
  /** Base URL without the `/v1` of the OpenAI routes and without a slash at its end. */
  readonly url: string;
  readonly apiKey: Secret | undefined;
  /** Streams at once; 0 = no cap of its own. */
  readonly maxConcurrent: number;
  /** Providers in front of one engine name the same cluster. */
  readonly clusterId: string | undefined;
  /** Input tokens per second until measured. */
  readonly initialInputTps: number | undefined;
}

/** Base URL as operators write it, with or without `/v1`, brought to one form. */
export function backendBaseUrl(text: string): string {
  return text.replace(/\/+$/, "").replace(/\/v1$/, "");
}
