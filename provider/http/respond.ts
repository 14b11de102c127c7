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
  if (request.complete) {
    sendJson(response, shown.status, shown.toBody(), headers);
    return;
  }
  refuseUnread(request, response, shown, headers);
}

/**
 * Answers while the request still comes. The whole answer goes out at once, but its end waits until the request is through or its
 * time is over: ending closes the connection, and closing it on unread bytes would reset it under the answer.
 */
function refuseUnread(
  request: IncomingMessage,
  response: ServerResponse,
  error: ProviderError,
  headers: Readonly<Record<string, string>>,
): void {
  const body = error.toBody();
  response.writeHead(error.status, {
    ...headers,
    connection: "close",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.write(body);
  const finish = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(finish, unreadMs);
  request.once("end", finish);
  request.once("close", finish);
  request.resume();
}
