import type { Clock } from "../../protocol/clock.ts";
import { type Take, type Waiter, WaitingLine } from "./waiting-line.ts";

/** Where a waiter stands. */
export interface WaitState {
  /** 1 = next. */
  readonly position: number;
  readonly waitedMs: number;
  readonly limitMs: number;
}

/** How waiting ended. An enum of the core: HTTP statuses are made of it elsewhere. */
export type WaitOutcome<G> =
  | { readonly kind: "granted"; readonly grant: G; readonly waitedMs: number }
  | { readonly kind: "none" }
  /** The line holds as many as it may. */
  | { readonly kind: "full" }
  /** The time is up; `waitedMs` is 0 when waiting is switched off. */
  | { readonly kind: "timeout"; readonly waitedMs: number }
  | { readonly kind: "aborted" }
  /** The gateway stops. */
  | { readonly kind: "draining" };

/** One request for capacity. */
export interface EnterOptions<G> {
  /** The line: a model id, or the name of the line for any model. */
  readonly line: string;
  /** Place in the order of arrival; unique per request, the same when it comes back. */
  readonly sequence: number;
  readonly needs: string;
  take(): Take<G>;
  /** When joining the line, then at the rhythm of the poll. */
  onWaiting(state: WaitState): void;
  /** Longest time in the line, ms; 0 = do not wait. */
  readonly limitMs: number;
  /** Time that earlier stays in the line used up of it, ms. */
  readonly alreadyWaitedMs: number;
  readonly signal: AbortSignal;
}

/** Options of `CapacityLines`. */
export interface CapacityLinesOptions {
  readonly clock: Clock;
  /** Most waiters in one line. */
  readonly maxWaiting: number;
  /** Rhythm of progress and of the fallback look for capacity, ms. */
  readonly pollMs: number;
}

interface Line<G> {
  readonly waiting: WaitingLine<G, Standing<G>>;
  cancelPoll: () => void;
  /** Monotonic ms of the next look that time alone makes worth while. */
  recheckAt: number;
  cancelRecheck: () => void;
}

/** Looks on time alone are at least so far apart, ms: a wait that rounds to nothing must not become a loop. */
const leastRecheckMs = 1;

interface Standing<G> extends Waiter<G> {
  report(): void;
  end(outcome: WaitOutcome<G>): void;
}

/**
 * The lines of all models. Waiters cost no call to anybody: they are woken by `capacityFreed`, and looked after by two timers a line: the
 * poll, and the moment at which the wait so far lets somebody be served elsewhere.
 */
export class CapacityLines<G> {
  readonly #options: CapacityLinesOptions;
  readonly #lines = new Map<string, Line<G>>();
  #draining = false;

  constructor(options: CapacityLinesOptions) {
    this.#options = options;
  }

