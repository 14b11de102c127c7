import type { Pool } from "undici";
import { type ExchangeError, startExchange } from "./exchange.ts";

/** A short exchange: one request, one bounded answer. */
export interface ShortExchange {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the head, and for every silence after it, ms. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Answer of a short exchange. */
export interface ShortAnswer {
  readonly status: number;
  readonly text: string;
}

const maxBytes = 256 * 1024;

/** Sends a small request to a provider and reads a small answer. Rejects with `ExchangeError`. */
export function exchangeShort(pool: Pool, request: ShortExchange): Promise<ShortAnswer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    let status = 0;
    const exchange = startExchange(
      pool,
      {
        method: request.method,
        path: request.path,
        headers: { accept: "application/json", ...request.headers },
        ...(request.body === undefined ? {} : { body: Buffer.from(request.body) }),
        headTimeoutMs: request.timeoutMs,
        idleTimeoutMs: request.timeoutMs,
      },
      {
        onHead: (code) => {
          status = code;
        },
        onData: (chunk) => {
          parts.push(chunk);
          length += chunk.length;
          if (length > maxBytes) exchange.abort("too_large");
          return true;
        },
        onEnd: () => finish(() => resolve({ status, text: Buffer.concat(parts).toString("utf8") })),
        onError: (error: ExchangeError) => finish(() => reject(error)),
      },
    );
    const onAbort = (): void => exchange.abort();
    const finish = (settle: () => void): void => {
      request.signal?.removeEventListener("abort", onAbort);
      settle();
    };
    request.signal?.addEventListener("abort", onAbort, { once: true });
    if (request.signal?.aborted === true) onAbort();
  });
}
