import type { Clock } from "../../protocol/clock.ts";
import type { ProviderStatus, SignedProviderStatus } from "../../protocol/status.ts";
import type { ProviderSigner } from "../signer.ts";

/** What changes in a status from one to the next. */
export type StatusContent = Omit<ProviderStatus, "provider" | "issuedAt">;

/** A reader of the status events. */
export interface StatusSubscriber {
  /** A new status. */
  status(signed: SignedProviderStatus): void;
  /** Nothing changed for a while; keeps the connection alive. */
  heartbeat(): void;
  /** Somebody else has its place: it hears nothing more. */
  replaced(): void;
}

/** Options of `StatusService`. */
export interface StatusServiceOptions {
  readonly signer: ProviderSigner;
  readonly clock: Clock;
  readonly content: () => StatusContent;
  /** Least ms between two events. */
  readonly spacingMs?: number;
  /** Ms of rest after which subscribers hear a heartbeat and a fresh status. */
  readonly heartbeatMs?: number;
  /** Subscribers at once. */
  readonly maxSubscribers?: number;
}

/** Gateways believe no status whose time is further from theirs, ms. */
const believedSkewMs = 120_000;

/** Signs the node's status and tells subscribers of its changes, however many there are, with one signature each. */
export class StatusService {
  readonly #options: StatusServiceOptions;
  readonly #spacingMs: number;
  readonly #heartbeatMs: number;
  readonly #maxSubscribers: number;
  /** The one that came first is first. */
  readonly #subscribers = new Set<StatusSubscriber>();
  #lastIssuedAt = 0;
  #lastSentMs = Number.NEGATIVE_INFINITY;
  #lastContent = "";
  #cancelSend: (() => void) | undefined;
  #cancelHeartbeat: () => void = () => undefined;
  #recent:
    | { readonly atMs: number; readonly content: string; readonly signed: Promise<SignedProviderStatus> }
    | undefined;
  #isClosed = false;

  constructor(options: StatusServiceOptions) {
    this.#options = options;
    this.#spacingMs = options.spacingMs ?? 250;
    this.#heartbeatMs = options.heartbeatMs ?? 15_000;
    this.#maxSubscribers = options.maxSubscribers ?? 256;
  }

  /** The status now; one that says the same and is younger than a second is not signed again. */
  async current(): Promise<SignedProviderStatus> {
    const { clock, content, signer } = this.#options;
    const fields = content();
    const text = JSON.stringify(fields);
    const now = clock.now();
    const nowMs = clock.monotonic();
    if (this.#recent !== undefined && this.#recent.content === text && nowMs - this.#recent.atMs < 1_000) {
      return await this.#recent.signed;
    }
    // Strictly growing, so that a reader can tell the newer of two; but nobody has believed what a clock said that was this far ahead.
    const last = this.#lastIssuedAt - now > believedSkewMs ? 0 : this.#lastIssuedAt;
    const issuedAt = Math.max(Math.floor(now), last + 1);
    this.#lastIssuedAt = issuedAt;
    const status: ProviderStatus = { provider: signer.provider, issuedAt, ...fields };
    const signed = signer.signStatus(JSON.stringify(status), issuedAt);
    this.#recent = { atMs: nowMs, content: text, signed };
    return await signed;
  }

  /**
   * Hears the status of now and every change from here on; returns the way to stop. When all places are taken it gets that of the one that
   * came first: anybody may ask, and to turn newcomers away would let strangers keep every gateway from the status.
   */
  subscribe(subscriber: StatusSubscriber): () => void {
    for (const first of this.#subscribers) {
      if (this.#subscribers.size < this.#maxSubscribers) break;
      this.#subscribers.delete(first);
      first.replaced();
    }
    this.#subscribers.add(subscriber);
    void this.#greet(subscriber);
    if (this.#subscribers.size === 1) this.#armHeartbeat();
    return () => {
      this.#subscribers.delete(subscriber);
      if (this.#subscribers.size === 0) this.#cancelHeartbeat();
    };
  }

  /** Something that the status tells may have changed. */
  changed(): void {
    if (this.#subscribers.size === 0 || this.#cancelSend !== undefined || this.#isClosed) return;
    const { clock } = this.#options;
    const delay = Math.max(0, this.#lastSentMs + this.#spacingMs - clock.monotonic());
    this.#cancelSend = clock.after(delay, () => {
      this.#cancelSend = undefined;
      void this.#send(false);
    });
  }

  /** Stops all timers. */
  close(): void {
    this.#isClosed = true;
    this.#cancelSend?.();
    this.#cancelHeartbeat();
    this.#subscribers.clear();
  }

  async #greet(subscriber: StatusSubscriber): Promise<void> {
    const signed = await this.current();
    if (this.#subscribers.has(subscriber)) subscriber.status(signed);
  }

  async #send(always: boolean): Promise<void> {
    const text = JSON.stringify(this.#options.content());
    if (!always && text === this.#lastContent) return;
    this.#lastContent = text;
    this.#lastSentMs = this.#options.clock.monotonic();
    const signed = await this.current();
    for (const subscriber of this.#subscribers) subscriber.status(signed);
    if (!this.#isClosed && this.#subscribers.size > 0) this.#armHeartbeat();
  }

  #armHeartbeat(): void {
    this.#cancelHeartbeat();
    this.#cancelHeartbeat = this.#options.clock.after(this.#heartbeatMs, () => {
      for (const subscriber of this.#subscribers) subscriber.heartbeat();
      // A status that says the same is sent again: readers take an old one for stale.
      void this.#send(true);
    });
  }
}
