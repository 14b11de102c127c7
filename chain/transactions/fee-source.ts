import type { PublicClient } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { type Fees, feesFor } from "./fees.ts";

/** The market's fees, asked for at most once per `maxAgeMs` however many transactions need them. */
export class FeeSource {
  readonly #client: PublicClient;
  readonly #clock: Clock;
  readonly #maxAgeMs: number;
  readonly #cap: bigint;
  #known: { readonly fees: Fees; readonly at: number } | undefined;
  #asking: Promise<Fees> | undefined;

  constructor(options: {
    readonly client: PublicClient;
    readonly clock: Clock;
    readonly maxAgeMs: number;
    readonly cap: bigint;
  }) {
    this.#client = options.client;
    this.#clock = options.clock;
    this.#maxAgeMs = options.maxAgeMs;
    this.#cap = options.cap;
  }

  /** Fees for a transaction sent now. Rejects with the client's error when the chain cannot be asked. */
  async current(): Promise<Fees> {
    const known = this.#known;
    if (known !== undefined && this.#clock.monotonic() - known.at < this.#maxAgeMs) return known.fees;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return await this.#asking;
  }

  /** The known fees were refused: ask again next time. */
  forget(): void {
    this.#known = undefined;
  }

  async #ask(): Promise<Fees> {
    const [block, priorityFee] = await Promise.all([
      this.#client.getBlock({ blockTag: "latest" }),
      this.#client.request({ method: "eth_maxPriorityFeePerGas" }).then(BigInt, () => 1_000_000_000n),
    ]);
    const fees = feesFor(block.baseFeePerGas ?? 0n, priorityFee, this.#cap);
    this.#known = { fees, at: this.#clock.monotonic() };
    return fees;
  }
}
