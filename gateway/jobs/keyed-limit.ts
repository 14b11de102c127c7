import type { Clock } from "../../protocol/clock.ts";

/** Options of `KeyedLimit`. */
export interface KeyedLimitOptions {
  readonly clock: Pick<Clock, "after">;
  /** Pieces of work of one key at once; at least 1. */
  readonly most: number;
  /** Ms after which work that has not had its turn is not done. */
  readonly patienceMs: number;
}

/** Lets at most so many pieces of work of one key run at once; the others of that key wait in order of arrival, and no other key does. */
export class KeyedLimit {
  readonly #options: KeyedLimitOptions;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(options: KeyedLimitOptions) {
    this.#options = options;
  }

  /** Runs the work when its turn comes; resolves and rejects as it does. Undefined when its turn did not come in time. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.#turn(key))) return undefined;
    try {
      return await work();
    } finally {
      this.#leave(key);
    }
  }

  async #turn(key: string): Promise<boolean> {
    const { clock, most, patienceMs } = this.#options;
    const running = this.#running.get(key) ?? 0;
    if (running < most) {
      this.#running.set(key, running + 1);
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const line = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, line);
    const enter = (): void => {
      cancel();
      resolve(true);
    };
    const cancel = clock.after(patienceMs, () => {
      line.delete(enter);
      resolve(false);
    });
    line.add(enter);
    return await promise;
  }

  /** Hands the place to the next in line, else gives it up. */
  #leave(key: string): void {
    const line = this.#waiting.get(key);
    for (const next of line ?? []) {
      line?.delete(next);
      next();
      return;
    }
    this.#waiting.delete(key);
    const running = (this.#running.get(key) ?? 1) - 1;
    if (running === 0) this.#running.delete(key);
    else this.#running.set(key, running);
  }
}
