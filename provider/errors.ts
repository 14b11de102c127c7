import { type ProviderErrorCode, providerErrorCodes } from "../protocol/wire.ts";

/** Types of OpenAI error bodies, by the status that a provider node answers with. */
const typeByStatus: Readonly<Record<number, string>> = {
  401: "invalid_request_error",
  402: "invalid_request_error",
  404: "invalid_request_error",
  409: "invalid_request_error",
  413: "invalid_request_error",
  500: "api_error",
  502: "api_error",
  503: "service_unavailable_error",
  504: "timeout_error",
};

/** Options of `ProviderError`. */
export interface ProviderErrorOptions {
  readonly param?: string;
  /** The backend's own code for what it rejects. */
  readonly backendCode?: string;
  /** Further public fields beside `error`, such as the usage statement that contradicts a receipt. */
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A refusal with a public face: the gateway reads its code, so the message holds no internals, keys or backend addresses. */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  readonly code: ProviderErrorCode;
  readonly param: string | null;
  readonly backendCode: string | undefined;
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(code: ProviderErrorCode, message: string, options: ProviderErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param ?? null;
    this.backendCode = options.backendCode;
    this.extra = options.extra ?? {};
  }

  /** HTTP status of the code. */
  get status(): number {
    return providerErrorCodes[this.code].status;
  }

  /** The OpenAI-shaped body, as JSON text. */
  toBody(): string {
    const type = typeByStatus[this.status] ?? "invalid_request_error";
    return JSON.stringify({
      error: {
        message: this.message,
        type,
        param: this.param,
        code: this.code,
        ...(this.backendCode === undefined ? {} : { backend_code: this.backendCode }),
      },
      ...this.extra,
    });
  }
}
