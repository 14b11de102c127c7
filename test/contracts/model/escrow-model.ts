import type { RegistryModel } from "./registry-model.ts";
import {
  type AccountRow,
  type Emitted,
  type JobRow,
  type ModelParameters,
  Refused,
  refuseIf,
  type State,
  Status,
  ZERO_ADDRESS,
} from "./state.ts";
import { moveTokens } from "./token-model.ts";

const MAX_BALANCE = 2n ** 112n - 1n;
const MAX_CANDIDATES = 8;
const MAX_BATCH = 50;
const PRICE_UNIT = 1_000_000n;

export interface ModelTerms {
  readonly nonce: bigint;
  readonly modelKey: string;
  readonly maxPayment: bigint;
  readonly unsignedLimit: bigint;
  readonly maxInputPrice: bigint;
  readonly maxOutputPrice: bigint;
  readonly deadline: bigint;
}

export interface ModelUsage {
  readonly inputTokens: bigint;
  readonly outputTokens: bigint;
}

/** A claim for payment. `signer`: who signed exactly this claim as a receipt; `undefined` when it comes without a signature. */
export interface Claim {
  readonly jobId: string;
  readonly usage: ModelUsage;
  readonly responseHash: string;
  readonly signer: string | undefined;
}

/** `JobEscrow`, written down from its interface. Changes the state it is given; a refusal leaves it half changed. */
export class EscrowModel {
  readonly #state: State;
  readonly #parameters: ModelParameters;
  readonly #registry: RegistryModel;
  readonly #self: string;
  readonly #admin: string;
  readonly #jobIdOf: (client: string, nonce: bigint) => string;
  readonly #emit: (event: Emitted) => void;

  constructor(
    state: State,
    parameters: ModelParameters,
    registry: RegistryModel,
    world: {
      readonly escrow: string;
      readonly admin: string;
      readonly jobIdOf: (client: string, nonce: bigint) => string;
    },
    emit: (event: Emitted) => void,
  ) {
    this.#state = state;
    this.#parameters = parameters;
    this.#registry = registry;
    this.#self = world.escrow;
    this.#admin = world.admin;
    this.#jobIdOf = world.jobIdOf;
    this.#emit = emit;
  }

  // --------------------------------------------------------------------------------------------------------------- money

