import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** One call inside a request body. */
export interface ProxiedCall {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** What the proxy does to a call instead of, or before, handing it on. A batch suffers the first fault among its calls whole. */
export type RpcFault =
  /** The HTTP answer of an overloaded or broken endpoint. */
  | { readonly kind: "http"; readonly status: number }
  /** A JSON-RPC error. */
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly data?: unknown }
  /** The connection is cut before the call reaches the node. */
  | { readonly kind: "drop" }
  /** The node does what it is told, but its answer is lost. */
  | { readonly kind: "drop-answer" }
  /** Never answers. */
  | { readonly kind: "hang" }
  /** Answers later. */
  | { readonly kind: "delay"; readonly ms: number }
  /** Answers with another result. */
  | { readonly kind: "result"; readonly result: unknown };

/** A proxy in front of a node that counts and spoils calls. */
export interface RpcProxy {
  readonly url: string;
  /** Calls so far by method; a batch counts each of its calls. */
  readonly counts: ReadonlyMap<string, number>;
  readonly total: number;
  count(method: string): number;
  reset(): void;
  /** Decides the fault of each call; undefined lets it through. Replace at any time. */
  setFault(fault: ((call: ProxiedCall) => RpcFault | undefined) | undefined): void;
  stop(): Promise<void>;
}

interface WireCall {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

/** Starts a proxy for the node at `rpcUrl` on a free port of loopback. */
export async function countingRpcProxy(rpcUrl: string): Promise<RpcProxy> {
  const counts = new Map<string, number>();
  let decide: ((call: ProxiedCall) => RpcFault | undefined) | undefined;

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await textOf(request);
    const parsed = JSON.parse(body) as WireCall | readonly WireCall[];
    const calls = Array.isArray(parsed) ? (parsed as readonly WireCall[]) : [parsed as WireCall];
    let fault: RpcFault | undefined;
    for (const call of calls) {
      counts.set(call.method, (counts.get(call.method) ?? 0) + 1);
      fault ??= decide?.({ method: call.method, params: call.params ?? [] });
    }
    const answerEach = (content: object): void => {
      const answers = calls.map((call) => ({ jsonrpc: "2.0", id: call.id, ...content }));
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(Array.isArray(parsed) ? answers : answers[0]));
    };
    if (fault?.kind === "hang") return;
    if (fault?.kind === "drop") {
      request.socket.destroy();
      return;
    }
    if (fault?.kind === "http") {
      response.statusCode = fault.status;
      response.end("<html>upstream trouble</html>");
      return;
    }
    if (fault?.kind === "error") {
      answerEach({ error: { code: fault.code, message: fault.message, data: fault.data } });
      return;
    }
    if (fault?.kind === "result") {
      answerEach({ result: fault.result });
      return;
    }
    if (fault?.kind === "delay") await delay(fault.ms);
    const upstream = await fetch(rpcUrl, { method: "POST", headers: { "content-type": "application/json" }, body });
    const answer = await upstream.text();
    if (fault?.kind === "drop-answer") {
      request.socket.destroy();
      return;
    }
    response.statusCode = upstream.status;
    response.setHeader("content-type", "application/json");
    response.end(answer);
  };

  const server = createServer((request, response) => {
    handle(request, response).catch(() => {
      response.statusCode = 502;
      response.end();
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    counts,
    get total() {
      return [...counts.values()].reduce((sum, count) => sum + count, 0);
    },
    count: (method) => counts.get(method) ?? 0,
    reset: () => counts.clear(),
    setFault: (fault) => {
      decide = fault;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
