import type { Address, Hex } from "viem";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "../../chain/transactions/types.ts";
import type { Prices } from "../../protocol/money.ts";
import { planPublication, type WantedPublication } from "./plan.ts";
import { publicationRequest } from "./publication-calls.ts";
import type { PublishedOffering, RegisteredProvider, RegistryReader, RegistryRules } from "./registry-reader.ts";

/** The chain does not take what the node wants to publish; the message says what to do. */
export class PublicationError extends Error {
  override readonly name = "PublicationError";
}

/** The node on chain after a publication. */
export interface Published {
  readonly provider: RegisteredProvider;
  readonly offerings: ReadonlyMap<string, PublishedOffering>;
  /** Kinds of the transactions that it took, in order. */
  readonly transactions: readonly string[];
  /** What others must change before the node has all that it wants. */
  readonly warnings: readonly string[];
  /** Why no job can be taken for want of stake; undefined when one can. */
  readonly noStake: string | undefined;
}

/** Options of `Publisher`. */
export interface PublisherOptions {
  readonly reader: Pick<RegistryReader, "provider" | "offerings" | "tokens">;
  readonly queue: TransactionQueue;
  readonly chainId: number;
  readonly registry: Address;
  /** The provider's identity. */
  readonly owner: Address;
  readonly rules: RegistryRules;
  /** Publications that an earlier process sent or was about to send. */
  readonly earlier: readonly TransactionRequest[];
}

/** Prices of one of our own records, and the model that it is for. */
export interface OwnRecord {
  readonly modelKey: Hex;
  readonly prices: Prices;
}

/** Brings the registry to what the node wants, and remembers the records that it published. */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #records = new Map<number, OwnRecord>();
  #tail: Promise<unknown> = Promise.resolve();
  /** Distinguishes attempts whose transaction failed from those before. */
  #attempt = 0;
  /** Publications of which it is not known yet whether the chain has them. */
  #underWay: readonly TransactionRequest[];

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#underWay = options.earlier;
  }

  /** An offering record of ours, live or replaced since this process started. */
  record(offeringId: number): OwnRecord | undefined {
    return this.#records.get(offeringId);
  }

  /**
   * Publishes what differs; sends nothing when nothing does. Publications follow each other.
   *
   * @throws PublicationError when the chain cannot take it now; chain errors when it cannot be asked.
   */
  async publish(wanted: WantedPublication): Promise<Published> {
    const run = this.#tail.then(
      async () => await this.#publish(wanted),
      async () => await this.#publish(wanted),
    );
    this.#tail = run;
    return await run;
  }

  async #publish(wanted: WantedPublication): Promise<Published> {
    const { queue, chainId, registry, owner, rules } = this.#options;
    const target = { chainId, registry, token: rules.token };
    await this.#awaitUnderWay();
    const isOwner = queue.address.toLowerCase() === owner.toLowerCase();
    const found = await this.#find(isOwner);
    const plan = planPublication(found, wanted, isOwner);
    if (plan.obstacle !== undefined) throw new PublicationError(plan.obstacle);
    const state = `${found.provider?.lastSeen ?? "new"}:${this.#attempt}`;
    for (const step of plan.steps) {
      const request = publicationRequest(target, step, state);
      const outcome = await queue.submit(request);
      if (outcome.status !== "success") {
        if (isUndecided(outcome)) this.#underWay = [request];
        this.#attempt += 1;
        const name = outcome.status === "reverted" && outcome.errorName !== undefined ? ` (${outcome.errorName})` : "";
        throw new PublicationError(`${step.kind} failed${name}: ${outcome.message}`);
      }
    }
    const now = plan.steps.length === 0 ? found : await this.#find(isOwner);
    const left = plan.steps.length === 0 ? [] : planPublication(now, wanted, isOwner).steps;
    if (now.provider === undefined || left.length > 0) {
      // A node that lags behind, or transactions that the journal has and the chain no longer: they are other ones next time.
      this.#attempt += 1;
      const missing = left.map((step) => step.kind).join(", ");
      throw new PublicationError(`the chain does not show what was published: ${missing} still to do`);
    }
    return {
      provider: now.provider,
      offerings: now.offerings,
      transactions: plan.steps.map((step) => step.kind),
      warnings: plan.warnings,
      noStake: plan.noStake,
    };
  }

  /**
   * What is under way changes what the chain will say: planning before it has ended would send it twice, such as the stake. One that the
   * queue has given up goes on with its own nonce.
   */
  async #awaitUnderWay(): Promise<void> {
    const { queue } = this.#options;
    for (const request of this.#underWay) {
      if (!queue.isPending(request.key)) continue;
      const outcome = await queue.submit(request);
      if (isUndecided(outcome)) {
        throw new PublicationError(`it is not known yet whether the chain has ${request.kind}: ${outcome.message}`);
      }
    }
    this.#underWay = [];
  }

  async #find(isOwner: boolean) {
    const { reader, owner, rules } = this.#options;
    const provider = await reader.provider(owner);
    const offerings = provider === undefined ? new Map<string, PublishedOffering>() : await reader.offerings(owner);
    const tokens = isOwner ? await reader.tokens(rules.token, owner) : { balance: 0n, allowance: 0n };
    for (const { offeringId, modelKey, prices } of offerings.values()) {
      this.#records.set(offeringId, { modelKey, prices });
    }
    return { provider, offerings, rules, ...tokens };
  }
}

/** Whether it may be on the chain, or still come there. */
function isUndecided(
  outcome: TransactionOutcome,
): outcome is Extract<TransactionOutcome, { readonly status: "abandoned" }> {
  return outcome.status === "abandoned" && outcome.undecided;
}
