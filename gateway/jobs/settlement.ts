import type { Address, Hex, LocalAccount } from "viem";
import { sleep } from "../../chain/sleep.ts";
import type { Clock } from "../../protocol/clock.ts";
import { type MessageDomain, receiptTypedData } from "../../protocol/messages.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { UsageStatementWire } from "../../protocol/wire.ts";
import { type AttemptDocument, isTerminalState } from "./job-document.ts";
import type { JobRecord } from "./job-record.ts";
import type { Delivered } from "./provider-answer.ts";
import type { ProviderDesk } from "./provider-desk.ts";
import { isStatement, type ProviderSigners } from "./provider-signatures.ts";
import { checkDelivery, checkPartial, outputTokensAtMost, type UsageBounds } from "./usage-check.ts";

/** One whole answer to be agreed on. */
export interface DeliveredAnswer {
  readonly signers: ProviderSigners;
  readonly delivered: Delivered;
  readonly bounds: UsageBounds;
  readonly streamed: boolean;
}

/** Options of `Settlement`. */
export interface SettlementOptions {
  readonly account: LocalAccount;
  readonly domain: MessageDomain;
  readonly desk: ProviderDesk;
  readonly clock: Clock;
  /** Where a provider answers by the newest snapshot; undefined when there is none, or the provider is not in it. */
  readonly endpointOf: (provider: Address) => string | undefined;
  readonly onDisagreement: (provider: Address, kind: string) => void;
  /** Told how a receipt was received, for metrics. */
  readonly onReceipt: (outcome: string) => void;
}

/** How long, in ms, a provider that was cut off is asked for its statement before the janitor takes over. */
const partPausesMs: readonly number[] = [50, 200, 500, 1000, 2000, 4000];
/** The same for a receipt that could not be handed over. */
const receiptPausesMs: readonly number[] = [100, 500, 2000];

/** Ms in which a provider must say that it works on a job: its silence holds up a client. */
const probePatienceMs = 2500;
/** A provider's words for a job whose answer is, or was just, being made. */
const workingStates: ReadonlySet<string> = new Set(["accepted", "delivered", "receipted", "settling", "settled"]);

/** What follows an answer: agree with the provider on what was delivered, sign it, hand the receipt over. Off the client's path. */
export class Settlement {
  readonly #options: SettlementOptions;
  readonly #running = new Set<Promise<void>>();
  readonly #stopped = new AbortController();

  constructor(options: SettlementOptions) {
    this.#options = options;
  }

  /** Talks with providers that are under way. */
  get pending(): number {
    return this.#running.size;
  }

  /** Begins no further try: a talk under way ends with the one it is at, and the next process's janitor takes it up. */
  stop(): void {
    this.#stopped.abort();
  }

  /** Resolves when no talk is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  /** Agrees on a whole answer and signs it. Resolves with the usage that was signed; undefined when there is nothing to sign. */
  async delivered(record: JobRecord, jobId: Hex, answer: DeliveredAnswer): Promise<Usage | undefined> {
    const { signers, delivered, bounds } = answer;
    const statement = await this.#checkedStatement(record, jobId, signers, delivered.statement);
    const verdict = checkDelivery({
      statement,
      seenUsage: delivered.usage,
      seenHash: delivered.responseHash,
      bounds,
      outputTokensSeen: answer.streamed ? outputTokensAtMost(delivered) : undefined,
    });
    if (verdict.disagreement !== undefined) this.#options.onDisagreement(signers.provider, verdict.disagreement);
    if (verdict.sign === undefined) {
      record.updateAttempt(jobId, { state: "delivered" });
      await record.save();
      return undefined;
    }
    await this.#sign(record, jobId, signers.provider, verdict.sign);
    return verdict.sign.usage;
  }

  /** The client went, or the answer broke, in the middle: agrees on the part that was delivered, in the background. */
  agreeOnPart(record: JobRecord, jobId: Hex, signers: ProviderSigners): void {
    this.#track(this.#agreeOnPart(record, jobId, signers));
  }

  /** The consent by which a provider says that it has the job in hand, not checked; undefined when it does not say so. */
  async consentOf(endpoint: string, jobId: Hex): Promise<Hex | undefined> {
    const state = await this.#options.desk.stateOf(endpoint, jobId, probePatienceMs);
    return state !== undefined && workingStates.has(state.status) ? state.acknowledgement : undefined;
  }

