import type { ServerResponse } from "node:http";
import { T4tError } from "../../protocol/errors.ts";

/** Sends a JSON answer whole. Does nothing when a head has gone already or the client has. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendBytes(response, status, Buffer.from(JSON.stringify(body)), "application/json", headers);
}

/** Sends bytes whole, with their length. */
export function sendBytes(
  response: ServerResponse,
  status: number,
  body: Buffer,
  contentType: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    "content-type": contentType,
    "content-length": String(body.length),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...headers,
  });
  response.end(body);
}

/** Sends an error in OpenAI's shape; anything that is not ours becomes `internal_error` without its details. */
export function sendError(
  response: ServerResponse,
  error: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const shown = publicError(error);
  sendJson(response, shown.row.status, shown.toBody(), { ...shown.toHeaders(), ...headers });
}

/** The error as clients may see it. */
export function publicError(error: unknown): T4tError {
  return error instanceof T4tError
    ? error
    : new T4tError("internal_error", "The gateway failed to handle the request.", { cause: error });
}
