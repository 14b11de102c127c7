import type { ContractTransactionResponse } from "ethers";
import { type Account, type Market, MODEL_KEY, PAYMENT, PRICE, type Provider } from "./market.ts";

/** An ordinary account as a market of the registry, to see the registry without an escrow. */
export class Seller {
  readonly account: Account;
  readonly #market: Market;

  constructor(market: Market, account: Account) {
    this.#market = market;
    this.account = account;
  }

  get registry() {
    return this.#market.registry.connect(this.account);
  }

  async acquire(provider: Provider | { readonly address: string }, count = 1n, payment = PAYMENT) {
    return await this.registry.acquireSlots(provider.address, PRICE.input, PRICE.output, payment, count, MODEL_KEY);
  }

  /** What `acquire` would answer: the id of the record. */
  async acquireAnswer(provider: Provider, count = 1n, payment = PAYMENT): Promise<bigint> {
    return await this.registry.acquireSlots.staticCall(
      provider.address,
      PRICE.input,
      PRICE.output,
      payment,
      count,
      MODEL_KEY,
    );
  }

  async acquireAny(candidates: readonly string[], count = 1n, payment = PAYMENT) {
    return await this.registry.acquireSlotsAny([...candidates], MODEL_KEY, PRICE.input, PRICE.output, count, payment);
  }

  /** What `acquireAny` would answer: position of the chosen candidate and id of the record. */
  async acquireAnyAnswer(candidates: readonly string[], count = 1n): Promise<readonly bigint[]> {
    const answer = await this.registry.acquireSlotsAny.staticCall(
      [...candidates],
      MODEL_KEY,
      PRICE.input,
      PRICE.output,
      count,
      PAYMENT,
    );
    return [answer.index, answer.offeringId];
  }

  async release(provider: { readonly address: string }, count: bigint, collateral: bigint, seen = false) {
    return await this.registry.releaseSlots(provider.address, count, collateral, seen);
  }

  async slash(provider: Provider, count: bigint, collateral: bigint): Promise<ContractTransactionResponse> {
    return await this.registry.releaseSlotsAndSlash(provider.address, count, collateral);
  }
}
