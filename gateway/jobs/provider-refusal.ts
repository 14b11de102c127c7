import { isObject, type JsonObject } from "../openai/field-types.ts";
import { publicCode, publicParam } from "../relay/public-word.ts";
import { type ProviderErrorCode, providerErrorCodes } from "../../protocol/wire.ts";

/** A provider's answer that is not a 200, in our words. */
export interface ProviderRefusal {
  /** Bounded: a code of the wire protocol, or `http_<status class>`. */
  readonly code: ProviderErrorCode | "http_3xx" | "http_4xx" | "http_5xx" | "http_other";
  /**
   * `busy`: no place now. `rejected`: the client's request is at fault, no other provider will like it better. `mismatch`: gateway
   * and provider disagree about this job. `fault`: the provider is broken.
   */
  readonly kind: "busy" | "rejected" | "mismatch" | "fault";
  /** The provider's words, not yet fit for clients. */
  readonly message: string | undefined;
  /** The request field that it blames and the backend's code for it, as fit for clients. */
  readonly param: string | undefined;
  readonly backendCode: string | undefined;
}

/** Codes by which a provider passes on that the request itself is bad. */
const rejections: ReadonlySet<ProviderErrorCode> = new Set([
  "backend_rejected",
  "invalid_request",
  "request_too_large",
]);

/** Reads a refusal. Anything that does not speak our protocol is a fault, whatever its status. */
export function readRefusal(status: number, body: string): ProviderRefusal {
  const error = errorOf(body);
  const known = isObject(error) ? refusalOf(error) : undefined;
  if (known !== undefined) return known;
  const hundred = Math.floor(status / 100);
  return {
    code: hundred === 3 ? "http_3xx" : hundred === 4 ? "http_4xx" : hundred === 5 ? "http_5xx" : "http_other",
    kind: "fault",
    message: isObject(error) ? textOf(error.message) : undefined,
    param: undefined,
    backendCode: undefined,
  };
}

/** A refusal by its error object, also where that comes inside a stream; undefined when its code is not of our protocol. */
export function refusalOf(error: JsonObject): ProviderRefusal | undefined {
  const { code } = error;
  if (typeof code !== "string" || !isProviderErrorCode(code)) return undefined;
  const { kind } = providerErrorCodes[code];
  return {
    code,
    kind: kind !== "caller" ? kind : rejections.has(code) ? "rejected" : "mismatch",
    message: textOf(error.message),
    param: publicParam(error.param),
    backendCode: publicCode(error.backend_code),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function isProviderErrorCode(code: string): code is ProviderErrorCode {
  return Object.hasOwn(providerErrorCodes, code);
}

function errorOf(body: string): unknown {
  try {
    const json: unknown = JSON.parse(body);
    return isObject(json) ? json.error : undefined;
  } catch {
    return undefined;
  }
}
