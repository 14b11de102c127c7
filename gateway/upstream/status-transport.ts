import type { OpenStatusStream, StatusTransport } from "../routing/status-stream.ts";
import type { ProviderConnections } from "./connections.ts";
import { parseEndpoint } from "./endpoint.ts";
import { type Exchange, ExchangeError, startExchange } from "./exchange.ts";

const headTimeoutMs = 10_000;
const silenceMs = 60_000;

/** Opens the providers' status streams through the gateway's own guarded connections. */
export class GuardedStatusTransport implements StatusTransport {
  readonly #connections: ProviderConnections;
  readonly #allowPrivate: boolean;

  constructor(options: { readonly connections: ProviderConnections; readonly allowPrivate: boolean }) {
    this.#connections = options.connections;
    this.#allowPrivate = options.allowPrivate;
  }

  async open(request: { readonly url: string; readonly signal: AbortSignal }): Promise<OpenStatusStream> {
    const url = new URL(request.url);
    const endpoint = parseEndpoint(url.origin, this.#allowPrivate);
    if (typeof endpoint === "string") throw new ExchangeError("closed_address");
    const chunks = new ChunkQueue();
    const { promise: opened, resolve, reject } = Promise.withResolvers<void>();
    const exchange: Exchange = startExchange(
      this.#connections.poolFor(endpoint.origin),
      {
        method: "GET",
        path: url.pathname,
        headers: { accept: "text/event-stream" },
        headTimeoutMs,
        idleTimeoutMs: silenceMs,
      },
      {
        onHead: (status, headers) => {
          if (status === 200 && (headers["content-type"] ?? "").startsWith("text/event-stream")) resolve();
          else exchange.abort("protocol");
        },
        onData: (chunk) => chunks.put(chunk),
        onEnd: () => {
          reject(new ExchangeError("cut"));
          chunks.end(undefined);
        },
        onError: (error) => {
          reject(error);
          chunks.end(error);
        },
      },
    );
    const onAbort = (): void => exchange.abort();
    request.signal.addEventListener("abort", onAbort, { once: true });
    if (request.signal.aborted) onAbort();
    await opened;
    return {
      body: chunks.read(() => exchange.resume()),
      roundTripMs: () => this.#connections.roundTripMs(endpoint.origin),
    };
  }
}

/** Chunks between a connection that pushes and a reader that pulls; holds one at a time. */
class ChunkQueue {
  #waiting: Buffer[] = [];
  #ended: { readonly error: Error | undefined } | undefined;
  #wake: () => void = () => undefined;

  /** False: enough for now. */
  put(chunk: Buffer): boolean {
    this.#waiting.push(chunk);
    this.#wake();
    return false;
  }

  end(error: Error | undefined): void {
    this.#ended ??= { error };
    this.#wake();
  }

  async *read(resume: () => void): AsyncGenerator<Buffer> {
    for (;;) {
      const chunk = this.#waiting.shift();
      if (chunk !== undefined) {
        yield chunk;
        continue;
      }
      if (this.#ended !== undefined) {
        if (this.#ended.error !== undefined) throw this.#ended.error;
        return;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      resume();
      await promise;
    }
  }
}
