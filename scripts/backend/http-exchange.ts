import type { IncomingMessage, ServerResponse } from "node:http";
import { T4tError } from "../../protocol/errors.ts";

/** The path of a request without its query. */
export function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

/** A model id out of a path: it may hold slashes, raw or as %2F. Malformed escapes stay as they are. */
export function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The client's own request id where it is short and printable. */
export function requestIdOf(request: IncomingMessage): string | undefined {
  const id = request.headers["x-request-id"];
  return typeof id === "string" && /^[\x21-\x7e]{1,128}$/.test(id) ? id : undefined;
}

/** Throws a `T4tError` when the request has another method. */
export function requireMethod(request: IncomingMessage, method: "GET" | "POST"): void {
  if (request.method === method) return;
  throw new T4tError("method_not_allowed", `${pathOf(request)} takes ${method} only`);
}

/** Sends a JSON text as the whole answer. */
export function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}
