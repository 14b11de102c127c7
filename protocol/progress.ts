import type { Address, Hex } from "viem";
import type { Usage } from "./usage.ts";

/** Amounts are decimal strings of wei, times are milliseconds: the same in SSE frames, the job API and the command line. */
export type ProgressEvent =
  | { readonly type: "selecting_provider"; readonly model: string }
  | {
      readonly type: "waiting_for_capacity";
      readonly model: string;
      /** Providers of the model that are full now. */
      readonly busyProviders: number;
      /** Place in the model's line, 1 = next. */
      readonly position: number;
      readonly waitedMs: number;
      readonly limitMs: number;
    }
  | {
      readonly type: "provider_selected";
      readonly model: string;
      readonly provider: Address;
      readonly policy: string;
      readonly reason: string;
    }
  | {
      readonly type: "posting_job";
      readonly model: string;
      readonly candidates: readonly Address[];
      readonly maxPayment: string;
    }
  | {
      readonly type: "job_posted";
      readonly jobId: Hex;
      readonly provider: Address;
      readonly maxPayment: string;
      readonly transactionHash: Hex;
      readonly blockNumber: number;
    }
  | { readonly type: "provider_acked"; readonly jobId: Hex; readonly provider: Address }
  | {
      readonly type: "delivered";
      readonly jobId: Hex;
      readonly provider: Address;
      readonly usage: Usage;
      readonly responseHash: Hex;
    }
  | {
      readonly type: "settled";
      readonly jobId: Hex;
      readonly provider: Address;
      readonly usage: Usage;
      /** What the provider was paid. */
      readonly payment: string;
      readonly transactionHash: Hex;
    }
  | {
      readonly type: "provider_failed";
      readonly provider: Address;
      readonly code: string;
      readonly message: string;
    }
  | { readonly type: "failed"; readonly code: string; readonly message: string };

/** How progress appears inside an OpenAI stream; see the table in docs/clients.md. */
export const progressModes = ["comment", "event", "chunk", "off"] as const;
export type ProgressMode = (typeof progressModes)[number];
