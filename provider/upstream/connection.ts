import { Client, type Dispatcher, errors, Pool } from "undici";
import type { BackendConfig } from "./backend-config.ts";

/** One request to a backend. */
export interface BackendCall {
  readonly method: "GET" | "POST";
  /** Path from the base, such as `/v1/chat/completions`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly signal: AbortSignal;
  /** Most ms until the answer's headers; 0 = no bound. */
  readonly headersTimeoutMs: number;
  /** Most ms between two pieces of the body; 0 = no bound. */
  readonly bodyTimeoutMs: number;
}

/** Keep-alive below the 5 s after which common servers close an idle connection: else a request meets a closing socket. */
const keepAliveMs = 4_000;
const clientOptions = {
  pipelining: 1,
  keepAliveTimeout: keepAliveMs,
  keepAliveMaxTimeout: 60_000,
  connect: { timeout: 5_000 },
} as const;

/** The pooled connections to one backend. */
export class BackendConnection {
  readonly config: BackendConfig;
  readonly #origin: string;
  readonly #pool: Pool;
  readonly #basePath: string;

  constructor(config: BackendConfig) {
    this.config = config;
    const url = new URL(config.url);
    this.#basePath = url.pathname === "/" ? "" : url.pathname;
    this.#origin = url.origin;
    this.#pool = new Pool(url.origin, { connections: null, ...clientOptions });
  }

  /**
   * Sends a request. Only our own headers go out: nothing of a gateway's request reaches the backend but the body. The caller must
   * read or destroy the body. Rejects with undici's errors; redirects are not followed.
   *
   * A backend may close an idle connection in the moment in which a request is put on it. A kept connection that ends before a byte
   * of the answer's head says that, and the request is sent once more on a connection of its own.
   */
  async call(call: BackendCall): Promise<Dispatcher.ResponseData> {
    try {
      return await this.#send(this.#pool, call);
    } catch (error) {
      if (!wasStale(error) || call.signal.aborted) throw error;
    }
    const fresh = new Client(this.#origin, clientOptions);
    try {
      return await this.#send(fresh, call);
    } finally {
      // Ends with the answer's body, not before.
      void fresh.close();
    }
  }

  async #send(dispatcher: Dispatcher, call: BackendCall): Promise<Dispatcher.ResponseData> {
    const key = this.config.apiKey?.reveal();
    return await dispatcher.request({
      method: call.method,
      path: `${this.#basePath}${call.path}`,
      headers: { ...call.headers, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: call.body ?? null,
      signal: call.signal,
      headersTimeout: call.headersTimeoutMs,
      bodyTimeout: call.bodyTimeoutMs,
    });
  }

  /** Closes when the streams that run have ended. */
  async close(): Promise<void> {
    await this.#pool.close();
  }

  /** Closes at once. */
  async destroy(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** How a call to a backend failed. */
export type BackendFailure = "unreachable" | "timeout" | "cut" | "aborted";

const unreachable: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Whether a connection that had served an earlier call was closed under this one: undici tells what was read from it. */
function wasStale(error: unknown): boolean {
  return error instanceof errors.SocketError && (error.socket?.bytesRead ?? 0) > 0;
}

/** Tells the failures of a call apart by their codes. */
export function backendFailure(error: unknown): BackendFailure {
  const code = codeOf(error);
  if (code === "UND_ERR_ABORTED" || (error instanceof Error && error.name === "AbortError")) return "aborted";
  if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT") return "timeout";
  return code !== undefined && unreachable.has(code) ? "unreachable" : "cut";
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : undefined;
}
