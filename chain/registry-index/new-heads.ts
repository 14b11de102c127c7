import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../backoff.ts";

/** Options of `followNewHeads`. */
export interface NewHeadsOptions {
  /** `ws(s)://` */
  readonly url: string;
  readonly clock: Clock;
  readonly random: Random;
  /** A block was announced, or the connection is new, so that one may have been missed. */
  readonly onWake: () => void;
}

/**
 * Calls back at each new block that a node announces over a WebSocket. Only a wake-up: what is announced is not read, and while the
 * connection is down (it is tried again with growing, jittered delays) polling goes on without it. Returns the way out.
 */
export function followNewHeads(options: NewHeadsOptions): () => void {
  let stopped = false;
  let failures = 0;
  let socket: WebSocket | undefined;
  let cancelRetry: (() => void) | undefined;

  const connect = (): void => {
    const current = new WebSocket(options.url);
    socket = current;
    let over = false;
    const retry = (): void => {
      if (over || stopped) return;
      over = true;
      cancelRetry = options.clock.after(
        backoffDelay(failures, { baseMs: 250, maxMs: 30_000 }, options.random),
        connect,
      );
      failures += 1;
    };
    current.addEventListener("open", () => {
      current.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_subscribe", params: ["newHeads"] }));
    });
    current.addEventListener("message", ({ data }) => {
      if (stopped || typeof data !== "string") return;
      const kind = messageKind(data);
      if (kind === "refused") {
        current.close();
        return;
      }
      if (kind === "other") return;
      failures = 0;
      options.onWake();
    });
    current.addEventListener("error", retry);
    current.addEventListener("close", retry);
  };

  connect();
  return () => {
    stopped = true;
    cancelRetry?.();
    socket?.close();
  };
}

function messageKind(text: string): "wake" | "refused" | "other" {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return "other";
  }
  if (typeof message !== "object" || message === null) return "other";
  if ("method" in message && message.method === "eth_subscription") return "wake";
  if ("id" in message && message.id === 1) return "result" in message ? "wake" : "refused";
  return "other";
}
