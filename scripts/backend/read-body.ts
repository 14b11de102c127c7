import type { IncomingMessage } from "node:http";
import { T4tError } from "../../protocol/errors.ts";

/** Reads a request's body. Throws a `T4tError` as soon as it is known to be longer than the bound, or the signal's reason. */
export async function readBody(request: IncomingMessage, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const parts: Buffer[] = [];
  let length = 0;
  // Not for-await: leaving that loop early would destroy the socket before the error is answered.
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  request.on("data", (part: Buffer) => {
    length += part.length;
    if (length > maxBytes) {
      request.pause();
      reject(tooLarge(maxBytes));
    } else {
      parts.push(part);
    }
  });
  request.once("end", () => {
    resolve(Buffer.concat(parts));
  });
  request.once("error", reject);
  signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  return promise;
}

function tooLarge(maxBytes: number): T4tError {
  return new T4tError("request_too_large", `the body of the request is longer than ${maxBytes} bytes`);
}