  /** One try to agree on a part; false when the provider has no statement (yet). */
  async tryPart(record: JobRecord, jobId: Hex, signers: ProviderSigners): Promise<boolean> {
    const attempt = record.attempt(jobId);
    if (attempt?.partial === undefined) return false;
    const statement = await this.#askStatement(attempt, signers);
    if (statement === undefined) return false;
    // What was seen may be agreed on by now: a talk of the request's own and one of the janitor can overlap.
    const { partial } = record.attempt(jobId) ?? attempt;
    if (partial === undefined) return true;
    await this.#sign(record, jobId, signers.provider, checkPartial(statement, partial.atMost));
    return true;
  }

  /** One try to hand a signed receipt over; true when the provider wants to hear no more of it. */
  async tryReceipt(record: JobRecord, jobId: Hex): Promise<boolean> {
    const attempt = record.attempt(jobId);
    if (attempt?.receipt === undefined) return true;
    if (attempt.receiptTaken === true || isTerminalState(attempt.state)) return true;
    for (const endpoint of this.#endpointsOf(attempt)) {
      const outcome = await this.#options.desk.giveReceipt(endpoint, jobId, attempt.receipt);
      this.#options.onReceipt(outcome.kind);
      if (outcome.kind === "unreachable" || outcome.kind === "refused") continue;
      if (outcome.kind === "disputed" && attempt.provider !== undefined) {
        this.#options.onDisagreement(attempt.provider, "receipt_disputed");
      }
      record.updateAttempt(jobId, { receiptTaken: true });
      record.saveLater();
      return true;
    }
    return false;
  }

  /** Where the provider answers now, then where it was asked: it may have moved since, or be about to. */
  #endpointsOf({ provider, endpoint }: AttemptDocument): readonly string[] {
    const published = provider === undefined ? undefined : this.#options.endpointOf(provider);
    return [...new Set([published, endpoint])].filter((known) => known !== undefined);
  }

  /** The provider's word on a job; only with its signature. */
  async #askStatement(attempt: AttemptDocument, signers: ProviderSigners): Promise<UsageStatementWire | undefined> {
    const { desk, domain } = this.#options;
    for (const endpoint of this.#endpointsOf(attempt)) {
      const statement = (await desk.stateOf(endpoint, attempt.jobId))?.statement;
      if (statement !== undefined && isStatement(domain, signers, attempt.jobId, statement)) return statement;
    }
    return undefined;
  }

  async #agreeOnPart(record: JobRecord, jobId: Hex, signers: ProviderSigners): Promise<void> {
    for (const pause of partPausesMs) {
      await this.#pause(pause);
      if (record.attempt(jobId)?.partial === undefined) return;
      if (await this.tryPart(record, jobId, signers)) return;
    }
    record.saveSoon();
  }

  /** The statement that came with the answer, else the one that the provider gives when asked; only with its signature. */
  async #checkedStatement(
    record: JobRecord,
    jobId: Hex,
    signers: ProviderSigners,
    given: UsageStatementWire | undefined,
  ): Promise<UsageStatementWire | undefined> {
    if (given !== undefined) return isStatement(this.#options.domain, signers, jobId, given) ? given : undefined;
    const attempt = record.attempt(jobId);
    return attempt === undefined ? undefined : await this.#askStatement(attempt, signers);
  }

  async #sign(
    record: JobRecord,
    jobId: Hex,
    provider: Address,
    sign: { readonly usage: Usage; readonly responseHash: Hex },
  ): Promise<void> {
    const signature = await this.#options.account.signTypedData(
      receiptTypedData(this.#options.domain, { jobId, provider, ...sign }),
    );
    const attempt = record.attempt(jobId);
    if (attempt === undefined || isTerminalState(attempt.state)) return;
    record.clearPartial(jobId);
    record.updateAttempt(jobId, {
      state: "delivered",
      receipt: { ...sign, signature },
      usage: sign.usage,
      deliveredAt: this.#options.clock.now(),
    });
    record.progress({ type: "delivered", jobId, provider, ...sign });
    await record.save();
    this.#track(this.#handOver(record, jobId));
  }

  async #handOver(record: JobRecord, jobId: Hex): Promise<void> {
    if (await this.tryReceipt(record, jobId)) return;
    for (const pause of receiptPausesMs) {
      await this.#pause(pause);
      if (await this.tryReceipt(record, jobId)) return;
    }
  }

  /** Rejects at the stop, which ends the talk. */
  async #pause(ms: number): Promise<void> {
    await sleep(this.#options.clock, ms, this.#stopped.signal);
  }

  #track(work: Promise<void>): void {
    const guarded = work
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(guarded);
      });
    this.#running.add(guarded);
  }
}
