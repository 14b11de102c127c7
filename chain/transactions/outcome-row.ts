import { type Hex, isHex } from "viem";
import type { TransactionOutcome } from "./types.ts";

/** What the journal keeps of a final outcome; the receipt itself stays on the chain. */
export type StoredOutcome =
  | { readonly status: "success"; readonly hash: Hex }
  | {
      readonly status: "reverted";
      readonly hash: Hex;
      readonly errorName: string | null;
      readonly errorArgs: readonly string[];
      readonly message: string;
    };

/** Text for the journal; undefined for an outcome that left nothing on chain and is not kept. */
export function storeOutcome(outcome: TransactionOutcome): string | undefined {
  if (outcome.status === "abandoned") return undefined;
  if (outcome.status === "success")
    return JSON.stringify({ status: "success", hash: outcome.hash } satisfies StoredOutcome);
  if (outcome.hash === undefined) return undefined;
  return JSON.stringify({
    status: "reverted",
    hash: outcome.hash,
    errorName: outcome.errorName ?? null,
    errorArgs: outcome.errorArgs.map(String),
    message: outcome.message,
  } satisfies StoredOutcome);
}

/** Reads what `storeOutcome` wrote; throws on anything else, since a journal that lies must not be acted on. */
export function readStoredOutcome(text: string): StoredOutcome {
  const value = JSON.parse(text) as { readonly status?: unknown; readonly hash?: unknown };
  if ((value.status !== "success" && value.status !== "reverted") || !isHex(value.hash)) {
    throw new Error(`the journal holds an outcome that is none: ${text.slice(0, 200)}`);
  }
  return value as StoredOutcome;
}
