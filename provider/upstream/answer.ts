import type { Dispatcher } from "undici";
import { ProviderError } from "../errors.ts";
import { type BackendConnection, backendFailure } from "./connection.ts";
import type { BackendHealth } from "./health.ts";
import { backendRejection } from "./rejection.ts";

/** Why a run was ended from outside. */
export type AbortCause = "gateway" | "deadline" | "first_byte_timeout" | "idle_timeout" | "stalled_reader" | "drain";

/** Ends a run from outside; the first cause counts. */
export class RunAbort {
  readonly #controller = new AbortController();
  #cause: AbortCause | undefined;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get cause(): AbortCause | undefined {
    return this.#cause;
  }

  abort(cause: AbortCause): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#controller.abort();
  }
}

/** A good answer's head. */
export type AnswerHead = Dispatcher.ResponseData;

/** Statuses of a backend that blame the request; others, such as a refused key or an unknown model, are this node's own fault. */
const callerStatuses: ReadonlySet<number> = new Set([400, 413, 415, 422]);
const maxErrorBytes = 64 * 1024;

/** A request for a backend. */
export interface BackendRequest {
  readonly path: string;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Sends a request and waits for the head of a good answer (2xx). All time limits are the caller's, through `abort`.
 *
 * @throws ProviderError: `backend_rejected` with the backend's own words when the request is at fault, `provider_busy` when the
 * backend says so (429), `backend_timeout`, or `backend_unavailable`.
 */
export async function openAnswer(
  backend: { readonly connection: BackendConnection; readonly health: BackendHealth },
  request: BackendRequest,
  abort: RunAbort,
): Promise<AnswerHead> {
  let head: AnswerHead;
  try {
    head = await backend.connection.call({
      method: "POST",
      path: request.path,
      headers: request.headers,
      body: request.body,
      signal: abort.signal,
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
    });
  } catch (error) {
    throw failureOf(error, abort, backend.health);
  }
  if (head.statusCode >= 200 && head.statusCode < 300) return head;
  const text = await readText(head);
  if (callerStatuses.has(head.statusCode)) throw backendRejection(text);
  // Busy is not broken: it costs the provider no reputation.
  if (head.statusCode === 429) throw new ProviderError("provider_busy", "the backend is busy");
  throw new ProviderError("backend_unavailable", "the backend failed", {
    cause: new Error(`the backend answered ${head.statusCode}`),
  });
}

/** The error of a call that broke, in public words. A backend that cannot be reached is marked down. */
export function failureOf(error: unknown, abort: RunAbort, health: BackendHealth): ProviderError {
  if (abort.cause !== undefined && abort.cause !== "gateway" && abort.cause !== "drain") {
    return new ProviderError("backend_timeout", "the backend did not answer in time", { cause: error });
  }
  const failure = backendFailure(error);
  if (failure === "unreachable") health.connectionFailed("the backend is unreachable");
  if (failure === "timeout")
    return new ProviderError("backend_timeout", "the backend did not answer in time", { cause: error });
  return new ProviderError("backend_unavailable", "the backend could not be reached", { cause: error });
}

async function readText(head: AnswerHead): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of head.body as AsyncIterable<Buffer>) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > maxErrorBytes) break;
    }
  } catch {
    // What came is enough: the status said it.
  }
  return Buffer.concat(pieces).toString("utf8");
}
