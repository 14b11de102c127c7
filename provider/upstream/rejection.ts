import { ProviderError } from "../errors.ts";
import { parseObject } from "./usage-meter.ts";

/** Words by which backends say that prompt and answer do not fit, where they have no code for it. */
const contextWords = /context (?:length|size|window)|exceed_context_size/i;
/** Longest text of a backend's that is passed on as its message, and as its code or parameter. */
const maxMessage = 2000;
const maxWord = 64;

/** The backend's words on a bad request, for its author: message, parameter and code as far as it says them. */
export function backendRejection(text: string): ProviderError {
  const body = parseObject(text);
  const error = body?.error;
  const record = typeof error === "object" && error !== null ? (error as Record<string, unknown>) : body;
  const said = typeof error === "string" ? error : (record?.message ?? record?.detail);
  const message =
    typeof said === "string" && said !== "" ? said.slice(0, maxMessage) : "the backend refused the request";
  const param = wordOf(record?.param);
  const isContext = contextWords.test(message) || record?.type === "exceed_context_size_error";
  // One code for one fault, however the backend puts it: the client may shorten its prompt by it.
  const backendCode = isContext ? "context_length_exceeded" : wordOf(record?.code);
  return new ProviderError("backend_rejected", message, {
    ...(param === undefined ? {} : { param }),
    ...(backendCode === undefined ? {} : { backendCode }),
  });
}

function wordOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && value.length <= maxWord ? value : undefined;
}
