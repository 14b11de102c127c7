import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/**
 * What the backend does with a request, named by the request's own `user` field, which passes through gateway and provider unread:
 * `silent` never answers; `headers` sends a head and nothing else; `drip` sends a token every 20 ms, without end; `flood` sends
 * `megabytes` as fast as they are taken, then ends as it should.
 */
export type BackendMode = "silent" | "headers" | "drip" | "flood";

/** One completion that the backend was asked for. */
export interface BackendCall {
  readonly mode: BackendMode;
  /** Settles when the connection is gone or the answer has ended. */
  readonly over: Promise<"gone" | "ended">;
  /** Bytes of the answer that were handed to the socket. */
  readonly written: number;
}

/** An OpenAI-compatible backend that misbehaves in time, not in form. */
export interface LiveBackend {
  readonly url: string;
  readonly calls: readonly BackendCall[];
  close(): Promise<void>;
}

const pieceBytes = 16 * 1024;

/** Starts the backend on a free loopback port. */
export async function startLiveBackend(model: string, megabytes: number): Promise<LiveBackend> {
  const calls: BackendCall[] = [];
  const server = createServer((request, response) => {
    if (request.method === "GET") {
      response.setHeader("content-type", "application/json");
      response.statusCode = request.url === "/v1/models" ? 200 : 404;
      response.end(JSON.stringify({ object: "list", data: [{ id: model, object: "model" }] }));
      return;
    }
    void serve(request, response);
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { user } = JSON.parse(Buffer.concat(parts).toString("utf8")) as { user: BackendMode };
    let written = 0;
    const over = once(response, "close").then(() =>
      response.writableFinished ? ("ended" as const) : ("gone" as const),
    );
    calls.push({
      mode: user,
      over,
      get written() {
        return written;
      },
    });
    if (user === "silent") return;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    if (user === "headers") return;
    const write = async (text: string): Promise<void> => {
      written += text.length;
      if (!response.write(text)) await Promise.race([once(response, "drain"), over]);
    };
    const choice = (delta: object, finish: string | null): string =>
      `data: ${JSON.stringify({ id: "live", object: "chat.completion.chunk", created: 1, model, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    const pieces = user === "drip" ? Number.MAX_SAFE_INTEGER : Math.ceil((megabytes * 1024 * 1024) / pieceBytes);
    const piece = choice({ content: user === "drip" ? " word" : "x".repeat(pieceBytes) }, null);
    let tokens = 0;
    for (; tokens < pieces && !response.destroyed; tokens += 1) {
      await write(piece);
      if (user === "drip") await delay(20);
    }
    if (response.destroyed) return;
    const usage = { prompt_tokens: 5, completion_tokens: tokens, total_tokens: tokens + 5 };
    await write(choice({}, "stop"));
    await write(`data: ${JSON.stringify({ id: "live", choices: [], usage })}\n\ndata: [DONE]\n\n`);
    response.end();
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
