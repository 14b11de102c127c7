import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";

/** One thing that a scripted upstream does. Every byte of its answer is written by the script, so that it can be as wrong as it likes. */
export type Step =
  /** Writes bytes as they are, cut at the given offsets into packets of their own. */
  | { readonly kind: "bytes"; readonly bytes: Uint8Array; readonly cuts: readonly number[] }
  /** Goes on when the promise settles. */
  | { readonly kind: "hold"; readonly until: Promise<unknown> }
  /** Waits for the client to leave. */
  | { readonly kind: "hang" }
  /** Ends the connection in an orderly way (FIN). */
  | { readonly kind: "close" }
  /** Breaks the connection (RST). */
  | { readonly kind: "reset" };

export type Script = readonly Step[];

/** What a client sent. */
export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The connection on which it came, from 1. */
  readonly connection: number;
  /** Settles when the connection is gone, whoever ended it. */
  readonly gone: Promise<void>;
  /** Settles when the script has come to its end, or was left by the client. */
  readonly played: Promise<void>;
}

/** An HTTP server that answers by a script. */
export interface ScriptedUpstream {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Requests so far, in order. */
  readonly requests: readonly ReceivedRequest[];
  /** Connections used so far. */
  readonly connections: number;
  /** The request with this index, once it has arrived. */
  request(index: number): Promise<ReceivedRequest>;
  close(): Promise<void>;
}

/** Which script answers a request; `index` counts from 0. */
export type ChooseScript = (request: ReceivedRequest, index: number) => Script;

/** Starts a scripted upstream on a free loopback port. A connection is kept after a script that neither closes nor resets it. */
export async function startScriptedUpstream(answer: Script | ChooseScript): Promise<ScriptedUpstream> {
  const choose: ChooseScript = typeof answer === "function" ? answer : () => answer;
  const requests: ReceivedRequest[] = [];
  const sockets = new Map<Socket, number | undefined>();
  let connections = 0;
  let arrived = Promise.withResolvers<void>();
  // Only for parsing requests; answers bypass it.
  const server = createServer({ keepAlive: false, requestTimeout: 0, headersTimeout: 0 }, (incoming) => {
    void serve(incoming);
  });
  server.on("connection", (socket) => {
    sockets.set(socket, undefined);
    socket.setNoDelay(true);
    // Each request of a kept connection waits for its end.
    socket.setMaxListeners(0);
    // A client that resets the connection is part of the play.
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  async function serve(incoming: IncomingMessage): Promise<void> {
    const { socket } = incoming;
    if (incoming.url?.endsWith("/v1/status/events") === true) {
      // Gateways follow it beside every job. A scripted provider has none, and it is no part of the play.
      socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
      return;
    }
    // Not `once` of node:events: that rejects when a client resets the connection.
    const gone = new Promise<void>((resolve) => {
      if (socket.destroyed) resolve();
      else socket.once("close", () => resolve());
    });
    const known = sockets.get(socket);
    if (known === undefined) connections += 1;
    const connection = known ?? connections;
    sockets.set(socket, connection);
    const played = Promise.withResolvers<void>();
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    const whole = await Promise.race([once(incoming, "end").then(() => true), gone.then(() => false)]);
    if (!whole) return;
    const request: ReceivedRequest = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: Buffer.concat(parts).toString("utf8"),
      connection,
      gone,
      played: played.promise,
    };
    const index = requests.push(request) - 1;
    arrived.resolve();
    arrived = Promise.withResolvers<void>();
    await play(choose(request, index), socket, gone);
    played.resolve();
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get connections() {
      return connections;
    },
    async request(index) {
      for (;;) {
        const request = requests[index];
        if (request !== undefined) return request;
        await arrived.promise;
      }
    },
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets.keys()) socket.destroy();
      await closed;
    },
  };
}

async function play(script: Script, socket: Socket, gone: Promise<void>): Promise<void> {
  for (const step of script) {
    if (socket.destroyed) return;
    switch (step.kind) {
      case "bytes":
        await writeInPieces(socket, step.bytes, step.cuts, gone);
        break;
      case "hold":
        await Promise.race([step.until.catch(() => undefined), gone]);
        break;
      case "hang":
        await gone;
        break;
      case "close":
        socket.end();
        await gone;
        break;
      case "reset":
        socket.resetAndDestroy();
        break;
    }
  }
}

async function writeInPieces(
  socket: Socket,
  bytes: Uint8Array,
  cuts: readonly number[],
  gone: Promise<void>,
): Promise<void> {
  const edges = [0, ...cuts, bytes.length];
  for (const [index, from] of edges.slice(0, -1).entries()) {
    const piece = bytes.subarray(from, edges[index + 1]);
    const { promise: flushed, resolve } = Promise.withResolvers<void>();
    socket.write(piece, () => {
      resolve();
    });
    await Promise.race([flushed, gone]);
    // Gives a reader in this process the chance to see the piece alone.
    await nextTurn();
    await nextTurn();
  }
}

/** Bytes as they are. */
export function raw(bytes: string | Uint8Array, cuts: readonly number[] = []): Step {
  return { kind: "bytes", bytes: toBytes(bytes), cuts };
}

/** Status line and headers. Without a content length, or a transfer encoding of its own, the body is chunked. */
export function head(status: number, headers: Readonly<Record<string, string>> = {}): Step {
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  const framed = names.includes("content-length") || names.includes("transfer-encoding");
  const lines = Object.entries(framed ? headers : { ...headers, "transfer-encoding": "chunked" }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return raw(`HTTP/1.1 ${status} Scripted\r\n${lines.join("")}\r\n`);
}

/** A part of a chunked body, as one HTTP chunk for each piece between the cuts. */
export function chunk(bytes: string | Uint8Array, cuts: readonly number[] = []): Step {
  const whole = toBytes(bytes);
  const edges = [0, ...cuts, whole.length];
  const pieces: Buffer[] = [];
  const packets: number[] = [];
  for (const [index, from] of edges.slice(0, -1).entries()) {
    const piece = whole.subarray(from, edges[index + 1]);
    const framed = [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")];
    pieces.push(Buffer.concat(framed));
    packets.push((packets.at(-1) ?? 0) + (pieces.at(-1)?.length ?? 0));
  }
  return raw(Buffer.concat(pieces), packets.slice(0, -1));
}

/** The last chunk of a chunked body. */
export const end: Step = raw("0\r\n\r\n");
export const hang: Step = { kind: "hang" };
export const close: Step = { kind: "close" };
export const reset: Step = { kind: "reset" };

/** Goes on when the promise settles. */
export function hold(until: Promise<unknown>): Step {
  return { kind: "hold", until };
}

function toBytes(bytes: string | Uint8Array): Buffer {
  return typeof bytes === "string" ? Buffer.from(bytes, "utf8") : Buffer.from(bytes);
}
