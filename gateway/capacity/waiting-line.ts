/** What an attempt to take capacity found. */
export type Take<G> =
  | { readonly kind: "granted"; readonly grant: G }
  /** Somebody could serve, but not now. `recheckMs`: ms after which time alone may help; absent: only freed capacity can. */
  | { readonly kind: "busy"; readonly recheckMs?: number }
  /** Nobody can serve any more: waiting is pointless. */
  | { readonly kind: "none" };

/** Somebody who wants capacity. */
export interface Waiter<G> {
  /** Place in the order of arrival; unique. A waiter that comes back keeps its own and so its place. */
  readonly sequence: number;
  /** Waiters with equal needs would get equal answers: while one of them must wait, the later ones need not be asked. */
  readonly needs: string;
  /** Takes capacity now or says why not. Called by the line only, never for two waiters at once. */
  take(): Take<G>;
  /** Called once, after which the line has forgotten the waiter. */
  settle(outcome: Exclude<Take<G>, { kind: "busy" }>): void;
}

/**
 * First come, first served, without clock or I/O. Whoever frees capacity calls `pump`; the line then offers it to its head, and to the
 * next only when the head got its own or cannot use it. So one freed slot wakes one waiter, nobody overtakes a waiter with the same
 * needs, and a waiter that can only be served elsewhere (it has tried this provider already) does not block those behind it.
 */
export class WaitingLine<G, W extends Waiter<G> = Waiter<G>> {
  /** By sequence, ascending. */
  readonly #waiters: W[] = [];
  readonly #byNeeds = new Map<string, number>();
  #pumping = false;
  #recheckMs: number | undefined;
  /** Sequence of the waiter behind the head that was asked last. */
  #lastAskedBehind = 0;
  /** Calls of `pump` so far: a call in the middle of a pass asks for another pass. */
  #pumps = 0;

  get size(): number {
    return this.#waiters.length;
  }

  /** Ms after the last `pump` when somebody who was refused by it may be served though no capacity came free; undefined: never. */
  get recheckMs(): number | undefined {
    return this.#recheckMs;
  }

  /** Waiters in order. */
  waiters(): readonly W[] {
    return this.#waiters;
  }

  /** Place of a waiter, 1 = next; 0 when it is not in the line. */
  position(waiter: W): number {
    const index = this.#indexOf(waiter.sequence);
    return this.#waiters[index] === waiter ? index + 1 : 0;
  }

  /**
   * Asks for capacity for somebody who just came: at once when nobody with the same needs waits, else not at all. Does not join the
   * line: `busy` leaves that to the caller.
   */
  tryFirst(waiter: W): Take<G> {
    if (this.#byNeeds.has(waiter.needs) && !this.#isFirstOfItsNeeds(waiter)) return { kind: "busy" };
    return waiter.take();
  }

  /** Stands in line at the place that the waiter's sequence gives it. */
  join(waiter: W): void {
    this.#waiters.splice(this.#indexOf(waiter.sequence), 0, waiter);
    this.#byNeeds.set(waiter.needs, (this.#byNeeds.get(waiter.needs) ?? 0) + 1);
  }

  /** Leaves without capacity; false when the waiter was not in the line. Frees nothing, so wakes nobody. */
  leave(waiter: W): boolean {
    const index = this.#indexOf(waiter.sequence);
    if (this.#waiters[index] !== waiter) return false;
    this.#waiters.splice(index, 1);
    const left = (this.#byNeeds.get(waiter.needs) ?? 1) - 1;
    if (left === 0) this.#byNeeds.delete(waiter.needs);
    else this.#byNeeds.set(waiter.needs, left);
    return true;
  }

  /**
   * Offers capacity that may have come free, from the head on, until every kind of need in the line had to wait. Of very many kinds only
   * some are asked; `recheckMs` then says when to go on.
   *
   * @param thorough Asks everybody, also those whose needs were refused further ahead, up to a bound: for the rare case that equal
   * needs are not so equal.
   */
  pump(thorough = false): void {
    this.#pumps += 1;
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let seen = -1; seen !== this.#pumps; ) {
        seen = this.#pumps;
        this.#pass(thorough);
      }
    } finally {
      this.#pumping = false;
    }
  }

  #pass(thorough: boolean): void {
    const refused = new Set<string>();
    this.#recheckMs = undefined;
    const mostAtHead = this.#byNeeds.size > maxAskedPerPass ? maxAskedPerPass / 2 : maxAskedPerPass;
    let asked = 0;
    for (const waiter of this.#waiters.slice()) {
      if (!thorough && refused.size >= this.#byNeeds.size) return;
      if (!thorough && refused.has(waiter.needs)) continue;
      if (asked >= mostAtHead) break;
      if (this.position(waiter) === 0) continue;
      asked += 1;
      if (this.#ask(waiter)) asked -= 1;
      else refused.add(waiter.needs);
    }
    if (mostAtHead < maxAskedPerPass) this.#passBehind(refused);
  }

  /** Asks some of those whose needs were not asked for at the head, in turn from pass to pass, the first of equal needs each. */
  #passBehind(refused: ReadonlySet<string>): void {
    const seen = new Set(refused);
    const behind = this.#waiters.filter(({ needs }) => !seen.has(needs) && seen.add(needs));
    const from = behind.findIndex(({ sequence }) => sequence > this.#lastAskedBehind);
    const inTurn = from <= 0 ? behind : [...behind.slice(from), ...behind.slice(0, from)];
    for (const waiter of inTurn.slice(0, maxAskedPerPass / 2)) {
      if (this.position(waiter) === 0) continue;
      this.#lastAskedBehind = waiter.sequence;
      this.#ask(waiter);
    }
    if (inTurn.length > maxAskedPerPass / 2) this.#recheckMs = earlier(this.#recheckMs, nextTurnMs);
  }

  /** Offers what there is to one waiter; false when it has to wait on. */
  #ask(waiter: W): boolean {
    const take = waiter.take();
    if (take.kind === "busy") {
      this.#recheckMs = earlier(this.#recheckMs, take.recheckMs);
      return false;
    }
    if (this.leave(waiter)) waiter.settle(take);
    return true;
  }

  #isFirstOfItsNeeds(waiter: W): boolean {
    const first = this.#waiters.find((one) => one.needs === waiter.needs);
    return first === undefined || first.sequence > waiter.sequence;
  }

  #indexOf(sequence: number): number {
    let low = 0;
    let high = this.#waiters.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#waiters[middle]?.sequence ?? 0) < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}

/**
 * Refusals after which one pass gives up: a line of a thousand different needs must not stop the process. Of more different needs than
 * that, half are asked from the head on and half in turn, so that nobody is kept from a place of its own by those who wait for theirs.
 */
const maxAskedPerPass = 16;

/** Ms until the next are asked in turn. */
const nextTurnMs = 20;
