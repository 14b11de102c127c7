/** One row per error that a client of the gateway can see: HTTP status, OpenAI type, and what the SDKs need to decide on a retry. */
interface ErrorRow {
  readonly status: number;
  readonly type: string;
  /** Sent as `x-should-retry: false`. */
  readonly noRetry?: true;
  /** Sent with a `Retry-After` header, 1..60 seconds. */
  readonly retryAfter?: true;
  /** The connection is closed after the answer. */
  readonly close?: true;
}

export const errorTable = {
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error" },
  missing_required_parameter: { status: 400, type: "invalid_request_error" },
  unsupported_content_type: { status: 400, type: "invalid_request_error" },
  context_length_exceeded: { status: 400, type: "invalid_request_error" },
  upstream_rejected: { status: 400, type: "invalid_request_error" },
  invalid_api_key: { status: 401, type: "invalid_request_error" },
  insufficient_escrow_balance: { status: 402, type: "invalid_request_error", noRetry: true },
  model_not_allowed: { status: 403, type: "invalid_request_error" },
  model_not_found: { status: 404, type: "invalid_request_error", noRetry: true },
  unknown_url: { status: 404, type: "invalid_request_error" },
  job_not_found: { status: 404, type: "invalid_request_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error" },
  escrow_limit_exceeded: { status: 413, type: "invalid_request_error" },
  request_too_large: { status: 413, type: "invalid_request_error", close: true },
  rate_limit_exceeded: { status: 429, type: "rate_limit_error", retryAfter: true },
  insufficient_quota: { status: 429, type: "insufficient_quota", noRetry: true },
  internal_error: { status: 500, type: "api_error" },
  upstream_error: { status: 502, type: "api_error" },
  upstream_timeout: { status: 504, type: "timeout_error" },
  server_is_overloaded: { status: 503, type: "service_unavailable_error", retryAfter: true },
  capacity_timeout: { status: 503, type: "service_unavailable_error", retryAfter: true, noRetry: true },
  no_provider_online: { status: 503, type: "service_unavailable_error", retryAfter: true },
  chain_unavailable: { status: 503, type: "service_unavailable_error", retryAfter: true },
  server_draining: { status: 503, type: "service_unavailable_error", retryAfter: true, close: true },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;

/** Body of every error answer: all four keys, always. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** Options of `T4tError`. */
export interface T4tErrorOptions {
  /** Name of the request field at fault. */
  readonly param?: string;
  /** Code that the client is shown in place of ours: a backend's own, already found fit for it. */
  readonly shownCode?: string;
  /** Seconds for `Retry-After`; clamped to 1..60. */
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** An error with a public face: its message may be shown to a client and must hold no internals, keys or addresses of backends. */
export class T4tError extends Error {
  override readonly name = "T4tError";
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly shownCode: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: T4tErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param ?? null;
    this.shownCode = options.shownCode;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get row(): ErrorRow {
    return errorTable[this.code];
  }

  /** The OpenAI-shaped body. */
  toBody(): ErrorBody {
    const code = this.shownCode ?? this.code;
    return { error: { message: this.message, type: this.row.type, param: this.param, code } };
  }

  /** Headers that belong to the error. */
  toHeaders(): Record<string, string> {
    const headers: Record<string, string> = {};
    if (this.row.retryAfter === true) {
      headers["retry-after"] = String(Math.min(60, Math.max(1, Math.ceil(this.retryAfterSeconds ?? 1))));
    }
    if (this.row.noRetry === true) headers["x-should-retry"] = "false";
    if (this.row.close === true) headers.connection = "close";
    return headers;
  }
}
