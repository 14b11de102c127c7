import { type ErrorCode, errorTable } from "../../protocol/errors.ts";

/**
 * A stranger's name of a request field as clients may see it, such as `messages[0].content`; undefined when it is anything else.
 */
export function publicParam(text: unknown): string | undefined {
  return typeof text === "string" && /^[a-z_][\w.[\]-]{0,63}$/i.test(text) ? text : undefined;
}

/**
 * A stranger's error code as clients may see it: a short word, and none of our own codes that speak of something else than the
 * request, such as `invalid_api_key`, which a client would act on.
 */
export function publicCode(text: unknown): string | undefined {
  if (typeof text !== "string" || !/^[a-z][\w.-]{0,63}$/i.test(text)) return undefined;
  if (Object.hasOwn(errorTable, text)) return errorTable[text as ErrorCode].status === 400 ? text : undefined;
  return text;
}
