import type { Address, Hex, LocalAccount } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import type { MessageDomain } from "../../protocol/messages.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { CapacityLines, WaitOutcome } from "../capacity/capacity-lines.ts";
import type { DecisionRecord } from "../routing/decision-record.ts";
import type { Selection } from "../routing/types.ts";
import type { ProviderConnections } from "../upstream/connections.ts";
import type { ChainTime } from "./chain-time.ts";
import type { EscrowCalls, EscrowTerms } from "./escrow-calls.ts";
import type { ProviderSigners } from "./provider-signatures.ts";
import type { Grant, SelectionSources } from "./selection.ts";
import type { Settlement } from "./settlement.ts";
import type { Treasury } from "./treasury.ts";

/** Times and bounds of one request. Times in ms unless named otherwise. */
export interface RequestLimits {
  /** Seconds of chain time that a job may take. */
  readonly deadlineSeconds: number;
  readonly ackTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly maxAnswerBytes: number;
  /** Jobs that one request may post. */
  readonly maxAttempts: number;
  /** How long a provider that said it is full counts as full. */
  readonly fullForMs: number;
}

/** What one request's life needs of the gateway. */
export interface RequestContext extends SelectionSources {
  readonly lines: CapacityLines<Grant>;
  readonly calls: Pick<EscrowCalls, "jobIdOf" | "post">;
  readonly treasury: Pick<Treasury, "topUp">;
  readonly chainTime: ChainTime;
  readonly terms: () => EscrowTerms;
  readonly account: LocalAccount;
  readonly domain: MessageDomain;
  readonly connections: ProviderConnections;
  readonly settlement: Settlement;
  readonly limits: RequestLimits;
  readonly observer: RequestObserver;
  /** A fresh client nonce. */
  nextNonce(): bigint;
  /** A post was mined: the index has something to read. */
  posted(): void;
  /** Whether the wallet has ETH for gas. */
  hasGas(): Promise<boolean>;
  readonly clock: Clock;
}

/** Where the time of a request goes. */
export type RequestStep = "select" | "wait" | "post" | "acknowledge" | "first_byte" | "deliver" | "settle";

/** Told of what happens, for metrics and logs. All words are bounded. */
export interface RequestObserver {
  /** A request had its last answer of a selection: the one that it goes by. */
  decided(requestId: string, selection: Selection, decision: DecisionRecord): void;
  waited(model: string | undefined, outcome: WaitOutcome<unknown>["kind"], waitedMs: number): void;
  attemptFailed(jobId: Hex, provider: Address, reason: string): void;
  firstByte(modelId: string, sinceArrivalMs: number, sinceSentMs: number): void;
  /** One step of a request took so long. */
  step(step: RequestStep, tookMs: number): void;
  /** @param generatingMs From the first content to the end; undefined when it was not streamed. */
  delivered(modelId: string, usage: Usage, generatingMs: number | undefined): void;
}

/** Who may sign for a provider, by the newest snapshot. */
export function signersOf(context: Pick<RequestContext, "published">, provider: Address): ProviderSigners {
  return { provider, operator: context.published()?.snapshot.provider(provider)?.operator ?? provider };
}
