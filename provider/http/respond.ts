import type { IncomingMessage, ServerResponse } from "node:http";
import { ProviderError } from "../errors.ts";

/** How long an unread request may go on after its answer before its connection is cut. */
const unreadMs = 2_000;

/** Sends a JSON text. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
  });
  response.end(body);
}

/**
 * Answers with an error, where an answer is still possible. A request whose body was not read closes its connection: nobody reads
 * the rest, and the next request on it would be lost.
 */
export function sendError(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  const shown = error instanceof ProviderError ? error : new ProviderError("internal_error", "the provider failed");
  if (response.headersSent) {
    if (!response.writableEnded) response.destroy();
    return;
  }
  const headers: Record<string, string> = {};
  if (shown.status === 503) headers["retry-after"] = "1";
  if (!request.complete) headers.connection = "close";
  sendJson(response, shown.status, shown.toBody(), headers);
  if (request.complete) return;
  // Reading on for a moment lets the answer arrive: closing on unread bytes would reset the connection under it.
  request.resume();
  const timer = setTimeout(() => request.destroy(), unreadMs);
  timer.unref();
  request.once("close", () => clearTimeout(timer));
}
