import { Socket } from "node:net";
import { buildConnector, Pool } from "undici";
import type { Clock } from "../../protocol/clock.ts";
import { dnsResolve, guardedLookup, type Resolve } from "./guarded-lookup.ts";
import { RoundTrips } from "./round-trips.ts";

/** Options of `ProviderConnections`. */
export interface ConnectionOptions {
  /** Calls private addresses too: for local networks and tests. */
  readonly allowPrivate: boolean;
  readonly clock: Pick<Clock, "monotonic">;
  /** Most ms for one TCP and TLS handshake. */
  readonly connectTimeoutMs: number;
  /** Origins with a pool; the one longest unused is closed when there are more. */
  readonly maxOrigins?: number;
  /** How names are resolved; DNS when absent. */
  readonly resolve?: Resolve;
}

/** Shorter than the 5 s after which common backends drop an idle connection, so that it is not theirs to drop under a request. */
const idleSocketMs = 4000;
const maxHeaderBytes = 16 * 1024;

/** Keep-alive connections to providers, one pool per origin, bounded in number. */
export class ProviderConnections {
  readonly #options: ConnectionOptions;
  readonly #pools = new Map<string, Pool>();
  readonly #roundTrips: RoundTrips;
  readonly #maxOrigins: number;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#maxOrigins = options.maxOrigins ?? 1024;
    this.#roundTrips = new RoundTrips(this.#maxOrigins);
  }

  /** Origins with an open pool. */
  get size(): number {
    return this.#pools.size;
  }

  /** The pool of an origin that `parseEndpoint` let through. */
  poolFor(origin: string): Pool {
    const known = this.#pools.get(origin);
    if (known !== undefined) {
      this.#pools.delete(origin);
      this.#pools.set(origin, known);
      return known;
    }
    const pool = new Pool(origin, {
      connections: null,
      pipelining: 1,
      keepAliveTimeout: idleSocketMs,
      keepAliveMaxTimeout: idleSocketMs,
      maxHeaderSize: maxHeaderBytes,
      connect: this.#connector(origin),
    });
    this.#pools.set(origin, pool);
    if (this.#pools.size > this.#maxOrigins) {
      const [oldest] = this.#pools.keys();
      if (oldest !== undefined) {
        const evicted = this.#pools.get(oldest);
        this.#pools.delete(oldest);
        // Waits for the streams that still run on it.
        evicted?.close().catch(() => undefined);
      }
    }
    return pool;
  }

  /** Ms of one round trip to an origin, by the TCP handshakes of its newest connections; undefined before the first. */
  roundTripMs(origin: string): number | undefined {
    return this.#roundTrips.of(origin);
  }

  /** Opens connections, and times their TCP handshakes: names and TLS take round trips of their own. */
  #connector(origin: string): buildConnector.connector {
    const { allowPrivate, clock, connectTimeoutMs, resolve } = this.#options;
    const connect = buildConnector({
      timeout: connectTimeoutMs,
      ...(allowPrivate ? {} : { lookup: guardedLookup(resolve ?? dnsResolve()) }),
    });
    return (options, callback) => {
      // The socket comes back while it connects, though the type does not say so.
      const socket: unknown = connect(options, callback);
      if (!(socket instanceof Socket)) return;
      let attemptedAt: number | undefined;
      socket.on("connectionAttempt", () => {
        attemptedAt = clock.monotonic();
      });
      socket.once("connect", () => {
        if (attemptedAt !== undefined) this.#roundTrips.add(origin, clock.monotonic() - attemptedAt);
      });
    };
  }

  /** Cuts every connection. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(pools.map(async (pool) => await pool.destroy()));
  }
}
