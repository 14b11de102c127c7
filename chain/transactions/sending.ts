import type { PublicClient } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { chainUnavailableIn, isInternalError, isNodeAnswer, nodeMessage } from "../rpc-errors.ts";
import type { FeeSource } from "./fee-source.ts";
import { type Intent, missesUntilForeign } from "./intent.ts";
import type { IntentSigner } from "./intent-signer.ts";
import type { Pace } from "./pace.ts";
import type { QueueEvent } from "./queue-options.ts";
import type { SenderChain } from "./sender-chain.ts";

/** How a sending went: the node has it, or why it has not. */
export type SendResult =
  | "accepted"
  /** Nobody will take it as it is. */
  | { readonly kind: "refused"; readonly message: string }
  /** Its nonce is another's. `isProven`: the other transaction was seen. */
  | { readonly kind: "nonce_taken"; readonly isProven: boolean; readonly message: string };

/** How long a node that says no is asked again: a full pool and a fee that just rose pass. The lane stands still meanwhile. */
export const refusalPatienceMs = 5000;

/** What a sending works with. */
interface SendingParts {
  readonly client: PublicClient;
  readonly chain: SenderChain;
  readonly signer: IntentSigner;
  readonly fees: FeeSource;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
  /** Gives the node the nonces from one to below another. */
  readonly fillGap: (from: number, below: number) => Promise<void>;
}

/** Brings signed transactions to the node. Only in the lane: what it finds changes nonces that others hold. */
export class Sending {
  readonly #client: PublicClient;
  readonly #chain: SenderChain;
  readonly #signer: IntentSigner;
  readonly #fees: FeeSource;
  readonly #pace: Pace;
  readonly #clock: Clock;
  readonly #onEvent: SendingParts["onEvent"];
  readonly #fillGap: SendingParts["fillGap"];

  constructor(parts: SendingParts) {
    this.#client = parts.client;
    this.#chain = parts.chain;
    this.#signer = parts.signer;
    this.#fees = parts.fees;
    this.#pace = parts.pace;
    this.#clock = parts.clock;
    this.#onEvent = parts.onEvent;
    this.#fillGap = parts.fillGap;
  }

  /**
   * Sends the newest signed transaction until it is known what became of it. What a node answers to a send is not believed: the
   * chain is read instead.
   *
   * @param until Monotonic ms after which it is not sent any more.
   */
  async sendUntilDecided(intent: Intent, until?: number): Promise<SendResult> {
    const startedAt = this.#clock.monotonic();
    for (let attempt = 0; ; attempt += 1) {
      this.#pace.throwIfClosed();
      const { raw } = intent;
      if (raw === undefined || intent.isEnding) return "accepted";
      let failure: unknown;
      try {
        await this.#client.sendRawTransaction({ serializedTransaction: raw });
        return this.#accepted(intent);
      } catch (error) {
        failure = error;
        // No answer is no refusal, nor is a fault inside the node, such as of one of several behind one address: it may have taken it.
        intent.mayBeTaken ||= chainUnavailableIn(error) !== undefined || isInternalError(error);
      }
      try {
        const result = await this.#judgeFailure(intent, failure, { attempt, startedAt, until });
        if (result !== undefined) return result;
        if (this.#pace.isLate(until))
          return { kind: "refused", message: `it could not be sent: ${nodeMessage(failure)}` };
      } catch (error) {
        if (chainUnavailableIn(error) === undefined && !isNodeAnswer(error)) throw error;
        const isOutOfPatience = isNodeAnswer(error) && this.#clock.monotonic() - startedAt >= refusalPatienceMs;
        if (this.#pace.isLate(until) || isOutOfPatience)
          return { kind: "refused", message: `the chain could not be asked in time: ${nodeMessage(error)}` };
      }
      await this.#pace.retryPause(attempt);
    }
  }

  #accepted(intent: Intent): "accepted" {
    intent.mayBeTaken = true;
    intent.sentAt = this.#clock.monotonic();
    return "accepted";
  }

  /** Reads from the chain what a failed sending means; undefined = send again. */
  async #judgeFailure(
    intent: Intent,
    failure: unknown,
    tries: { readonly attempt: number; readonly startedAt: number; readonly until: number | undefined },
  ): Promise<SendResult | undefined> {
    if (await this.#chain.known(intent)) return this.#accepted(intent);
    const message = nodeMessage(failure);
    const [latest, pendingCount] = await this.#chain.counts();
    if (latest > intent.nonce || pendingCount > intent.nonce) {
      // Used, or claimed in the pool: by ours, which a lagging node may not show yet, or by another. Watching finds out.
      if (intent.mayBeTaken) return this.#accepted(intent);
      if (tries.attempt + 1 < missesUntilForeign) return undefined;
      if (latest > intent.nonce) {
        const user = await this.#chain.userOfNonce(intent);
        return user === "ours"
          ? this.#accepted(intent)
          : { kind: "nonce_taken", isProven: user === "another", message };
      }
      this.#fees.forget();
      return (await this.#signer.raiseFees(intent)) ? undefined : { kind: "nonce_taken", isProven: false, message };
    }
    if (pendingCount < intent.nonce) {
      // The node waits for what is below.
      await this.#fillGap(pendingCount, intent.nonce);
      return tries.attempt > 20 ? { kind: "refused", message } : undefined;
    }
    if (chainUnavailableIn(failure) !== undefined) return undefined;
    this.#onEvent?.({ type: "send_failed", key: intent.key, kind: intent.kind, message });
    // The node heard it and said no: again with the market's fees of then, for as long as that may pass.
    const isPatient = this.#clock.monotonic() - tries.startedAt < refusalPatienceMs;
    if (!isPatient || (await this.#chain.cannotPay(intent))) return { kind: "refused", message };
    this.#fees.forget();
    await this.#signer.resign(intent);
    return undefined;
  }
}
