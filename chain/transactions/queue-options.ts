import type { LocalAccount, PublicClient } from "viem";
import type { Clock, Random } from "../../protocol/clock.ts";
import type { TransactionJournal } from "./transaction-journal.ts";

/** Places at which a kill test may end the process. */
export type CrashPoint = "simulated" | "persisted" | "sent" | "mined" | "finished";

/** What an operator should know of. */
export type QueueEvent =
  | {
      readonly type: "bumped";
      readonly key: string;
      readonly kind: string;
      readonly nonce: number;
      readonly maxFeePerGas: bigint;
    }
  | { readonly type: "fee_cap_reached"; readonly key: string; readonly kind: string; readonly nonce: number }
  | { readonly type: "foreign_nonce"; readonly key: string; readonly kind: string; readonly nonce: number }
  /** The chain had lost a transaction below one of ours, so that nothing could follow it; its nonce was used again. */
  | { readonly type: "gap_closed"; readonly key: string; readonly kind: string; readonly nonce: number }
  | { readonly type: "send_failed"; readonly key: string; readonly kind: string; readonly message: string };

/** Options of `openTransactionQueue`. Times in milliseconds. */
export interface TransactionQueueOptions {
  readonly client: PublicClient;
  readonly account: LocalAccount;
  readonly chainId: number;
  readonly journal: TransactionJournal;
  readonly clock: Clock;
  readonly random: Random;
  /** Blocks that an inclusion needs on top of it to be final, counting its own; at least 1. */
  readonly confirmations?: number;
  /** How often pending receipts are looked for when nobody pokes. */
  readonly pollMs?: number;
  /** Age of the newest sending at which the lowest nonce is sent again at a higher fee. */
  readonly stuckAfterMs?: number;
  /** How long a used nonce without a receipt of ours is put down to a lagging node before a foreign transaction is assumed. */
  readonly foreignPatienceMs?: number;
  /** Between two looks whether the node waits for a nonce below all of ours. */
  readonly gapLookMs?: number;
  /** Wei per gas never to be passed. */
  readonly feeCap?: bigint;
  readonly onEvent?: (event: QueueEvent) => void;
  readonly crashPoint?: (point: CrashPoint, key: string) => void;
}
