import type { Clock, Random } from "../../protocol/clock.ts";
import { backoffDelay } from "../../chain/backoff.ts";
import type { WantedPublication } from "./plan.ts";
import type { Published, Publisher } from "./publisher.ts";

/** Options of `PublicationLoop`. */
export interface PublicationLoopOptions {
  readonly publisher: Publisher;
  /** What to publish, read at each attempt. */
  readonly wanted: () => WantedPublication;
  readonly clock: Clock;
  readonly random: Random;
  readonly onPublished: (published: Published) => void;
  readonly onError: (error: unknown) => void;
}

const backoff = { baseMs: 500, maxMs: 30_000 };
/** Until the next look while others have something to change: tokens for the stake may come, or the owner may act. */
const lookMs = 15_000;

/** Publishes until the chain says what the node wants and nothing is missing, and again whenever that changes. */
export class PublicationLoop {
  readonly #options: PublicationLoopOptions;
  #running: Promise<void> | undefined;
  #again = false;
  #failures = 0;
  #cancelRetry: () => void = () => undefined;
  #stopped = false;

  constructor(options: PublicationLoopOptions) {
    this.#options = options;
  }

  /** Publishes what is wanted now; resolves after the attempt, whatever became of it. A failed one is repeated in the background. */
  async request(): Promise<void> {
    if (this.#stopped) return;
    this.#cancelRetry();
    this.#again = this.#running !== undefined;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  /** Starts no other attempt; resolves when a running one has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelRetry();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (;;) {
      this.#again = false;
      await this.#attempt();
      if (!this.#isAskedAgain()) return;
    }
  }

  /** Whether what is wanted changed while the attempt ran. */
  #isAskedAgain(): boolean {
    return this.#again && !this.#stopped;
  }

  async #attempt(): Promise<void> {
    const { publisher, wanted, random, onPublished, onError } = this.#options;
    try {
      const published = await publisher.publish(wanted());
      this.#failures = 0;
      onPublished(published);
      if (published.warnings.length > 0) this.#scheduleAgain(lookMs);
    } catch (error) {
      if (this.#stopped) return;
      onError(error);
      const delay = backoffDelay(this.#failures, backoff, random);
      this.#failures += 1;
      this.#scheduleAgain(delay);
    }
  }

  #scheduleAgain(delayMs: number): void {
    if (this.#stopped) return;
    this.#cancelRetry();
    this.#cancelRetry = this.#options.clock.after(delayMs, () => {
      void this.request();
    });
  }
}
