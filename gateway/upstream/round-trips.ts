/** Handshakes of an origin that are looked back on. */
const looked = 8;

/**
 * Round trips to origins. What delays a handshake, a busy process at either end or a packet sent again, only ever makes it longer, so
 * the shortest of the newest few is the nearest to the truth.
 */
export class RoundTrips {
  readonly #maxOrigins: number;
  /** Newest last; the origin unused for longest first. */
  readonly #handshakes = new Map<string, number[]>();

  /** @param maxOrigins Beyond, the one that connected longest ago is forgotten. */
  constructor(maxOrigins: number) {
    this.#maxOrigins = maxOrigins;
  }

  /** A handshake took so many ms. */
  add(origin: string, tookMs: number): void {
    const newest = [...(this.#handshakes.get(origin) ?? []), tookMs].slice(-looked);
    this.#handshakes.delete(origin);
    this.#handshakes.set(origin, newest);
    if (this.#handshakes.size <= this.#maxOrigins) return;
    const [oldest] = this.#handshakes.keys();
    if (oldest !== undefined) this.#handshakes.delete(oldest);
  }

  /** Ms of a round trip; undefined while no handshake is known. */
  of(origin: string): number | undefined {
    const newest = this.#handshakes.get(origin);
    return newest === undefined ? undefined : Math.min(...newest);
  }
}
