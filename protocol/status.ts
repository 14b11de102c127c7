/**
 * A provider's signed status: `GET {endpoint}/v1/status` (one document) and `GET {endpoint}/v1/status/events` (SSE, event `status`).
 * Both carry `SignedProviderStatus`; `body` is the JSON text of `ProviderStatus` exactly as hashed and signed.
 */
export interface ProviderStatus {
  readonly provider: string;
  /** Unix milliseconds at which it was made. */
  readonly issuedAt: number;
  readonly draining: boolean;
  /** Slots of this process: cap (0 = no cap) and streams running. */
  readonly maxConcurrentJobs: number;
  readonly running: number;
  readonly models: readonly ModelStatus[];
}

/** Measured statistics of one model on this provider. Optional fields are absent while unknown. */
export interface ModelStatus {
  readonly model: string;
  /** Changes when the model is replaced or the backend restarts. */
  readonly generation: string;
  /** Tokens per second of uncached input: published mean of the generation. */
  readonly lastMeanInputTps?: number;
  /** Greatest published mean of the generation. */
  readonly maxInputTps?: number;
  readonly running: number;
  readonly queuedInputTokens?: number;
  readonly kvFreeTokens?: number;
  /** Providers in front of one engine name the same cluster. */
  readonly clusterId?: string;
}

export interface SignedProviderStatus {
  /** JSON text of `ProviderStatus`. */
  readonly body: string;
  /** Operator's signature of the EIP-712 `ProviderStatus` message over SHA-256 of `body`. */
  readonly signature: `0x${string}`;
}