  /** Waiters per line, lines without waiters left out. */
  sizes(): ReadonlyMap<string, number> {
    return new Map([...this.#lines].map(([name, line]) => [name, line.waiting.size]));
  }

  /** Names of lines with waiters. */
  names(): Iterable<string> {
    return this.#lines.keys();
  }

  /** Takes capacity at once when it is there and nobody waits for the same; else stands in line. Never rejects. */
  enter(options: EnterOptions<G>): Promise<WaitOutcome<G>> {
    if (options.signal.aborted) return Promise.resolve({ kind: "aborted" });
    if (this.#draining) return Promise.resolve({ kind: "draining" });
    const { clock } = this.#options;
    const since = clock.monotonic();
    const waited = (): number => options.alreadyWaitedMs + clock.monotonic() - since;
    const line = this.#lines.get(options.line);
    return new Promise((resolve) => {
      const standing: Standing<G> = {
        sequence: options.sequence,
        needs: options.needs,
        take: () => options.take(),
        settle: (take) => standing.end(take.kind === "granted" ? { ...take, waitedMs: waited() } : take),
        report: () => {
          const place = this.#lines.get(options.line)?.waiting.position(standing) ?? 0;
          options.onWaiting({ position: place, waitedMs: waited(), limitMs: options.limitMs });
        },
        end: (outcome) => {
          cancelTimeout();
          options.signal.removeEventListener("abort", onAbort);
          resolve(outcome);
        },
      };
      const leave = (outcome: WaitOutcome<G>): void => {
        if (this.#lines.get(options.line)?.waiting.leave(standing) !== true) return;
        this.#closeIfEmpty(options.line);
        standing.end(outcome);
      };
      const onAbort = (): void => leave({ kind: "aborted" });
      let cancelTimeout = (): void => undefined;

      const take = line === undefined ? options.take() : line.waiting.tryFirst(standing);
      if (take.kind !== "busy") {
        standing.settle(take);
        return;
      }
      const left = options.limitMs - options.alreadyWaitedMs;
      if (left <= 0) {
        standing.end({ kind: "timeout", waitedMs: options.alreadyWaitedMs });
        return;
      }
      // Somebody who comes back had a place already: he is not turned away at the door.
      const returning = options.alreadyWaitedMs > 0;
      if (!returning && line !== undefined && line.waiting.size >= this.#options.maxWaiting) {
        standing.end({ kind: "full" });
        return;
      }
      const joined = this.#open(options.line);
      joined.waiting.join(standing);
      this.#planRecheck(options.line, joined, take.recheckMs);
      cancelTimeout = clock.after(left, () => leave({ kind: "timeout", waitedMs: waited() }));
      options.signal.addEventListener("abort", onAbort, { once: true });
      standing.report();
    });
  }

  /** Capacity for a line may have come free. */
  capacityFreed(name: string): void {
    const line = this.#lines.get(name);
    if (line === undefined) return;
    line.waiting.pump();
    if (!this.#closeIfEmpty(name)) this.#planRecheck(name, line, line.waiting.recheckMs);
  }

  /** Sends everybody away, now and from now on. */
  drain(): void {
    this.#draining = true;
    for (const [name, line] of this.#lines) {
      for (const waiter of line.waiting.waiters().slice()) {
        line.waiting.leave(waiter);
        waiter.end({ kind: "draining" });
      }
      this.#closeIfEmpty(name);
    }
  }

  #open(name: string): Line<G> {
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    const line: Line<G> = {
      waiting: new WaitingLine(),
      cancelPoll: () => undefined,
      recheckAt: Number.POSITIVE_INFINITY,
      cancelRecheck: () => undefined,
    };
    this.#lines.set(name, line);
    const poll = (): void => {
      line.waiting.pump(true);
      if (this.#closeIfEmpty(name)) return;
      this.#planRecheck(name, line, line.waiting.recheckMs);
      for (const waiter of line.waiting.waiters().slice()) waiter.report();
      line.cancelPoll = this.#options.clock.after(this.#options.pollMs, poll);
    };
    line.cancelPoll = this.#options.clock.after(this.#options.pollMs, poll);
    return line;
  }

  /** Looks again after so many ms, unless that happens earlier anyway. */
  #planRecheck(name: string, line: Line<G>, recheckMs: number | undefined): void {
    if (recheckMs === undefined || this.#lines.get(name) !== line) return;
    const { clock } = this.#options;
    const delayMs = Math.max(leastRecheckMs, Math.ceil(recheckMs));
    const at = clock.monotonic() + delayMs;
    if (at >= line.recheckAt) return;
    line.cancelRecheck();
    line.recheckAt = at;
    line.cancelRecheck = clock.after(delayMs, () => {
      line.recheckAt = Number.POSITIVE_INFINITY;
      this.capacityFreed(name);
    });
  }

  #closeIfEmpty(name: string): boolean {
    const line = this.#lines.get(name);
    if (line === undefined || line.waiting.size > 0) return line === undefined;
    line.cancelPoll();
    line.cancelRecheck();
    this.#lines.delete(name);
    return true;
  }
}
