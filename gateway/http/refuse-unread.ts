import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../protocol/clock.ts";
import type { T4tError } from "../../protocol/errors.ts";

/** Bytes of the rest of a body that are thrown away so that the client gets to read the answer. */
const maxDiscardedBytes = 64 * 1024 * 1024;
const maxDiscardMs = 5000;

/**
 * Refuses a request whose body is not read. Closing at once would reset the connection under a client that still writes, and it would
 * never see the answer: so the answer goes out whole, the rest of the body is thrown away within bounds, then the connection closes.
 */
export function refuseUnread(request: IncomingMessage, response: ServerResponse, error: T4tError, clock: Clock): void {
  if (response.headersSent || response.destroyed) return;
  const body = Buffer.from(JSON.stringify(error.toBody()));
  response.writeHead(error.row.status, {
    "content-type": "application/json",
    "content-length": String(body.length),
    ...error.toHeaders(),
    connection: "close",
  });
  // A client that asked before sending sends nothing now.
  if (request.headers.expect !== undefined) {
    response.end(body);
    return;
  }
  response.write(body);
  let discarded = 0;
  const finish = (): void => {
    cancel();
    response.end();
  };
  const cancel = clock.after(maxDiscardMs, finish);
  request.on("data", (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded > maxDiscardedBytes) finish();
  });
  request.on("end", finish);
  request.on("close", finish);
  request.on("error", finish);
  request.resume();
}
