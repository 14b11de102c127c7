import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Hex } from "viem";
import { isJobId, type JobHeaders, readJobHeaders, requestIdOf } from "../admission/request-headers.ts";
import { ProviderError } from "../errors.ts";
import type { StatusService } from "../statistics/status-service.ts";
import { BodyBudget, readBody } from "./read-body.ts";
import { sendError, sendJson } from "./respond.ts";
import { serveStatusEvents } from "./status-events.ts";

/** What the server serves. */
export interface ProviderHandlers {
  /** Checks that need no body; throws the refusal. */
  precheck(headers: JobHeaders): void;
  /** Runs a request to the end of its answer, or throws a refusal before the answer began. `signal` aborts when the gateway goes. */
  run(call: RunCall): Promise<void>;
  /** JSON text of a job; undefined when it is unknown. */
  job(jobId: Hex): Promise<string | undefined>;
  /** Takes a receipt; JSON text of the job then. */
  receipt(jobId: Hex, text: string): Promise<string>;
  status(): StatusService;
  /** Why no request can be admitted now; undefined when one can. */
  notReady(): string | undefined;
  metrics(): Promise<string>;
  mint(): string;
  /** A request ended in an error. */
  refused(error: unknown): void;
}

/** One request for a completion, body read. */
export interface RunCall {
  readonly headers: JobHeaders;
  readonly body: Buffer;
  readonly path: string;
  readonly requestId: string;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

/** Bounds of the server, in bytes and ms. */
export interface ServerLimits {
  readonly maxBodyBytes: number;
  /** Of all bodies in memory together. */
  readonly maxHeldBytes: number;
  /** Most time for a whole request to arrive. */
  readonly requestTimeoutMs: number;
}

export const defaultServerLimits: ServerLimits = {
  maxBodyBytes: 20 * 1024 * 1024,
  maxHeldBytes: 512 * 1024 * 1024,
  requestTimeoutMs: 120_000,
};

/** An authorisation may be a contract wallet's long signature. */
const maxHeaderBytes = 32 * 1024;
const maxReceiptBytes = 64 * 1024;
/** Above the keep-alive of common balancers, so that they and not we close idle connections. */
const keepAliveMs = 75_000;

/** A listening server. */
export interface ProviderServer {
  readonly host: string;
  readonly port: number;
  /** Stops listening and cuts what is still open. */
  close(): Promise<void>;
}

const completionPaths: ReadonlySet<string> = new Set(["/v1/chat/completions", "/v1/completions"]);

/** Opens the node's port. Rejects when the address cannot be had. */
export async function openServer(
  host: string,
  port: number,
  handlers: ProviderHandlers,
  limits: ServerLimits = defaultServerLimits,
): Promise<ProviderServer> {
  const budget = new BodyBudget(limits.maxHeldBytes);
  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      requestTimeout: limits.requestTimeoutMs,
      headersTimeout: Math.min(20_000, limits.requestTimeoutMs),
      keepAliveTimeout: keepAliveMs,
      noDelay: true,
    },
    (request, response) => {
      // A gateway that leaves is seen by `close`; its error says nothing more.
      response.on("error", () => undefined);
      request.on("error", () => undefined);
      route({ request, response, handlers, limits, budget }).catch((error: unknown) => {
        handlers.refused(error);
        sendError(request, response, error);
      });
    },
  );
  server.on("clientError", refuseMalformed);
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  return {
    host,
    port: address.port,
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly handlers: ProviderHandlers;
  readonly limits: ServerLimits;
  readonly budget: BodyBudget;
}

async function route(exchange: Exchange): Promise<void> {
  const { request, response, handlers } = exchange;
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
  if (request.method === "POST") {
    if (completionPaths.has(path)) {
      await complete(exchange, path);
      return;
    }
    const jobId = jobIdIn(path, "/receipt");
    if (jobId !== undefined) {
      await takeReceipt(exchange, jobId);
      return;
    }
  } else if (request.method === "GET") {
    const jobId = jobIdIn(path, "");
    if (jobId !== undefined) {
      const job = await handlers.job(jobId);
      if (job === undefined) throw new ProviderError("job_not_found", "the provider does not know the job");
      sendJson(response, 200, job);
      return;
    }
    if (await serveState(exchange, path)) return;
  }
  throw new ProviderError("unknown_url", "there is nothing at this URL and method");
}

async function serveState({ response, handlers }: Exchange, path: string): Promise<boolean> {
  switch (path) {
    case "/v1/status":
      sendJson(response, 200, JSON.stringify(await handlers.status().current()));
      return true;
    case "/v1/status/events":
      serveStatusEvents(handlers.status(), response);
      return true;
    case "/healthz":
      sendJson(response, 200, '{"status":"ok"}');
      return true;
    case "/readyz": {
      const reason = handlers.notReady();
      sendJson(response, reason === undefined ? 200 : 503, JSON.stringify({ ready: reason === undefined, reason }));
      return true;
    }
    case "/metrics": {
      const page = await handlers.metrics();
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
      response.end(page);
      return true;
    }
    default:
      return false;
  }
}

async function complete({ request, response, handlers, limits, budget }: Exchange, path: string): Promise<void> {
  const headers = readJobHeaders(request.headers);
  handlers.precheck(headers);
  const body = await readBody(request, limits.maxBodyBytes, budget);
  const gone = new AbortController();
  const onClose = (): void => gone.abort();
  response.once("close", onClose);
  try {
    await handlers.run({
      headers,
      body: body.bytes,
      path,
      requestId: requestIdOf(request.headers, () => handlers.mint()),
      response,
      signal: gone.signal,
    });
  } finally {
    response.off("close", onClose);
    body.release();
  }
}

async function takeReceipt({ request, response, handlers, budget }: Exchange, jobId: Hex): Promise<void> {
  const body = await readBody(request, maxReceiptBytes, budget);
  try {
    sendJson(response, 200, await handlers.receipt(jobId, body.bytes.toString("utf8")));
  } finally {
    body.release();
  }
}

function jobIdIn(path: string, suffix: string): Hex | undefined {
  if (!path.startsWith("/v1/jobs/") || !path.endsWith(suffix)) return undefined;
  const text = path.slice("/v1/jobs/".length, path.length - suffix.length);
  return isJobId(text) ? (text.toLowerCase() as Hex) : undefined;
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** What is no HTTP gets an answer in the shape of all others, then the connection ends. */
function refuseMalformed(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const isTooLarge = error.code === "HPE_HEADER_OVERFLOW";
  const isTimeout = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
  const status = isTooLarge
    ? "431 Request Header Fields Too Large"
    : isTimeout
      ? "408 Request Timeout"
      : "400 Bad Request";
  const body = new ProviderError("invalid_request", "the request is not valid HTTP").toBody();
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
