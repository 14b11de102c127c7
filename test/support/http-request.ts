import { type IncomingHttpHeaders, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";

/** A whole answer to one request. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** One request, sent as it is: no header is added but `Host`, `Connection: close` and the body's framing. */
export interface HttpSend {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent in these pieces; with `chunked`, or of their length together. */
  readonly body?: readonly Uint8Array[];
  readonly chunked?: boolean;
}

/** Sends one request over a connection of its own, with a target that no client library tidies up, and reads the whole answer. */
export async function sendHttp(base: string, target: string, send: HttpSend = {}): Promise<HttpAnswer> {
  const { hostname, port } = new URL(base);
  const body = send.body ?? [];
  const length = body.reduce((sum, piece) => sum + piece.length, 0);
  return await new Promise<HttpAnswer>((resolve, reject) => {
    const request = httpRequest({
      hostname,
      port,
      path: target,
      method: send.method ?? "GET",
      agent: false,
      headers: {
        ...(send.chunked === true
          ? { "transfer-encoding": "chunked" }
          : body.length === 0
            ? {}
            : { "content-length": String(length) }),
        ...send.headers,
      },
    });
    let answered = false;
    request.once("response", (response) => {
      answered = true;
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(parts).toString("utf8"),
        }),
      );
    });
    // A server that has answered may close while the rest of a body is still on its way.
    request.on("error", (error) => {
      if (!answered) reject(error);
    });
    for (const piece of body) request.write(piece);
    request.end();
  });
}

/** A plain connection: what is written goes out as it is. */
export interface RawConnection {
  readonly socket: Socket;
  write(text: string | Uint8Array): void;
  /** All that came until the other side closed, as text. */
  readonly received: Promise<string>;
}

/** Opens a plain connection to the host and port of a URL. */
export async function openRaw(base: string): Promise<RawConnection> {
  const { hostname, port } = new URL(base);
  const socket = connect({ host: hostname, port: Number(port) });
  const parts: Buffer[] = [];
  const received = new Promise<string>((resolve) => {
    socket.on("data", (part: Buffer) => parts.push(part));
    // A reset after the answer is a close like any other.
    socket.on("error", () => undefined);
    socket.once("close", () => resolve(Buffer.concat(parts).toString("utf8")));
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return { socket, received, write: (text) => void socket.write(text) };
}

/** Reads one answer out of the text that a plain connection received. */
export function parseAnswer(text: string): HttpAnswer {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [statusLine = "", ...lines] = head.split("\r\n");
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return { status: Number(statusLine.split(" ")[1]), headers, text: rest.join("\r\n\r\n") };
}
