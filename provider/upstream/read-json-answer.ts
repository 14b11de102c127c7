import { ProviderError } from "../errors.ts";
import type { AnswerHead } from "./answer.ts";
import { parseObject } from "./usage-meter.ts";

/** Bound of a JSON answer: it is held whole, as its usage goes into a header. */
export const maxJsonAnswerBytes = 64 * 1024 * 1024;

/** A whole JSON answer. */
export interface JsonAnswer {
  /** As received. */
  readonly body: Buffer;
  readonly value: Record<string, unknown>;
  readonly contentType: string;
}

/**
 * Reads a JSON answer whole.
 *
 * @throws ProviderError `backend_unavailable` when it is too long, no JSON object, or an error in disguise; the body's own error when
 * it breaks.
 */
export async function readJsonAnswer(head: AnswerHead): Promise<JsonAnswer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of head.body as AsyncIterable<Buffer>) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > maxJsonAnswerBytes) throw bad("its answer is too long");
  }
  const body = Buffer.concat(pieces);
  const value = parseObject(body.toString("utf8"));
  if (value === undefined) throw bad("its answer is no JSON object");
  if (typeof value.error === "object" && value.error !== null) throw bad("its answer is an error");
  return { body, value, contentType: singleHeader(head.headers["content-type"]) ?? "application/json" };
}

/** A header's value where it came once. */
export function singleHeader(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function bad(what: string): ProviderError {
  return new ProviderError("backend_unavailable", "the backend failed", { cause: new Error(what) });
}
