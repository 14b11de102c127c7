/** One taken slot. It belongs to one stream and is given back when that stream has ended. */
export interface SlotLease {
  /** Gives the slot back; further calls do nothing. */
  release(): void;
}

/**
 * The slots of this process. There is no "has a slot?": the only question is `acquire`, so a slot that was seen free cannot be taken
 * twice. A cap that is lowered below the number of running streams stops new ones and ends none.
 */
export class Slots {
  readonly #limits: () => SlotLimits;
  readonly #byBackend = new Map<string, number>();
  #running = 0;

  /** @param limits Read at each `acquire`, so that limits may change while streams run. */
  constructor(limits: () => SlotLimits) {
    this.#limits = limits;
  }

  /** Slots taken now. */
  get running(): number {
    return this.#running;
  }

  /** Slots taken now by streams of one backend. */
  runningOf(backend: string): number {
    return this.#byBackend.get(backend) ?? 0;
  }

  /** Takes a slot for a stream of `backend`; undefined when the node or the backend is full. */
  acquire(backend: string): SlotLease | undefined {
    const limits = this.#limits();
    if (isFull(this.#running, limits.total) || isFull(this.runningOf(backend), limits.ofBackend(backend))) {
      return undefined;
    }
    this.#running += 1;
    this.#byBackend.set(backend, this.runningOf(backend) + 1);
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        this.#running -= 1;
        const left = this.runningOf(backend) - 1;
        if (left === 0) this.#byBackend.delete(backend);
        else this.#byBackend.set(backend, left);
      },
    };
  }
}

/** Limits of `Slots`; 0 = no cap. */
export interface SlotLimits {
  readonly total: number;
  ofBackend(backend: string): number;
}

function isFull(running: number, cap: number): boolean {
  return cap !== 0 && running >= cap;
}
