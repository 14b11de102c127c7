import { type Address, encodeFunctionData, erc20Abi, type PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "../../chain/transactions/types.ts";
import type { Journal } from "../../store/journal.ts";
import type { EscrowCalls } from "./escrow-calls.ts";

/** Options of `Treasury`. */
export interface TreasuryOptions {
  readonly queue: TransactionQueue;
  readonly calls: Pick<EscrowCalls, "account">;
  readonly client: PublicClient;
  readonly journal: Pick<Journal, "nextCounter">;
  readonly escrow: Address;
  readonly token: Address;
  /** Free balance to fill the escrow up to, in wei; undefined = never move tokens. */
  readonly target: bigint | undefined;
  readonly onTopUp: (amount: bigint) => void;
}

interface Need {
  readonly required: bigint;
  readonly told: PromiseWithResolvers<boolean>;
}

/** Keeps the wallet's escrow account filled from the wallet's own tokens, when the operator wants that. */
export class Treasury {
  readonly #options: TreasuryOptions;
  /** Asked for since the filling under way began. */
  #needs: Need[] = [];
  /** Of which it is not known yet whether the chain has it. */
  #underWay: TransactionRequest | undefined;
  #isFilling = false;

  constructor(options: TreasuryOptions) {
    this.#options = options;
  }

  /**
   * Fills the escrow account up to the target, and at least to what all who ask now require together: one filling at a time, and those
   * who ask meanwhile share the next. False when top-up is off, or wallet and approval do not suffice for this one.
   *
   * @param required Wei that the account must have free.
   * @param signal Aborted when whoever asks waits no longer: false then, and nothing is moved for it any more.
   */
  async topUp(required: bigint, signal: AbortSignal): Promise<boolean> {
    if (this.#options.target === undefined || signal.aborted) return false;
    const told = Promise.withResolvers<boolean>();
    const need = { required, told };
    this.#needs.push(need);
    const leave = (): void => {
      this.#needs = this.#needs.filter((other) => other !== need);
      told.resolve(false);
    };
    signal.addEventListener("abort", leave, { once: true });
    if (!this.#isFilling) void this.#work();
    try {
      return await told.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  async #work(): Promise<void> {
    this.#isFilling = true;
    while (this.#needs.length > 0) {
      const needs = this.#needs;
      this.#needs = [];
      try {
        let left = await this.#fill(needs.map(({ required }) => required));
        for (const { required, told } of needs) {
          const isMet = required <= left;
          if (isMet) left -= required;
          told.resolve(isMet);
        }
      } catch (error) {
        for (const { told } of needs) told.reject(error);
      }
    }
    this.#isFilling = false;
  }

  /** Deposits what the account lacks; resolves with what is free then. */
  async #fill(required: readonly bigint[]): Promise<bigint> {
    const { target = 0n, calls, client, token, escrow, queue } = this.#options;
    // What is under way changes what the account holds: planned without it, the deposit would be made twice.
    const isDecided = await this.#awaitUnderWay();
    const { free } = await calls.account();
    const together = required.reduce((sum, one) => sum + one, 0n);
    // Filled since it was asked for.
    if (free >= together || !isDecided) return free;
    const goal = target > together ? target : together;
    const held = await client.readContract({
      address: token,
      abi: erc20Abi,
      functionName: "balanceOf",
      args: [queue.address],
    });
    const amount = held < goal - free ? held : goal - free;
    if (amount === 0n || required.every((one) => free + amount < one)) return free;
    return (await this.#deposit(amount, token, escrow)) ? free + amount : free;
  }

  async #deposit(amount: bigint, token: Address, escrow: Address): Promise<boolean> {
    const { client, queue, journal } = this.#options;
    const allowance = await client.readContract({
      address: token,
      abi: erc20Abi,
      functionName: "allowance",
      args: [queue.address, escrow],
    });
    const number = await journal.nextCounter("gateway:deposits");
    if (allowance < amount) {
      const data = encodeFunctionData({ abi: erc20Abi, functionName: "approve", args: [escrow, amount] });
      const approved = await this.#send({ key: `approve:${number}`, to: token, data, kind: "approve" });
      if (approved.status !== "success") return false;
    }
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "deposit", args: [amount] });
    const deposited = await this.#send({ key: `deposit:${number}`, to: escrow, data, kind: "deposit" });
    if (deposited.status !== "success") return false;
    this.#options.onTopUp(amount);
    return true;
  }

  /** Whether it is known what became of the newest transaction; one that the queue has given up goes on with its own nonce. */
  async #awaitUnderWay(): Promise<boolean> {
    const request = this.#underWay;
    if (request === undefined || !this.#options.queue.isPending(request.key)) return true;
    return !isUndecided(await this.#send(request));
  }

  async #send(request: TransactionRequest): Promise<TransactionOutcome> {
    this.#underWay = request;
    const outcome = await this.#options.queue.submit(request);
    if (!isUndecided(outcome)) this.#underWay = undefined;
    return outcome;
  }
}

/** Whether it may be on the chain, or still come there. */
function isUndecided(outcome: TransactionOutcome): boolean {
  return outcome.status === "abandoned" && outcome.undecided;
}
