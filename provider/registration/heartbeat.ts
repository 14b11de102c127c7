import { type Address, encodeFunctionData } from "viem";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { TransactionQueue } from "../../chain/transactions/types.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { RegistryReader } from "./registry-reader.ts";

/** Ms until the next look at the chain: when `lastSeen` will be `interval` old, 0 when it is. Pure. */
export function heartbeatDueMs(lastSeenSeconds: number, nowSeconds: number, intervalMs: number): number {
  return Math.max(0, lastSeenSeconds * 1000 + intervalMs - nowSeconds * 1000);
}

/** Half the time to live at most: one lost heartbeat must not make the provider stale. */
export function heartbeatInterval(configuredMs: number, timeToLiveSeconds: number): number {
  return Math.max(1_000, Math.min(configuredMs, (timeToLiveSeconds * 1000) / 2));
}

/** Options of `Heartbeat`. */
export interface HeartbeatOptions {
  readonly reader: RegistryReader;
  readonly queue: TransactionQueue;
  readonly chainId: number;
  readonly registry: Address;
  readonly owner: Address;
  readonly clock: Clock;
  readonly intervalMs: number;
  /** How far chain time runs ahead of the clock, ms. */
  readonly aheadMs: () => number;
  /** Whether the node could serve a request now. */
  readonly isHealthy: () => boolean;
  /** Called with what went wrong. */
  readonly onError: (error: unknown) => void;
  /** Called after each heartbeat that was mined. */
  readonly onBeat: () => void;
}

/** Pause after a failed look, and between looks while no backend works. */
const retryMs = 5_000;

/** Keeps `lastSeen` fresh, with a transaction only when no other one did it and the node can serve. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #cancel: () => void = () => undefined;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Looks after `lastSeen` until stopped. */
  start(lastSeenSeconds: number): void {
    this.#schedule(heartbeatDueMs(lastSeenSeconds, this.#now(), this.#options.intervalMs));
  }

  /** Stops; resolves when a running look has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel();
    await this.#running;
  }

  #now(): number {
    return (this.#options.clock.now() + this.#options.aheadMs()) / 1000;
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#cancel = this.#options.clock.after(delayMs, () => {
      this.#running = this.#beat().then(
        (nextMs) => this.#schedule(nextMs),
        (error: unknown) => {
          if (!this.#stopped) this.#options.onError(error);
          this.#schedule(retryMs);
        },
      );
    });
  }

  /** One look; returns the ms until the next. */
  async #beat(): Promise<number> {
    const { reader, queue, chainId, registry, owner, intervalMs, isHealthy, onBeat } = this.#options;
    if (!isHealthy()) return Math.min(retryMs, intervalMs);
    const provider = await reader.provider(owner);
    if (provider === undefined || !provider.active) return intervalMs;
    const dueMs = heartbeatDueMs(provider.lastSeen, this.#now(), intervalMs);
    if (dueMs > 0) return dueMs;
    const outcome = await queue.submit({
      key: `heartbeat:${chainId}:${registry.toLowerCase()}:${provider.lastSeen}:${Math.floor(this.#now() / 60)}`,
      to: registry,
      data: encodeFunctionData({ abi: providerRegistryAbi, functionName: "heartbeat" }),
      kind: "heartbeat",
    });
    if (outcome.status !== "success") throw new Error(`the heartbeat was ${outcome.status}: ${outcome.message}`);
    onBeat();
    return intervalMs;
  }
}
