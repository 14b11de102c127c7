import { createTransport, type Transport } from "viem";
import type { Clock } from "../protocol/clock.ts";
import { parseAnswer, resultOf, type RpcCall } from "./json-rpc.ts";
import { RpcTransportError } from "./rpc-errors.ts";

/** Options of `lazyWebSocket`. */
export interface LazyWebSocketOptions {
  readonly timeoutMs: number;
  readonly clock: Clock;
}

interface Pending {
  readonly call: RpcCall;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * JSON-RPC over one WebSocket that is opened by the first call and again by the first call after it broke. Calls in flight fail when it
 * breaks. Retries nothing.
 */
export function lazyWebSocket(
  url: string,
  options: LazyWebSocketOptions,
): { readonly transport: Transport; close(): Promise<void> } {
  const { host } = new URL(url);
  const pending = new Map<number, Pending>();
  let socket: WebSocket | undefined;
  let opened: Promise<WebSocket> | undefined;
  let closed = false;
  let lastId = 0;
  /** Messages that came over any socket. */
  let heard = 0;

  const broken = (why: string): void => {
    socket = undefined;
    opened = undefined;
    for (const call of pending.values()) call.reject(new RpcTransportError(why));
    pending.clear();
  };

  const giveUp = (current: WebSocket, why: string): void => {
    current.close();
    broken(why);
  };

  const open = (): Promise<WebSocket> =>
    new Promise((resolve, reject) => {
      const current = new WebSocket(url);
      socket = current;
      current.addEventListener("open", () => resolve(current));
      current.addEventListener("message", ({ data }) => {
        heard += 1;
        const answer = typeof data === "string" ? parseAnswer(data) : undefined;
        const waiting = pending.get(Number(answer?.id));
        if (answer === undefined || waiting === undefined) return;
        pending.delete(waiting.call.id);
        try {
          waiting.resolve(resultOf(answer, waiting.call, host));
        } catch (error) {
          if (error instanceof Error) waiting.reject(error);
        }
      });
      const onEnd = (): void => {
        reject(new RpcTransportError("the WebSocket could not be opened"));
        if (socket === current) broken("the WebSocket closed");
      };
      current.addEventListener("error", onEnd);
      current.addEventListener("close", onEnd);
    });

  const request = async ({ method, params }: { method: string; params?: unknown }): Promise<unknown> => {
    if (closed) throw new RpcTransportError("the connection was closed");
    lastId += 1;
    const call: RpcCall = { jsonrpc: "2.0", id: lastId, method, params: params ?? [] };
    const used = socket;
    const heardBefore = heard;
    let cancelTimer: (() => void) | undefined;
    const timeout = new Promise<never>((_resolve, reject) => {
      cancelTimer = options.clock.after(options.timeoutMs, () => {
        reject(new RpcTransportError(`no answer within ${options.timeoutMs} ms`));
        // Nothing came at all, to nobody: a host that is gone closes nothing, and its socket would be waited on for minutes.
        if (used !== undefined && socket === used && heard === heardBefore) giveUp(used, "the WebSocket went silent");
      });
    });
    const answer = async (): Promise<unknown> => {
      opened ??= open();
      const ready = await opened;
      return await new Promise((resolve, reject) => {
        pending.set(call.id, { call, resolve, reject });
        ready.send(JSON.stringify(call));
      });
    };
    try {
      return await Promise.race([answer(), timeout]);
    } catch (error) {
      // A socket that does not even open in time is given up, so that the next call tries afresh.
      if (socket?.readyState === WebSocket.CONNECTING) giveUp(socket, "the WebSocket did not open in time");
      throw error;
    } finally {
      cancelTimer?.();
      pending.delete(call.id);
    }
  };

  return {
    transport: () =>
      createTransport({
        key: "lazyWebSocket",
        name: "WebSocket JSON-RPC",
        type: "webSocket",
        request: request as never,
        retryCount: 0,
      }),
    close: async () => {
      closed = true;
      const last = socket;
      broken("the connection was closed");
      last?.close();
      await Promise.resolve();
    },
  };
}
