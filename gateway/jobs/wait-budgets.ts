import type { Clock } from "../../protocol/clock.ts";

const maxRemembered = 10_000;
const rememberMs = 600_000;

/**
 * The time in line belongs to the request, not to the connection: a client that comes back with the same request id after waiting in
 * vain does not start anew.
 */
export class WaitBudgets {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Oldest first. */
  readonly #used = new Map<string, { readonly ms: number; readonly at: number }>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** What is left of a limit for a request id, ms. */
  left(requestId: string, limitMs: number): number {
    const used = this.#used.get(requestId);
    if (used === undefined || this.#clock.monotonic() - used.at > rememberMs) return limitMs;
    return Math.max(0, limitMs - used.ms);
  }

  /** A request id waited in vain. */
  spend(requestId: string, ms: number): void {
    const before = this.#used.get(requestId);
    this.#used.delete(requestId);
    this.#used.set(requestId, { ms: (before?.ms ?? 0) + ms, at: this.#clock.monotonic() });
    for (const oldest of this.#used.keys()) {
      if (this.#used.size <= maxRemembered) break;
      this.#used.delete(oldest);
    }
  }
}
