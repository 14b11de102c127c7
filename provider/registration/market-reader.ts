import { type Address, encodeEventTopics, formatLog, numberToHex, parseEventLogs, type PublicClient } from "viem";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { BlockRange } from "../escrow/log-ranges.ts";
import type { MarketProposal } from "./market-notice.ts";

/** A block's number and its chain time, Unix seconds. */
export interface BlockTime {
  readonly number: bigint;
  readonly timestamp: number;
}

/** Reads what the registry says of markets. */
export class MarketReader {
  readonly #client: PublicClient;
  readonly #contract: { readonly address: Address; readonly abi: typeof providerRegistryAbi };

  constructor(client: PublicClient, registry: Address) {
    this.#client = client;
    this.#contract = { address: registry, abi: providerRegistryAbi };
  }

  /** The newest block. */
  async head(): Promise<BlockTime> {
    return await this.#block("latest");
  }

  /** Chain time of a block. Rejects when the node does not have it. */
  async timeOf(block: bigint): Promise<number> {
    return (await this.#block(numberToHex(block))).timestamp;
  }

  /** Seconds from the start of an unbonding to its end. */
  async unbondingPeriod(): Promise<number> {
    return Number(await this.#client.readContract({ ...this.#contract, functionName: "unbondingPeriod" }));
  }

  /** Every market that was ever allowed. */
  async markets(): Promise<readonly Address[]> {
    return await this.#client.readContract({ ...this.#contract, functionName: "markets" });
  }

  /** What a market's proposal is now; both times 0 when it is not proposed. */
  async proposal(market: Address): Promise<MarketProposal> {
    const [from, until] = await this.#client.readContract({
      ...this.#contract,
      functionName: "marketProposal",
      args: [market],
    });
    return { market, from, until };
  }

  /** Proposals made in a range of blocks, in order; which may be withdrawn, used or void by now. */
  async proposalsIn({ from, to }: BlockRange): Promise<readonly MarketProposal[]> {
    const { address, abi } = this.#contract;
    const eventName = "MarketProposed";
    const topics = encodeEventTopics({ abi, eventName });
    const logs = await this.#client.request({
      method: "eth_getLogs",
      params: [{ address, topics, fromBlock: numberToHex(from), toBlock: numberToHex(to) }],
    });
    return parseEventLogs({ abi, eventName, logs: logs.map((log) => formatLog(log)) }).map(({ args }) => args);
  }

  async #block(which: "latest" | `0x${string}`): Promise<BlockTime> {
    const block = await this.#client.request({ method: "eth_getBlockByNumber", params: [which, false] });
    if (block === null || block.number === null) throw new Error(`the node does not show the block ${which}`);
    return { number: BigInt(block.number), timestamp: Number(block.timestamp) };
  }
}
