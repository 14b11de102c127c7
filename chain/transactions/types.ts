import type { Address, Hex, TransactionReceipt } from "viem";

/** What a caller wants on chain. `key` makes it idempotent: the same key never leads to two mined transactions. */
export interface TransactionRequest {
  /**
   * Unique per intent, e.g. `post:<jobId>`. Asking again while it runs, or after it was mined, returns the first one's outcome. A key
   * whose simulation reverted, or that was abandoned, may be submitted afresh; one that is undecided then goes on with its own nonce, so
   * that it is still mined at most once.
   */
  readonly key: string;
  readonly to: Address;
  readonly data: Hex;
  /** For logs and metrics: a bounded word such as `postJobAny`. */
  readonly kind: string;
  /** Gas limit; estimated when absent. */
  readonly gas?: bigint;
  /** Ms from `submit` within which the node must have taken the transaction, else it is abandoned. */
  readonly sendWithinMs?: number;
  /**
   * Ms from `submit` within which the caller is answered: with `abandoned` and `undecided` when nothing is known by then. The
   * transaction goes on, and `isPending` tells until when.
   */
  readonly answerWithinMs?: number;
}

/** How an intent ended. `reverted` without a hash was found out by simulation and cost nothing. */
export type TransactionOutcome =
  | { readonly status: "success"; readonly hash: Hex; readonly receipt: TransactionReceipt }
  | {
      readonly status: "reverted";
      readonly hash: Hex | undefined;
      readonly errorName: string | undefined;
      readonly errorArgs: readonly unknown[];
      readonly message: string;
    }
  /**
   * Not sent or not mined in time, or refused by the node. `undecided`: it may be on the chain or still come there; the queue goes on
   * watching, and `isPending` stays true until it is known. Else nothing is on the chain, nor ever will be.
   */
  | { readonly status: "abandoned"; readonly message: string; readonly undecided: boolean };

/** The one sender of one key on one chain. */
export interface TransactionQueue {
  readonly address: Address;
  /**
   * Simulates, allocates the nonce, persists the intent, sends, watches. Resolves when the outcome is final on the current chain;
   * never rejects for a revert. Rejects when the queue is closed (the intent stays in the journal and is resumed at the next start), or
   * when the journal fails.
   */
  submit(request: TransactionRequest): Promise<TransactionOutcome>;
  /**
   * Outcome of an intent that was journaled earlier, once known or given up; undefined when the key left nothing. Undecided when it was
   * mined, but the node does not show its receipt.
   */
  outcomeOf(key: string): Promise<TransactionOutcome | undefined>;
  /** Whether it is not known yet what becomes of an intent. */
  isPending(key: string): boolean;
  /** Intents not final, for metrics and draining. */
  readonly pending: number;
  /** Stops sending; journaled intents stay. */
  close(): Promise<void>;
}
