import type { Address, Hex } from "viem";
import type { Fees } from "./fees.ts";
import type { JournaledIntent } from "./transaction-journal.ts";
import type { TransactionOutcome } from "./types.ts";

/** Polls in a row, besides the patience, after which a used nonce without a receipt of ours is taken for a foreign transaction's. */
export const missesUntilForeign = 3;

/** An intent from allocation to its end. Mutable on purpose: one owner, the queue. */
export interface Intent {
  readonly key: string;
  readonly kind: string;
  readonly to: Address;
  readonly data: Hex;
  /** The gas limit that the caller fixed; undefined = estimate. */
  readonly fixedGas: bigint | undefined;
  readonly createdAt: number;
  /** Gas limit in use once simulated. */
  gas: bigint;
  /** The newest nonce that it was signed for; -1 = none yet. */
  nonce: number;
  /** The lowest nonce that it was signed for. */
  firstNonce: number;
  /** Every hash ever signed, oldest first. */
  hashes: Hex[];
  /** Fees of the newest hash; undefined after a restart. */
  fees: Fees | undefined;
  /** Raw bytes of the newest hash; undefined after a restart. */
  raw: Hex | undefined;
  /** Monotonic ms of the newest sending. */
  sentAt: number;
  /** The newest block when its fees were raised last, or were tried to be. */
  raisedAt: bigint | undefined;
  /** Polls in a row in which the nonce was used but none of the hashes had a receipt. */
  misses: number;
  /** Monotonic ms of the first of these polls. */
  missedSince: number;
  /** Looks at which it was seen to have reverted and the node could not be asked why. */
  unexplained: number;
  /** Whether a row of it is in the journal. */
  journaled: boolean;
  /** A sending for the newest nonce was accepted, or had no answer: it may be on the chain. */
  mayBeTaken: boolean;
  /** It may be on the chain with a nonce before: that another transaction used it is likely, but not proven. */
  earlierInDoubt: boolean;
  /** Its outcome is being written. */
  isEnding: boolean;
  /** Its callers were told that it is undecided; its nonce is free for others, and whoever is mined first decides. */
  isGivenUp: boolean;
  /** What its callers wait for: the outcome, or that it was given up. */
  told: PromiseWithResolvers<TransactionOutcome>;
}

/** A new intent that has no nonce yet. */
export function newIntent(values: {
  readonly key: string;
  readonly kind: string;
  readonly to: Address;
  readonly data: Hex;
  readonly gas: bigint | undefined;
  readonly createdAt: number;
}): Intent {
  return {
    key: values.key,
    kind: values.kind,
    to: values.to,
    data: values.data,
    fixedGas: values.gas,
    createdAt: values.createdAt,
    gas: values.gas ?? 0n,
    nonce: -1,
    firstNonce: Number.MAX_SAFE_INTEGER,
    hashes: [],
    fees: undefined,
    raw: undefined,
    sentAt: 0,
    raisedAt: undefined,
    misses: 0,
    missedSince: 0,
    unexplained: 0,
    journaled: false,
    mayBeTaken: false,
    earlierInDoubt: false,
    isEnding: false,
    isGivenUp: false,
    told: newTold(),
  };
}

/** Whether a transaction of it may be on the chain. */
export function isInDoubt(intent: Intent): boolean {
  return intent.mayBeTaken || intent.earlierInDoubt;
}

/** A promise for the callers that come from now on. */
export function newTold(): PromiseWithResolvers<TransactionOutcome> {
  const told = Promise.withResolvers<TransactionOutcome>();
  // Whoever is interested awaits it; a resumed intent may have nobody.
  told.promise.catch(() => undefined);
  return told;
}

/** An intent as a restarted process finds it in the journal. */
export function intentFromRow(row: JournaledIntent): Intent {
  const intent = newIntent({
    key: row.key,
    kind: row.kind,
    to: row.to,
    data: row.data,
    gas: undefined,
    createdAt: row.createdAt,
  });
  intent.gas = row.gas === null ? 0n : BigInt(row.gas);
  intent.nonce = row.nonce ?? -1;
  // Which nonces its earlier hashes were signed for is not known any more.
  intent.firstNonce = row.hashes.length > 1 || row.nonce === null ? 0 : row.nonce;
  intent.hashes = [...row.hashes];
  intent.journaled = true;
  // Not by this process: where it is not found out at the start what became of it, it is sent again without a wait.
  intent.sentAt = Number.NEGATIVE_INFINITY;
  if (row.status === "given_up") {
    intent.isGivenUp = true;
    intent.told.resolve({ status: "abandoned", message: "an earlier process gave it up", undecided: true });
  }
  // Whether its last sending was answered is not known any more.
  intent.mayBeTaken = true;
  return intent;
}