  deposit(caller: string, account: string, amount: bigint): void {
    if (account !== caller) this.#requireReachable(account);
    moveTokens(this.#state, caller, this.#self, amount);
    refuseIf(amount === 0n, "InvalidAmount", amount);
    this.#credit(account, amount);
    this.#emit({ name: "Deposited", args: [account, caller, amount] });
  }

  withdraw(account: string, amount: bigint, to: string): void {
    refuseIf(amount === 0n, "InvalidAmount", amount);
    this.#requireReachable(to);
    const row = this.#account(account);
    refuseIf(amount > row.free, "InsufficientBalance", account, row.free, amount);
    row.free -= amount;
    this.#emit({ name: "Withdrawn", args: [account, to, amount] });
    moveTokens(this.#state, this.#self, to, amount);
  }

  withdrawProvider(caller: string, provider: string, amount: bigint): void {
    refuseIf(!this.#registry.isAccountOf(provider, caller), "NotProviderAccount", provider, caller);
    this.withdraw(provider, amount, this.#state.providers.get(provider)?.payout ?? ZERO_ADDRESS);
  }

  // ---------------------------------------------------------------------------------------------------------------- jobs

  postJob(client: string, provider: string, terms: ModelTerms): void {
    const jobId = this.#checkAndLock(client, terms);
    this.#registry.requireOpenMarket(this.#self);
    const offeringId = this.#registry.acquire(provider, { ...terms, payment: terms.maxPayment });
    this.#open(jobId, client, provider, offeringId, terms);
  }

  postJobAny(client: string, candidates: readonly string[], terms: ModelTerms): void {
    refuseIf(candidates.length === 0, "NoCandidates");
    const count = candidates.length;
    refuseIf(count > MAX_CANDIDATES, "TooManyCandidates", BigInt(count), BigInt(MAX_CANDIDATES));
    const jobId = this.#checkAndLock(client, terms);
    this.#registry.requireOpenMarket(this.#self);
    const request = { ...terms, payment: terms.maxPayment };
    const taken = this.#registry.acquireAny(candidates, request);
    if (taken === undefined) {
      const reasons = candidates.map((candidate) => this.#registry.refusalOf(candidate, request));
      throw new Refused("NoProviderAvailable", [reasons]);
    }
    this.#open(jobId, client, taken.provider, taken.offeringId, terms);
  }

  ackJob(caller: string, jobId: string): void {
    const job = this.#live(jobId);
    refuseIf(job.status === Status.Acknowledged, "JobStatusMismatch", jobId, job.status);
    this.#requireProvider(job, jobId, caller);
    job.status = Status.Acknowledged;
    job.since = this.#state.now;
    this.#registry.touch(job.provider);
    this.#emit({ name: "JobAcknowledged", args: [jobId, job.provider] });
  }

  completeJob(caller: string, claim: Claim): void {
    const job = this.#live(claim.jobId);
    this.#requireProvider(job, claim.jobId, caller);
    this.#requireReceipt(job, claim);
    this.#pay(job, claim);
    this.#registry.release(job.provider, 1n, this.#collateral(job), true);
  }

  completeJobs(caller: string, claims: readonly Claim[]): void {
    refuseIf(claims.length > MAX_BATCH, "TooManyItems", BigInt(claims.length), BigInt(MAX_BATCH));
    let freed = 0n;
    let collateral = 0n;
    let provider = "";
    for (const claim of claims) {
      try {
        const job = this.#live(claim.jobId);
        this.#requireProvider(job, claim.jobId, caller);
        this.#requireReceipt(job, claim);
        this.#pay(job, claim);
        // The caller acts for one provider, so all jobs that get here are of the same.
        provider = job.provider;
        freed += 1n;
        collateral += this.#collateral(job);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        this.#emit({ name: "CompletionSkipped", args: [claim.jobId, error.error, ...error.args] });
      }
    }
    if (freed !== 0n) this.#registry.release(provider, freed, collateral, true);
  }

  declineJob(caller: string, jobId: string): void {
    const job = this.#live(jobId);
    this.#requireProvider(job, jobId, caller);
    this.#refund(job, Status.Declined);
    this.#registry.release(job.provider, 1n, this.#collateral(job), true);
    this.#emit({ name: "JobDeclined", args: [jobId, job.provider] });
  }

  requestCancel(caller: string, jobId: string): void {
    const job = this.#live(jobId);
    refuseIf(job.client !== caller, "NotClient", jobId, caller);
    refuseIf(job.status !== Status.Open, "JobStatusMismatch", jobId, job.status);
    const earliest = job.postedAt + this.#parameters.ackWindow;
    refuseIf(this.#state.now < earliest, "CancelTooEarly", jobId, earliest);
    job.status = Status.CancelRequested;
    job.since = this.#state.now;
    const respondBy = job.since + this.#parameters.responseWindow;
    this.#emit({ name: "JobCancelRequested", args: [jobId, job.provider, respondBy] });
  }

  finalizeCancel(jobId: string): void {
    const job = this.#live(jobId);
    refuseIf(job.status !== Status.CancelRequested, "JobStatusMismatch", jobId, job.status);
    const until = job.since + this.#parameters.responseWindow;
    refuseIf(this.#state.now < until, "ResponseWindowOpen", jobId, until);
    this.#refund(job, Status.Cancelled);
    this.#registry.release(job.provider, 1n, this.#collateral(job), false);
    this.#emit({ name: "JobCancelled", args: [jobId, job.provider] });
  }

  expireJobs(jobIds: readonly string[]): void {
    refuseIf(jobIds.length > MAX_BATCH, "TooManyItems", BigInt(jobIds.length), BigInt(MAX_BATCH));
    // Neighbours with the same offering share one release.
    let run: { offeringId: bigint; provider: string; count: bigint; collateral: bigint } | undefined;
    const end = (): void => {
      if (run !== undefined) this.#registry.release(run.provider, run.count, run.collateral, false);
      run = undefined;
    };
    for (const jobId of jobIds) {
      const job = this.#state.jobs.get(jobId);
      if (job === undefined || !isLive(job) || this.#state.now < job.deadline) {
        const deadline = job === undefined || job.status === Status.Completed ? 0n : job.deadline;
        this.#emit({ name: "ExpirySkipped", args: [jobId, job?.status ?? Status.None, deadline] });
        continue;
      }
      if (run?.offeringId !== job.offeringId) end();
      run ??= { offeringId: job.offeringId, provider: job.provider, count: 0n, collateral: 0n };
      this.#refund(job, Status.Expired);
      run.count += 1n;
      run.collateral += this.#collateral(job);
      this.#emit({ name: "JobExpired", args: [jobId, job.provider] });
    }
    end();
  }

  /** @param signer who signed the acknowledgement of exactly this job. */
  slashJob(caller: string, jobId: string, signer: string | undefined): void {
    const job = this.#live(jobId);
    refuseIf(job.client !== caller, "NotClient", jobId, caller);
    refuseIf(this.#state.now < job.deadline, "DeadlineNotReached", jobId, job.deadline);
    const consents = signer !== undefined && this.#registry.wasAccountOf(job.provider, signer, job.postedAt);
    refuseIf(!consents, "InvalidAcknowledgement", jobId);
    this.#refund(job, Status.Slashed);
    const burnt = this.#registry.releaseAndSlash(job.provider, this.#collateral(job));
    this.#emit({ name: "JobSlashed", args: [jobId, job.provider, burnt] });
  }

  pause(caller: string): void {
    refuseIf(caller !== this.#admin, "OwnableUnauthorizedAccount", caller);
    refuseIf(this.#suspended(), "EnforcedPause");
    this.#suspend(caller, true);
  }

  unpause(caller: string): void {
    refuseIf(caller !== this.#admin, "OwnableUnauthorizedAccount", caller);
    refuseIf(!this.#suspended(), "ExpectedPause");
    this.#suspend(caller, false);
  }

  // -------------------------------------------------------------------------------------------------------------- inside

  #suspended(): boolean {
    return this.#state.markets.get(this.#self)?.suspended === true;
  }

  #requireReachable(to: string): void {
    refuseIf(to === ZERO_ADDRESS, "ZeroAddress");
    refuseIf(to === this.#self || this.#registry.isDeadEnd(to), "InvalidRecipient", to);
  }

  #suspend(caller: string, suspended: boolean): void {
    const row = this.#state.markets.get(this.#self);
    if (row !== undefined) row.suspended = suspended;
    this.#emit({ name: "MarketSuspended", args: [this.#self, suspended] });
    this.#emit({ name: suspended ? "Paused" : "Unpaused", args: [caller] });
  }

  #checkAndLock(client: string, terms: ModelTerms): string {
    const { minPayment, minDuration, maxDuration } = this.#parameters;
    const { maxPayment, unsignedLimit, deadline } = terms;
    refuseIf(maxPayment < minPayment, "PaymentBelowMinimum", maxPayment, minPayment);
    refuseIf(unsignedLimit > maxPayment, "UnsignedLimitAbovePayment", unsignedLimit, maxPayment);
    const [earliest, latest] = [this.#state.now + minDuration, this.#state.now + maxDuration];
    refuseIf(deadline < earliest || deadline > latest, "DeadlineOutOfBounds", deadline, earliest, latest);
    const jobId = this.#jobIdOf(client, terms.nonce);
    refuseIf(this.#state.jobs.has(jobId), "JobAlreadyPosted", jobId);
    const row = this.#account(client);
    refuseIf(maxPayment > row.free, "InsufficientBalance", client, row.free, maxPayment);
    row.free -= maxPayment;
    row.locked += maxPayment;
    return jobId;
  }

  #open(jobId: string, client: string, provider: string, offeringId: bigint, terms: ModelTerms): void {
    const { maxPayment, unsignedLimit, deadline } = terms;
    const { now } = this.#state;
    this.#state.jobs.set(jobId, {
      client,
      provider,
      offeringId,
      maxPayment,
      unsignedLimit,
      postedAt: now,
      deadline,
      since: now,
      status: Status.Open,
    });
    this.#emit({
      name: "JobPosted",
      args: [jobId, client, provider, offeringId, maxPayment, unsignedLimit, deadline],
    });
  }

  #requireProvider(job: JobRow, jobId: string, caller: string): void {
    refuseIf(!this.#registry.isAccountOf(job.provider, caller), "NotJobProvider", jobId, caller);
  }

  #requireReceipt(job: JobRow, claim: Claim): void {
    const forged = claim.signer !== undefined && claim.signer !== job.client;
    refuseIf(forged, "InvalidClientSignature", claim.jobId);
  }

  #pay(job: JobRow, claim: Claim): void {
    const record = this.#state.records[Number(job.offeringId) - 1];
    if (record === undefined) throw new Error("a job of no record");
    const { inputTokens, outputTokens } = claim.usage;
    const price = (inputTokens * record.inputPrice + outputTokens * record.outputPrice) / PRICE_UNIT;
    const signed = claim.signer !== undefined;
    const limit = signed ? job.maxPayment : job.unsignedLimit;
    const payment = price < limit ? price : limit;
    job.status = Status.Completed;
    this.#settle(job, payment);
    this.#credit(job.provider, payment);
    this.#emit({
      name: "JobCompleted",
      args: [claim.jobId, job.provider, payment, inputTokens, outputTokens, claim.responseHash, signed],
    });
  }

  #refund(job: JobRow, end: bigint): void {
    job.status = end;
    this.#settle(job, 0n);
  }

  #settle(job: JobRow, payment: bigint): void {
    const row = this.#account(job.client);
    row.locked -= job.maxPayment;
    row.free += job.maxPayment - payment;
  }

  #credit(account: string, amount: bigint): void {
    const row = this.#account(account);
    const tooLarge = row.free + row.locked + amount > MAX_BALANCE;
    refuseIf(tooLarge, "BalanceTooLarge", account, amount, MAX_BALANCE);
    row.free += amount;
  }

  #collateral(job: JobRow): bigint {
    return this.#registry.collateralFor(job.maxPayment);
  }

  #live(jobId: string): JobRow {
    const job = this.#state.jobs.get(jobId);
    if (job === undefined) throw new Refused("JobNotFound", [jobId]);
    refuseIf(!isLive(job), "JobStatusMismatch", jobId, job.status);
    return job;
  }

  #account(account: string): AccountRow {
    let row = this.#state.accounts.get(account);
    if (row === undefined) {
      row = { free: 0n, locked: 0n };
      this.#state.accounts.set(account, row);
    }
    return row;
  }
}

/** Open, acknowledged or with its cancellation requested. */
export function isLive(job: JobRow): boolean {
  return job.status >= Status.Open && job.status <= Status.CancelRequested;
}
