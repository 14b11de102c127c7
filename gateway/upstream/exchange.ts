import type { IncomingHttpHeaders } from "node:http";
import { type Dispatcher, errors, type Pool } from "undici";
import { ClosedAddressError } from "./guarded-lookup.ts";

/** How an exchange with a provider failed. A bounded word: also a metric label. */
export type ExchangeFailure =
  | "closed_address"
  | "unreachable"
  | "head_timeout"
  | "idle_timeout"
  | "cut"
  | "too_large"
  | "protocol"
  | "aborted";

/** An exchange that did not come to its end. */
export class ExchangeError extends Error {
  override readonly name = "ExchangeError";
  readonly failure: ExchangeFailure;
  /** The connection had served an earlier exchange and was closed under this one: most likely for having been idle. */
  readonly wasReused: boolean;
  /** No connection was there yet: the provider has heard nothing of it. */
  readonly wasUnsent: boolean;

  constructor(
    failure: ExchangeFailure,
    options: ErrorOptions & { readonly wasReused?: boolean; readonly wasUnsent?: boolean } = {},
  ) {
    super(`exchange with the provider: ${failure}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.failure = failure;
    this.wasReused = options.wasReused === true;
    this.wasUnsent = options.wasUnsent === true;
  }
}

/** One request to a provider. */
export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** Most ms until the answer's head. */
  readonly headTimeoutMs: number;
  /** Most ms without a byte of the answer's body. Not counted while paused. */
  readonly idleTimeoutMs: number;
}

/** Receives one answer. Exactly one of `onEnd` and `onError` is called, once, last, and never inside `exchange()` itself. */
export interface ExchangeHandler {
  onHead(status: number, headers: IncomingHttpHeaders): void;
  /** Takes at least one byte. False pauses the answer until `resume()`. */
  onData(chunk: Buffer): boolean;
  onEnd(): void;
  onError(error: ExchangeError): void;
}

/** A running exchange. */
export interface Exchange {
  /** Cuts the connection; `onError` follows with `aborted` unless the exchange is already over. May be called at any time. */
  abort(reason?: ExchangeFailure): void;
  pause(): void;
  resume(): void;
}

/**
 * Sends one request and hands the answer over as it comes, with back-pressure and an abort that works in every phase: also before
 * the connection is there, when nothing has been sent yet. Redirects are answers like any other.
 */
export function startExchange(pool: Pool, request: ExchangeRequest, handler: ExchangeHandler): Exchange {
  let controller: Dispatcher.DispatchController | undefined;
  let over = false;
  let returned = false;
  let abortedAs: ExchangeFailure | undefined;
  const fail = (failure: ExchangeFailure, cause?: unknown): void => {
    if (over) return;
    over = true;
    const wasReused = failure === "cut" && servedBefore(cause);
    const error = new ExchangeError(failure, { cause, wasReused, wasUnsent: controller === undefined });
    if (returned) handler.onError(error);
    else queueMicrotask(() => handler.onError(error));
  };
  const dispatchHandler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      if (abortedAs !== undefined) started.abort(new ExchangeError(abortedAs));
    },
    onResponseStart(_controller, status, headers) {
      if (over || status < 200) return;
      handler.onHead(status, headers);
    },
    onResponseData(current, chunk) {
      // A chunk of the body that is not here whole is told again, empty, at each `resume`: to pause for that and resume would never end.
      if (over || chunk.length === 0) return;
      if (!handler.onData(chunk)) current.pause();
    },
    onResponseEnd() {
      if (over) return;
      over = true;
      handler.onEnd();
    },
    onResponseError(_controller, error) {
      fail(abortedAs ?? classify(error), error);
    },
  };
  pool.dispatch(
    {
      method: request.method,
      path: request.path,
      headers: { ...request.headers },
      body: request.body ?? null,
      headersTimeout: request.headTimeoutMs,
      bodyTimeout: request.idleTimeoutMs,
    },
    dispatchHandler,
  );
  returned = true;
  return {
    abort(reason = "aborted") {
      if (over || abortedAs !== undefined) return;
      abortedAs = reason;
      if (controller === undefined) {
        // Still waiting for a connection: the caller need not wait with us, and nothing is sent when it comes.
        queueMicrotask(() => fail(reason));
      } else {
        controller.abort(new ExchangeError(reason));
      }
    },
    pause() {
      controller?.pause();
    },
    resume() {
      controller?.resume();
    },
  };
}

/** undici says of a closed socket what was read from it: before an answer's head only an earlier exchange can have. */
function servedBefore(error: unknown): boolean {
  return error instanceof errors.SocketError && (error.socket?.bytesRead ?? 0) > 0;
}

function classify(error: Error): ExchangeFailure {
  for (
    let current: unknown = error, depth = 0;
    current instanceof Error && depth < 4;
    current = current.cause, depth += 1
  ) {
    if (current instanceof ExchangeError) return current.failure;
    if (current instanceof ClosedAddressError) return "closed_address";
    const code = "code" in current && typeof current.code === "string" ? current.code : "";
    switch (code) {
      case "UND_ERR_HEADERS_TIMEOUT":
        return "head_timeout";
      case "UND_ERR_BODY_TIMEOUT":
        return "idle_timeout";
      case "UND_ERR_CONNECT_TIMEOUT":
      case "ECONNREFUSED":
      case "ENOTFOUND":
      case "EAI_AGAIN":
      case "EHOSTUNREACH":
      case "ENETUNREACH":
      case "ETIMEDOUT":
      case "ENODATA":
      case "ESERVFAIL":
      case "ETIMEOUT":
        return "unreachable";
      case "UND_ERR_HEADERS_OVERFLOW":
      case "UND_ERR_RES_EXCEEDED_MAX_SIZE":
        return "too_large";
      case "UND_ERR_SOCKET":
      case "ECONNRESET":
      case "EPIPE":
        return "cut";
      default:
        if (code.startsWith("HPE_") || code.startsWith("UND_ERR_RES")) return "protocol";
        if (
          code.startsWith("ERR_TLS") ||
          code.startsWith("CERT_") ||
          code.includes("SSL") ||
          code.includes("SELF_SIGNED")
        ) {
          return "unreachable";
        }
    }
    if (current instanceof AggregateError && current.errors[0] instanceof Error) return classify(current.errors[0]);
  }
  return "protocol";
}
