import { type Hex, keccak256, type LocalAccount } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { FeeSource } from "./fee-source.ts";
import { type Fees, replacementFees } from "./fees.ts";
import type { Intent } from "./intent.ts";
import type { QueueEvent } from "./queue-options.ts";
import type { TransactionJournal } from "./transaction-journal.ts";

/** What a signer works with. */
interface SignerParts {
  readonly account: LocalAccount;
  readonly chainId: number;
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly fees: FeeSource;
  /** Wei per gas never to be passed. */
  readonly feeCap: bigint;
  readonly onEvent: ((event: QueueEvent) => void) | undefined;
}

/** Signs intents. Nothing is signed that the journal does not know. */
export class IntentSigner {
  readonly #account: LocalAccount;
  readonly #chainId: number;
  readonly #journal: TransactionJournal;
  readonly #clock: Clock;
  readonly #fees: FeeSource;
  readonly #feeCap: bigint;
  readonly #onEvent: SignerParts["onEvent"];

  constructor(parts: SignerParts) {
    this.#account = parts.account;
    this.#chainId = parts.chainId;
    this.#journal = parts.journal;
    this.#clock = parts.clock;
    this.#fees = parts.fees;
    this.#feeCap = parts.feeCap;
    this.#onEvent = parts.onEvent;
  }

  /**
   * Signs an intent for a nonce, and writes nonce and hashes before anything else knows of them: a hash that the journal does not know
   * can never be on the chain, and a failed write leaves the intent as it was.
   */
  async sign(intent: Intent, nonce: number, fees: Fees): Promise<void> {
    const raw = await this.#account.signTransaction({
      type: "eip1559",
      chainId: this.#chainId,
      nonce,
      to: intent.to,
      data: intent.data,
      gas: intent.gas,
      ...fees,
    });
    // Its end is being written: nothing may be written over it.
    if (intent.isEnding) return;
    const hash = keccak256(raw);
    const hashes = intent.hashes.includes(hash) ? intent.hashes : [...intent.hashes, hash];
    await this.#persist(intent, nonce, hashes);
    intent.firstNonce = Math.min(intent.firstNonce, nonce);
    intent.nonce = nonce;
    intent.hashes = hashes;
    intent.fees = fees;
    intent.raw = raw;
    intent.misses = 0;
  }

  /** Signs the same nonce again with current fees, without requiring them to be higher: the earlier one was never taken. */
  async resign(intent: Intent): Promise<void> {
    await this.sign(intent, intent.nonce, await this.#fees.current());
  }

  /** Signs the same nonce at fees that replace a pooled transaction. False when the cap forbids it. */
  async raiseFees(intent: Intent): Promise<boolean> {
    const market = await this.#fees.current();
    const fees = replacementFees(intent.fees ?? market, market, this.#feeCap);
    if (fees === undefined) {
      this.#onEvent?.({ type: "fee_cap_reached", key: intent.key, kind: intent.kind, nonce: intent.nonce });
      return false;
    }
    await this.sign(intent, intent.nonce, fees);
    this.#onEvent?.({
      type: "bumped",
      key: intent.key,
      kind: intent.kind,
      nonce: intent.nonce,
      maxFeePerGas: fees.maxFeePerGas,
    });
    return true;
  }

  async #persist(intent: Intent, nonce: number, hashes: readonly Hex[]): Promise<void> {
    const now = this.#clock.now();
    const mutable = {
      nonce,
      hashes: [...hashes],
      status: "sent",
      outcome: null,
      gas: String(intent.gas),
      updatedAt: now,
    } as const;
    if (!intent.journaled) {
      const inserted = await this.#journal.insertTransaction({
        key: intent.key,
        sender: this.#account.address,
        chainId: this.#chainId,
        kind: intent.kind,
        to: intent.to,
        data: intent.data,
        createdAt: intent.createdAt,
        ...mutable,
      });
      intent.journaled = true;
      if (inserted) return;
    }
    await this.#journal.updateTransaction(intent.key, mutable);
  }
}
