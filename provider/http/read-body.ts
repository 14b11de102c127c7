import type { IncomingMessage } from "node:http";
import { ProviderError } from "../errors.ts";

/** Bodies held in memory by all requests together. */
export class BodyBudget {
  readonly #maxBytes: number;
  #held = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Takes room; false when there is none. */
  take(bytes: number): boolean {
    if (this.#held + bytes > this.#maxBytes) return false;
    this.#held += bytes;
    return true;
  }

  /** Gives room back. */
  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** A body in memory. */
export interface HeldBody {
  readonly bytes: Buffer;
  /** Gives its room back; once the body is no longer needed. Further calls do nothing. */
  release(): void;
}

/**
 * Reads a request's body.
 *
 * @throws ProviderError `request_too_large` beyond `maxBytes` (at once when the length is announced), `provider_busy` when all bodies
 * together are too many, `invalid_request` when the body breaks off.
 */
export async function readBody(request: IncomingMessage, maxBytes: number, budget: BodyBudget): Promise<HeldBody> {
  const tooLarge = (): ProviderError =>
    new ProviderError("request_too_large", `the body is larger than ${maxBytes} bytes`);
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw tooLarge();
  // Not by iteration: leaving an iteration destroys the request, and with it the connection that the refusal must go out on.
  return await new Promise<HeldBody>((resolve, reject) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    let held = true;
    const release = (): void => {
      if (held) budget.give(bytes);
      held = false;
    };
    const stop = (): void => {
      request.off("data", onData);
      request.off("end", onEnd);
      request.off("error", onBreak);
      request.off("close", onBreak);
    };
    const fail = (error: ProviderError): void => {
      stop();
      release();
      reject(error);
    };
    const onData = (piece: Buffer): void => {
      if (bytes + piece.length > maxBytes) fail(tooLarge());
      else if (!budget.take(piece.length)) fail(new ProviderError("provider_busy", "too many requests are being read"));
      else {
        bytes += piece.length;
        pieces.push(piece);
      }
    };
    const onEnd = (): void => {
      stop();
      resolve({ bytes: pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces), release });
    };
    const onBreak = (): void => fail(new ProviderError("invalid_request", "the body broke off"));
    request.on("data", onData);
    request.once("end", onEnd);
    request.once("error", onBreak);
    request.once("close", onBreak);
  });
}
