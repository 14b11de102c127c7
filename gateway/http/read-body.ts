import type { IncomingMessage } from "node:http";
import { T4tError } from "../../protocol/errors.ts";

/** The client went before its request was whole. Nobody is left to answer. */
export class ClientGoneError extends Error {
  override readonly name = "ClientGoneError";

  constructor() {
    super("the client closed the connection");
  }
}

/** `request_too_large` for a body beyond `maxBytes`. */
export function bodyTooLarge(maxBytes: number): T4tError {
  return new T4tError("request_too_large", `The request body is larger than ${maxBytes} bytes.`);
}

/** Whether the request announces a body beyond the bound. */
export function announcesTooMuch(request: IncomingMessage, maxBytes: number): boolean {
  return Number(request.headers["content-length"] ?? 0) > maxBytes;
}

/**
 * Reads a request body whole. Throws `request_too_large` as soon as the bound is passed (by the announced length, before a byte is
 * read), leaving the rest unread; `ClientGoneError` when the client goes.
 */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (announcesTooMuch(request, maxBytes)) return Promise.reject(bodyTooLarge(maxBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const finish = (): void => {
      request.off("data", onData);
      request.off("end", onEnd);
      request.off("error", onGone);
      request.off("close", onGone);
    };
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      if (length > maxBytes) {
        finish();
        request.pause();
        reject(bodyTooLarge(maxBytes));
        return;
      }
      chunks.push(chunk);
    };
    const onEnd = (): void => {
      finish();
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, length));
    };
    const onGone = (): void => {
      finish();
      reject(new ClientGoneError());
    };
    request.on("data", onData);
    request.on("end", onEnd);
    request.on("error", onGone);
    request.on("close", onGone);
  });
}
