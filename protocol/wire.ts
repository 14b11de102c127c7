import { type Hex, isHex } from "viem";
import type { Usage } from "./usage.ts";

/**
 * HTTP between gateway and provider node.
 *
 * `POST {endpoint}/v1/chat/completions` (also `/v1/completions`) with the OpenAI body and the three request headers. The provider
 * answers with `x-t4t-acknowledgement` as soon as it has taken the job, then the backend's bytes unchanged. The final usage
 * statement follows as the SSE comment `: t4t-usage {json}` after the last frame of a stream, or as the header `x-t4t-usage` of a
 * JSON answer. The gateway sends its receipt to `POST {endpoint}/v1/jobs/{jobId}/receipt`.
 *
 * A refusal has one of `providerErrorCodes` as `error.code` of its OpenAI-shaped body. A stream's head is sent with the
 * acknowledgement, before the backend has answered: when the backend then fails before its first byte, the same body follows as the
 * only `data:` block, without `[DONE]`. A stream that fails later is cut. With `backend_rejected` the message and `param` are the
 * backend's own, and `error.backend_code` is its code where it has one. `GET {endpoint}/v1/jobs/{jobId}` tells the provider's
 * usage of a cut stream.
 */
export const wireHeaders = {
  jobId: "x-t4t-job-id",
  /** `<expiresAt unix seconds>.<0x signature>` */
  authorization: "x-t4t-authorization",
  /** Block of the post's receipt, decimal: the provider reads the job at or after it. */
  blockNumber: "x-t4t-block-number",
  /** `0x signature` of the Acknowledgement. */
  acknowledgement: "x-t4t-acknowledgement",
  /** JSON of `UsageStatementWire`. */
  usage: "x-t4t-usage",
  requestId: "x-request-id",
} as const;

/** Starts the SSE comment that carries the usage statement. */
export const usageCommentPrefix = "t4t-usage ";

/** Error codes of a provider node; `busy` kinds never cost reputation, `caller` kinds are the gateway's own fault. */
export const providerErrorCodes = {
  provider_busy: { status: 503, kind: "busy" },
  provider_draining: { status: 503, kind: "busy" },
  invalid_authorization: { status: 401, kind: "caller" },
  job_not_found: { status: 404, kind: "caller" },
  job_not_open: { status: 409, kind: "caller" },
  job_already_started: { status: 409, kind: "caller" },
  model_not_offered: { status: 404, kind: "caller" },
  insufficient_payment: { status: 402, kind: "caller" },
  deadline_too_close: { status: 409, kind: "caller" },
  /** The receipt's signature is not the client's. */
  invalid_receipt: { status: 401, kind: "caller" },
  /** The receipt is for less than was delivered; the body carries our statement as `statement` (`UsageStatementWire`). */
  receipt_below_usage: { status: 409, kind: "caller" },
  unknown_url: { status: 404, kind: "caller" },
  invalid_request: { status: 400, kind: "caller" },
  request_too_large: { status: 413, kind: "caller" },
  backend_rejected: { status: 400, kind: "caller" },
  backend_unavailable: { status: 502, kind: "fault" },
  backend_timeout: { status: 504, kind: "fault" },
  chain_unavailable: { status: 503, kind: "fault" },
  internal_error: { status: 500, kind: "fault" },
} as const satisfies Record<string, { status: number; kind: "busy" | "caller" | "fault" }>;

export type ProviderErrorCode = keyof typeof providerErrorCodes;

/** The code of a provider node's error body; undefined when the value is no such body, such as a backend's own error. */
export function providerErrorCodeOf(body: unknown): ProviderErrorCode | undefined {
  if (typeof body !== "object" || body === null || !("error" in body)) return undefined;
  const { error } = body;
  if (typeof error !== "object" || error === null || !("code" in error) || typeof error.code !== "string")
    return undefined;
  return Object.hasOwn(providerErrorCodes, error.code) ? (error.code as ProviderErrorCode) : undefined;
}

/**
 * Final word of the provider on one answer. The body of `POST /v1/jobs/{jobId}/receipt` has the same shape, with the client's
 * signature of `Receipt`.
 */
export interface UsageStatementWire {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** SHA-256 of the answer's body as sent, without the usage comment. */
  readonly responseHash: Hex;
  /** Operator's signature of `UsageStatement`. */
  readonly signature: Hex;
}

/** Body of `GET /v1/jobs/{jobId}`: a job as its provider sees it. */
export interface ProviderJobWire {
  readonly jobId: Hex;
  /** `posted`, `accepted`, `delivered`, `receipted`, `settling`, `settled`, `declining`, `declined`, `forfeited` or `lost`. */
  readonly status: string;
  /** The provider's consent, once it has taken the job: a JSON answer's head, which carries it too, comes only when all is there. */
  readonly acknowledgement?: Hex;
  /** Usage as last journaled, while the answer runs. */
  readonly usage?: Usage;
  /** Once the answer ended. */
  readonly statement?: UsageStatementWire;
  /** The answer was cut before its end. */
  readonly partial?: boolean;
  /** Wei paid, decimal, once settled. */
  readonly payment?: string;
  readonly transactionHash?: Hex;
}

/** Text of the authorisation header. */
export function encodeAuthorization(value: { readonly expiresAt: number; readonly signature: Hex }): string {
  return `${value.expiresAt}.${value.signature}`;
}

/** Reads the authorisation header; undefined when it is malformed. */
export function decodeAuthorization(
  text: string | undefined,
): { readonly expiresAt: number; readonly signature: Hex } | undefined {
  const match = /^(\d{1,12})\.(0x(?:[0-9a-fA-F]{2}){1,8192})$/.exec(text ?? "");
  if (match?.[1] === undefined || match[2] === undefined) return undefined;
  return { expiresAt: Number(match[1]), signature: match[2] as Hex };
}

/** Reads a usage statement or receipt from JSON text; undefined when it is malformed. */
export function decodeDelivered(text: string): UsageStatementWire | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const record = value as Record<string, unknown>;
  const { inputTokens, outputTokens, responseHash, signature } = record;
  if (!isTokenCount(inputTokens) || !isTokenCount(outputTokens)) return undefined;
  if (!isHex(responseHash) || responseHash.length !== 66) return undefined;
  if (!isHex(signature) || !isSignature(signature)) return undefined;
  return { inputTokens, outputTokens, responseHash, signature };
}

/** JSON text of a usage statement or receipt. */
export function encodeDelivered(usage: Usage, responseHash: Hex, signature: Hex): string {
  return JSON.stringify({ inputTokens: usage.inputTokens, outputTokens: usage.outputTokens, responseHash, signature });
}

/** Whole bytes, at least one, at most 8 KiB: a contract wallet's signature may be long. */
function isSignature(hex: Hex): boolean {
  return hex.length >= 4 && hex.length <= 2 + 2 * 8192 && hex.length % 2 === 0;
}

function isTokenCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
