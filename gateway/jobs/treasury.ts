import { type Address, encodeFunctionData, erc20Abi, type PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { TransactionQueue } from "../../chain/transactions/types.ts";
import type { Journal } from "../../store/journal.ts";
import type { EscrowCalls } from "./escrow-calls.ts";

/** Options of `Treasury`. */
export interface TreasuryOptions {
  readonly queue: TransactionQueue;
  readonly calls: EscrowCalls;
  readonly client: PublicClient;
  readonly journal: Pick<Journal, "nextCounter">;
  readonly escrow: Address;
  readonly token: Address;
  /** Free balance to fill the escrow up to, in wei; undefined = never move tokens. */
  readonly target: bigint | undefined;
  readonly onTopUp: (amount: bigint) => void;
}

/** Keeps the wallet's escrow account filled from the wallet's own tokens, when the operator wants that. */
export class Treasury {
  readonly #options: TreasuryOptions;
  #running: Promise<boolean> | undefined;

  constructor(options: TreasuryOptions) {
    this.#options = options;
  }

  /**
   * Fills the escrow account up to the target, and at least to `required`. One at a time: everybody who asks meanwhile gets the same
   * answer. False when top-up is off, or wallet and approval do not suffice.
   */
  async topUp(required: bigint): Promise<boolean> {
    this.#running ??= this.#run(required).finally(() => {
      this.#running = undefined;
    });
    return await this.#running;
  }

  async #run(required: bigint): Promise<boolean> {
    const { target, calls, client, token, escrow, queue } = this.#options;
    if (target === undefined) return false;
    const { free } = await calls.account();
    const goal = target > required ? target : required;
    if (free >= goal) return free >= required;
    const held = await client.readContract({
      address: token,
      abi: erc20Abi,
      functionName: "balanceOf",
      args: [queue.address],
    });
    const amount = held < goal - free ? held : goal - free;
    if (amount === 0n || free + amount < required) return false;
    const allowance = await client.readContract({
      address: token,
      abi: erc20Abi,
      functionName: "allowance",
      args: [queue.address, escrow],
    });
    const number = await this.#options.journal.nextCounter("gateway:deposits");
    if (allowance < amount) {
      const data = encodeFunctionData({ abi: erc20Abi, functionName: "approve", args: [escrow, amount] });
      const approved = await queue.submit({ key: `approve:${number}`, to: token, data, kind: "approve" });
      if (approved.status !== "success") return false;
    }
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "deposit", args: [amount] });
    const deposited = await queue.submit({ key: `deposit:${number}`, to: escrow, data, kind: "deposit" });
    if (deposited.status !== "success") return false;
    this.#options.onTopUp(amount);
    return true;
  }
}
