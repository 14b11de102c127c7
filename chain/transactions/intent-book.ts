import type { Intent } from "./intent.ts";

/** The intents of one queue that have not ended, and the nonces that they hold. Mutable on purpose: the parts of the queue share it. */
export class IntentBook {
  /** Intents by key, from submit to their end. */
  readonly byKey = new Map<string, Intent>();
  /** Intents that hold a nonce, by nonce. */
  readonly byNonce = new Map<number, Intent>();
  /** Intents whose callers were let go, and that a nonce yet to be used decides. */
  readonly givenUp = new Set<Intent>();
  /** The next nonce to give; undefined = ask the chain. */
  nextNonce: number | undefined;

  /** Intents that hold a nonce, lowest first. */
  inFlight(): Intent[] {
    return [...this.byNonce.values()].toSorted((a, b) => a.nonce - b.nonce);
  }

  /** Whether something is in flight, or was given up and is not decided. */
  get isWatched(): boolean {
    return this.byNonce.size > 0 || this.givenUp.size > 0;
  }

  /** The lowest nonce that neither the chain, whose pending count is given, nor an intent in flight uses. */
  firstFreeNonce(pendingCount: number): number {
    return Math.max(pendingCount, ...[...this.byNonce.keys()].map((nonce) => nonce + 1));
  }

  /** Gives the nonce of an intent to the next one, unless another holds it by now. */
  freeNonce(intent: Intent): void {
    if (this.byNonce.get(intent.nonce) !== intent) return;
    this.byNonce.delete(intent.nonce);
    this.nextNonce = undefined;
  }

  /** Forgets the key of an intent that has ended, unless another one has it by now. */
  forget(intent: Intent): void {
    if (this.byKey.get(intent.key) === intent) this.byKey.delete(intent.key);
  }

  /** Forgets everything. */
  clear(): void {
    this.byKey.clear();
    this.byNonce.clear();
    this.givenUp.clear();
  }
}
