import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "../../protocol/clock.ts";
import { T4tError } from "../../protocol/errors.ts";
import type { ApiKeys } from "./api-keys.ts";
import { refuseForeignPages } from "./browser-guard.ts";
import { announcesTooMuch, bodyTooLarge, ClientGoneError } from "./read-body.ts";
import { refuseUnread } from "./refuse-unread.ts";
import { requestIdOf } from "./request-id.ts";
import { publicError, sendError } from "./respond.ts";
import { allowedMethods, type Route, type RouteName, routeOf } from "./router.ts";

/** One request with what was found out about it before its handler runs. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly requestId: string;
  /** The client chose the id itself. */
  readonly requestIdGiven: boolean;
  /** Digest prefix of the caller's API key; null when there are no keys. */
  readonly owner: string | null;
}

/** Answers one route. What it throws is sent as an error as long as no head has gone. */
export type RouteHandler = (exchange: HttpExchange) => Promise<void> | void;

/** Options of `startHttpServer`. */
export interface HttpServerOptions {
  readonly host: string;
  readonly port: number;
  readonly keys: ApiKeys;
  /** Refuse what only web pages of other origins send. */
  readonly guardPages: boolean;
  readonly maxBodyBytes: number;
  readonly clock: Clock;
  readonly handlers: Readonly<Record<RouteName, RouteHandler>>;
  mintRequestId(): string;
  /** Told of every answer, for logs and metrics. */
  readonly onAnswer: (
    exchange: Pick<HttpExchange, "request" | "response" | "requestId">,
    route: RouteName | "none",
    error: unknown,
    tookMs: number,
  ) => void;
}

/** A listening server. */
export interface HttpServer {
  readonly url: string;
  /** Accepts no new connections; resolves when the last one has ended. */
  close(): Promise<void>;
  /** Cuts what is still open. */
  destroy(): void;
}

/** Routes that anybody may ask: they say nothing but whether the gateway lives. */
const openRoutes: ReadonlySet<RouteName> = new Set(["healthz", "readyz"]);

/** Above the idle time of any common load balancer (600 s), so that it is never we who drop a connection under its request. */
const keepAliveMs = 620_000;

/** Starts the HTTP server of the gateway. Rejects when the address cannot be listened on. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const server = createServer({ keepAliveTimeout: keepAliveMs, requestTimeout: 300_000, headersTimeout: 60_000 });
  server.timeout = 0;
  const serve = (request: IncomingMessage, response: ServerResponse): void => void answer(options, request, response);
  server.on("request", serve);
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    // A client that asks before it sends is told no before it sends.
    if (!announcesTooMuch(request, options.maxBodyBytes)) response.writeContinue();
    serve(request, response);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => refuseGarbage(options, error, socket));
  await listen(server, options.host, options.port);
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") && !options.host.startsWith("[") ? `[${options.host}]` : options.host;
  return {
    url: `http://${host === "0.0.0.0" ? "127.0.0.1" : host === "[::]" ? "[::1]" : host}:${port}`,
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
    },
    destroy: () => server.closeAllConnections(),
  };
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  const bare = host.startsWith("[") && host.endsWith("]") ? host.slice(1, -1) : host;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, bare, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function answer(options: HttpServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const began = options.clock.monotonic();
  const given = request.headers["x-request-id"];
  const requestId = requestIdOf(given, () => options.mintRequestId());
  response.setHeader("x-request-id", requestId);
  // A client that goes while its answer is written is no error of ours.
  response.on("error", () => undefined);
  let route: Route | undefined;
  let failure: unknown;
  try {
    route = findRoute(request, response);
    let owner: string | null = null;
    if (!openRoutes.has(route.name)) {
      if (options.guardPages) refuseForeignPages(request.headers);
      owner = options.keys.check(request.headers.authorization);
    }
    await options.handlers[route.name]({
      request,
      response,
      route,
      requestId,
      requestIdGiven: requestId === given,
      owner,
    });
  } catch (error) {
    failure = error;
    refuse(options, request, response, error);
  }
  options.onAnswer({ request, response, requestId }, route?.name ?? "none", failure, options.clock.monotonic() - began);
}

function findRoute(request: IncomingMessage, response: ServerResponse): Route {
  const method = request.method ?? "GET";
  const target = request.url ?? "/";
  try {
    return routeOf(method, target);
  } catch (error) {
    if (error instanceof T4tError && error.code === "method_not_allowed") {
      response.setHeader("allow", allowedMethods(target));
    }
    throw error;
  }
}

function refuse(options: HttpServerOptions, request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (error instanceof ClientGoneError) {
    response.destroy();
    return;
  }
  if (response.headersSent) {
    // Too late for a status; an end without its last bytes is the only honest sign left.
    response.destroy();
    return;
  }
  const shown = publicError(error);
  const unread = !request.complete && Number(request.headers["content-length"] ?? Number.MAX_SAFE_INTEGER) > 0;
  if (shown.code === "request_too_large" || (unread && announcesTooMuch(request, options.maxBodyBytes))) {
    refuseUnread(
      request,
      response,
      shown.code === "request_too_large" ? shown : bodyTooLarge(options.maxBodyBytes),
      options.clock,
    );
    return;
  }
  sendError(response, shown);
}

/** What is not HTTP, or never became a whole request, still gets an answer in our shape, where the socket takes one. */
function refuseGarbage(options: HttpServerOptions, error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = garbageAnswers[error.code ?? ""] ?? notHttp;
  const body = JSON.stringify(new T4tError("invalid_value", message).toBody());
  const headers = [
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${options.mintRequestId()}`,
    "connection: close",
  ];
  socket.end(`HTTP/1.1 ${status}\r\n${headers.join("\r\n")}\r\n\r\n${body}`);
}

const notHttp = { status: "400 Bad Request", message: "The request is not valid HTTP." };
const garbageAnswers: Readonly<Record<string, { readonly status: string; readonly message: string }>> = {
  HPE_HEADER_OVERFLOW: {
    status: "431 Request Header Fields Too Large",
    message: "The request's headers are too large.",
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: "408 Request Timeout", message: "The request did not arrive in time." },
};
