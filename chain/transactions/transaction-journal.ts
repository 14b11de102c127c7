import type { Address, Hex } from "viem";

/** An intent as the journal keeps it. The same shape as `TransactionRow` of the store, which this folder does not know. */
export interface JournaledIntent {
  readonly key: string;
  readonly sender: Address;
  readonly chainId: number;
  readonly kind: string;
  readonly to: Address;
  readonly data: Hex;
  /** Gas limit, decimal. */
  readonly gas: string | null;
  readonly nonce: number | null;
  /** All hashes ever signed, oldest first. */
  readonly hashes: readonly Hex[];
  /** `given_up`: its caller has let it go, and what becomes of its nonce is not known yet. */
  readonly status: "queued" | "allocated" | "sent" | "given_up" | "success" | "reverted" | "abandoned";
  readonly outcome: string | null;
  /** Unix milliseconds. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What the transaction queue needs of the durable journal. Every resolved write survives a power cut. */
export interface TransactionJournal {
  /** Inserts a new intent; false when the key exists. */
  insertTransaction(row: JournaledIntent): Promise<boolean>;
  /** Replaces the mutable fields of an intent. Rejects when the key is unknown. */
  updateTransaction(
    key: string,
    change: Partial<Pick<JournaledIntent, "nonce" | "hashes" | "status" | "outcome" | "gas" | "updatedAt">>,
  ): Promise<void>;
  transaction(key: string): Promise<JournaledIntent | undefined>;
  /** Intents of a sender that are not final, by nonce then age. */
  openTransactions(sender: Address, chainId: number): Promise<readonly JournaledIntent[]>;
  /** Intents of a sender that were mined with a nonce from `fromNonce` on, by nonce. */
  minedTransactions(sender: Address, chainId: number, fromNonce: number): Promise<readonly JournaledIntent[]>;
}
