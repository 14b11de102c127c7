import { createPublicClient, createTransport, type PublicClient, type Transport } from "viem";
import type { Clock, Random } from "../protocol/clock.ts";
import { backoffDelay } from "./backoff.ts";
import { pooledHttp } from "./http-transport.ts";
import { ChainUnavailableError, failureKind } from "./rpc-errors.ts";
import { sleep } from "./sleep.ts";
import { lazyWebSocket } from "./websocket-transport.ts";

/** Options of `openChain`. Times in milliseconds. */
export interface OpenChainOptions {
  /** `http(s)://` or `ws(s)://`. */
  readonly url: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Bound of one attempt. */
  readonly timeoutMs?: number;
  /** Attempts for calls that only read. */
  readonly attempts?: number;
  readonly backoffBaseMs?: number;
  readonly backoffMaxMs?: number;
}

/** A connection to one node. */
export interface ChainConnection {
  readonly client: PublicClient;
  /** Cuts running calls off; nothing can be asked afterwards. */
  close(): Promise<void>;
}

/**
 * Methods that are sent once: whoever sends a transaction must look at the chain before sending it again, and test chains' own
 * methods may not be repeatable.
 */
function repeatable(method: string): boolean {
  return method.startsWith("eth_") && !method.startsWith("eth_send");
}

/**
 * A viem client for a node. Reads are repeated with growing, jittered delays while the node is unreachable or busy, then fail with
 * `ChainUnavailableError`; an error that the node itself answered is passed on as viem's. Opening does not connect yet, so a node
 * that is down at start is no error here.
 */
export function openChain(options: OpenChainOptions): ChainConnection {
  const timeoutMs = options.timeoutMs ?? 10_000;
  const opened = /^wss?:/.test(options.url)
    ? lazyWebSocket(options.url, { timeoutMs, clock: options.clock })
    : pooledHttp(options.url, { timeoutMs });
  const client = createPublicClient({ transport: persistent(opened.transport, options), cacheTime: 0 });
  return { client, close: () => opened.close() };
}

function persistent(inner: Transport, options: OpenChainOptions): Transport {
  const { host } = new URL(options.url);
  const bounds = { baseMs: options.backoffBaseMs ?? 100, maxMs: options.backoffMaxMs ?? 2000 };
  return (parameters) => {
    const { request } = inner({ ...parameters, retryCount: 0 });
    const ask = async (call: { method: string; params?: unknown }): Promise<unknown> => {
      const attempts = repeatable(call.method) ? (options.attempts ?? 4) : 1;
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await request(call as never);
        } catch (error) {
          const kind = failureKind(error);
          if (kind === "answer" || !(error instanceof Error)) throw error;
          if (attempt >= attempts || refused(error)) throw new ChainUnavailableError(host, call.method, attempt, error);
        }
        await sleep(options.clock, backoffDelay(attempt - 1, bounds, options.random));
      }
    };
    return createTransport({
      key: "persistent",
      name: "persistent JSON-RPC",
      type: "persistent",
      request: ask as never,
      retryCount: 0,
    });
  };
}

/** The endpoint answers, but not to us: asking again changes nothing. */
function refused(error: Error): boolean {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if ("retryable" in link) return link.retryable === false;
  }
  return false;
}
