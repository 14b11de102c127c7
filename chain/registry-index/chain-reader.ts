import { type Hex, numberToHex, type PublicClient, type RpcLog as AnyRpcLog } from "viem";
import type { Contracts, RpcLog } from "./logs.ts";
import type { ChainHead } from "./types.ts";

/** A block's header as far as the index needs it. */
export interface BlockHeader extends ChainHead {
  readonly parentHash: Hex;
}

/** What the index asks of the chain. */
export interface ChainReader {
  /** The newest block. */
  head(): Promise<BlockHeader>;
  /** The block at a height; undefined when there is none (yet). */
  block(blockNumber: number): Promise<BlockHeader | undefined>;
  /** Logs of the followed contracts in one block, by its hash: never those of another fork. Rejects when the block is unknown. */
  logsOfBlock(blockHash: Hex): Promise<readonly RpcLog[]>;
  /** Logs of the followed contracts in a range of blocks, both ends included. */
  logsInRange(from: number, to: number): Promise<readonly RpcLog[]>;
}

interface RpcBlock {
  readonly number: Hex | null;
  readonly hash: Hex | null;
  readonly parentHash: Hex;
  readonly timestamp: Hex;
  readonly baseFeePerGas?: Hex | null;
}

/** A reader over a node. One call of the node for each method. */
export function chainReader(client: PublicClient, contracts: Contracts): ChainReader {
  const address = [contracts.registry, contracts.escrow];
  return {
    head: async () => {
      const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", false] });
      if (block === null) throw new Error("the node has no latest block");
      return headerOf(block);
    },
    block: async (blockNumber) => {
      const block: RpcBlock | null = await client.request({
        method: "eth_getBlockByNumber",
        params: [numberToHex(blockNumber), false],
      });
      return block === null ? undefined : headerOf(block);
    },
    logsOfBlock: async (blockHash) => {
      const logs = await client.request({ method: "eth_getLogs", params: [{ address, blockHash }] });
      return logs.filter(isMined);
    },
    logsInRange: async (from, to) => {
      const range = { address, fromBlock: numberToHex(from), toBlock: numberToHex(to) };
      const logs = await client.request({ method: "eth_getLogs", params: [range] });
      return logs.filter(isMined);
    },
  };
}

function isMined(log: AnyRpcLog): log is AnyRpcLog & RpcLog {
  if (log.blockNumber === null || log.blockHash === null || log.logIndex === null)
    throw new Error("the node answered with a pending log");
  return true;
}

function headerOf(block: RpcBlock): BlockHeader {
  if (block.number === null || block.hash === null) throw new Error("the node answered with a pending block");
  return {
    number: Number(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    timestamp: Number(block.timestamp),
    baseFeePerGas:
      block.baseFeePerGas === undefined || block.baseFeePerGas === null ? undefined : BigInt(block.baseFeePerGas),
  };
}
