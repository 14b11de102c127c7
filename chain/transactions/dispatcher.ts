import type { Clock } from "../../protocol/clock.ts";
import { chainUnavailableIn, isNodeAnswer, nodeMessage } from "../rpc-errors.ts";
import { failedSimulation } from "./failed-simulation.ts";
import type { FeeSource } from "./fee-source.ts";
import type { Fees } from "./fees.ts";
import type { Intent } from "./intent.ts";
import type { IntentBook } from "./intent-book.ts";
import type { IntentEndings } from "./intent-endings.ts";
import type { IntentSigner } from "./intent-signer.ts";
import type { Lane } from "./lane.ts";
import type { Pace } from "./pace.ts";
import type { CrashPoint, QueueEvent } from "./queue-options.ts";
import type { SenderChain } from "./sender-chain.ts";
import { refusalPatienceMs, type Sending } from "./sending.ts";

/** What a dispatcher works with. */
interface DispatcherParts {
  readonly clock: Clock;
  readonly book: IntentBook;
  readonly chain: SenderChain;
  readonly fees: FeeSource;
  readonly signer: IntentSigner;
  readonly sending: Sending;
  readonly endings: IntentEndings;
  readonly lane: Lane;
  readonly pace: Pace;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
  readonly crashPoint: ((point: CrashPoint, key: string) => void) | undefined;
  /** Starts the watch over what is in flight. */
  readonly watch: () => void;
}

/** Brings intents onto the chain that have no nonce, or have lost theirs: simulates, allocates, signs, sends. */
export class Dispatcher {
  readonly #clock: Clock;
  readonly #book: IntentBook;
  readonly #chain: SenderChain;
  readonly #fees: FeeSource;
  readonly #signer: IntentSigner;
  readonly #sending: Sending;
  readonly #endings: IntentEndings;
  readonly #lane: Lane;
  readonly #pace: Pace;
  readonly #onEvent: DispatcherParts["onEvent"];
  readonly #crashPoint: DispatcherParts["crashPoint"];
  readonly #watch: () => void;

  constructor(parts: DispatcherParts) {
    this.#clock = parts.clock;
    this.#book = parts.book;
    this.#chain = parts.chain;
    this.#fees = parts.fees;
    this.#signer = parts.signer;
    this.#sending = parts.sending;
    this.#endings = parts.endings;
    this.#lane = parts.lane;
    this.#pace = parts.pace;
    this.#onEvent = parts.onEvent;
    this.#crashPoint = parts.crashPoint;
    this.#watch = parts.watch;
  }

  /** Runs the call against the current state. False when it ended the intent. Waits out an unreachable chain within `until`. */
  async simulated(intent: Intent, until: number | undefined): Promise<boolean> {
    for (let attempt = 0; ; attempt += 1) {
      this.#pace.throwIfClosed();
      try {
        await this.#chain.estimate(intent);
        return true;
      } catch (error) {
        if (chainUnavailableIn(error) === undefined) {
          await this.#endings.end(intent, failedSimulation(error));
          return false;
        }
        if (this.#pace.isLate(until)) {
          await this.#endings.giveUp(intent, `the chain could not be reached in time: ${nodeMessage(error)}`);
          return false;
        }
      }
      await this.#pace.retryPause(attempt);
    }
  }

  /** Gives an intent the next nonce, signs and sends it; once more where the nonce turns out to be another's. Only in the lane. */
  async allocateAndSend(intent: Intent, until: number | undefined): Promise<void> {
    const startedAt = this.#clock.monotonic();
    for (let attempt = 0; ; attempt += 1) {
      this.#pace.throwIfClosed();
      if (this.#pace.isLate(until)) {
        await this.#endings.giveUp(intent, "it could not be sent in time");
        return;
      }
      let fees: Fees;
      let nonce: number;
      try {
        fees = await this.#fees.current();
        nonce = this.#book.nextNonce ??= this.#book.firstFreeNonce(await this.#chain.pendingCount());
      } catch (error) {
        if (chainUnavailableIn(error) === undefined && !isNodeAnswer(error)) throw error;
        if (chainUnavailableIn(error) === undefined && this.#clock.monotonic() - startedAt >= refusalPatienceMs) {
          await this.#endings.giveUp(intent, `the node does not tell fees or nonce: ${nodeMessage(error)}`);
          return;
        }
        await this.#pace.retryPause(attempt);
        continue;
      }
      await this.#signer.sign(intent, nonce, fees);
      this.#book.nextNonce = intent.nonce + 1;
      this.#book.byNonce.set(intent.nonce, intent);
      this.#crashPoint?.("persisted", intent.key);
      const result = await this.#sending.sendUntilDecided(intent, until);
      this.#crashPoint?.("sent", intent.key);
      if (result === "accepted") {
        this.#watch();
        return;
      }
      this.#book.freeNonce(intent);
      if (result.kind === "refused") {
        await this.#endings.giveUp(intent, result.message);
        return;
      }
      this.loseNonce(intent, result.isProven);
      // Its purpose may be fulfilled, or past: only what is still possible takes the next nonce.
      if (!(await this.simulated(intent, until))) return;
    }
  }

  /** Another transaction has its nonce: it needs a new one. */
  loseNonce(intent: Intent, isProven: boolean): void {
    this.#onEvent?.({ type: "foreign_nonce", key: intent.key, kind: intent.kind, nonce: intent.nonce });
    this.#book.nextNonce = undefined;
    intent.misses = 0;
    intent.mayBeTaken = false;
    intent.earlierInDoubt ||= !isProven;
  }

  /** Simulates and sends an intent that lost its nonce; its simulation shows when its purpose is already fulfilled. */
  again(intent: Intent): void {
    const run = async (): Promise<void> => {
      if (!(await this.simulated(intent, undefined))) return;
      await this.#lane.run(async () => await this.allocateAndSend(intent, undefined));
    };
    run().catch((error: unknown) => {
      if (this.#pace.isClosed) return;
      this.#onEvent?.({ type: "send_failed", key: intent.key, kind: intent.kind, message: nodeMessage(error) });
      this.#endings.failed(intent, error);
    });
  }
}
