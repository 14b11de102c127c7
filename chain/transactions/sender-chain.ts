import type { Address, Hex, PublicClient, TransactionReceipt } from "viem";
import { decodeRevert, describeRevert } from "../revert.ts";
import { chainUnavailableIn, revertDataIn } from "../rpc-errors.ts";
import type { Intent } from "./intent.ts";
import { transactionOfNonce } from "./nonce-user.ts";
import { readStoredOutcome } from "./outcome-row.ts";
import type { TransactionOutcome } from "./types.ts";

/** Simulation sees the state of now, execution that of a later block: room for a storage slot that turned from warm or set to new. */
const gasMarginPercent = 130n;

/** Looks at which a revert's reason could not be asked for, after which it is told without: some nodes call what they no longer have busy. */
const mostUnexplained = 3;

/** What the chain says of one sender and its transactions. Reads reject with a `ChainUnavailableError` where the node cannot be asked. */
export class SenderChain {
  readonly address: Address;
  readonly #client: PublicClient;

  constructor(client: PublicClient, address: Address) {
    this.#client = client;
    this.address = address;
  }

  /** Runs the call, and takes the gas that it needs. Rejects with the node's error. */
  async estimate(intent: Intent): Promise<void> {
    const call = { account: this.address, to: intent.to, data: intent.data } as const;
    if (intent.fixedGas === undefined) {
      intent.gas = ((await this.#client.estimateGas(call)) * gasMarginPercent) / 100n;
    } else {
      await this.#client.call({ ...call, gas: intent.fixedGas });
      intent.gas = intent.fixedGas;
    }
  }

  /** How many nonces are used, and how many with those of the pool. */
  async counts(): Promise<readonly [latest: number, pending: number]> {
    const client = this.#client;
    return await Promise.all([
      client.getTransactionCount({ address: this.address, blockTag: "latest" }),
      client.getTransactionCount({ address: this.address, blockTag: "pending" }),
    ]);
  }

  /** How many nonces are used. */
  async usedCount(): Promise<number> {
    return await this.#client.getTransactionCount({ address: this.address, blockTag: "latest" });
  }

  /** How many nonces are used or claimed in the pool. */
  async pendingCount(): Promise<number> {
    return await this.#client.getTransactionCount({ address: this.address, blockTag: "pending" });
  }

  /** The newest block's number. */
  async head(): Promise<bigint> {
    return await this.#client.getBlockNumber({ cacheTime: 0 });
  }

  /** Whether the node has one of our hashes, pooled or mined. */
  async known(intent: Intent): Promise<boolean> {
    for (const hash of intent.hashes.toReversed()) {
      const transaction = await this.#client.request({ method: "eth_getTransactionByHash", params: [hash] });
      if (transaction !== null) return true;
    }
    return false;
  }

  /** Whose transaction used the nonce of an intent, as far as the node tells. */
  async userOfNonce(intent: Intent): Promise<"ours" | "another" | "unknown"> {
    const hash = await transactionOfNonce(this.#client, this.address, intent.nonce);
    if (hash === undefined) return "unknown";
    return intent.hashes.includes(hash) ? "ours" : "another";
  }

  /** Whether the sender has less than the newest signed transaction of an intent may cost. */
  async cannotPay(intent: Intent): Promise<boolean> {
    const balance = await this.#client.getBalance({ address: this.address });
    return intent.fees !== undefined && balance < intent.gas * intent.fees.maxFeePerGas;
  }

  /** The receipt of whichever of an intent's transactions was mined; undefined where the node shows none. */
  async receiptOf(intent: Intent): Promise<TransactionReceipt | undefined> {
    for (const hash of intent.hashes.toReversed()) {
      const receipt = await this.#askReceipt(hash);
      if (receipt !== undefined) return receipt;
    }
    return undefined;
  }

  /**
   * How a mined intent ended, and of one that reverted the reason as far as the node tells.
   *
   * @throws ChainUnavailableError the first times that the node cannot be asked for the reason: what is told then is told for good.
   */
  async outcomeFrom(intent: Intent, receipt: TransactionReceipt): Promise<TransactionOutcome> {
    const hash = receipt.transactionHash;
    if (receipt.status === "success") return { status: "success", hash, receipt };
    const call = { account: this.address, to: intent.to, data: intent.data, gas: intent.gas } as const;
    try {
      // The state before its block is not exactly the state that it met, but most often tells the reason.
      await this.#client.call({ ...call, blockNumber: receipt.blockNumber - 1n });
      await this.#client.call({ ...call, blockNumber: receipt.blockNumber });
      return { status: "reverted", hash, errorName: undefined, errorArgs: [], message: "reverted when it was mined" };
    } catch (error) {
      if (chainUnavailableIn(error) !== undefined && intent.unexplained < mostUnexplained) {
        intent.unexplained += 1;
        throw error;
      }
      const revert = decodeRevert(revertDataIn(error));
      return { status: "reverted", hash, ...revert, message: describeRevert(revert) };
    }
  }

  /** A stored outcome; undefined where the chain does not show the receipt. */
  async restore(text: string): Promise<TransactionOutcome | undefined> {
    const stored = readStoredOutcome(text);
    if (stored.status === "reverted") return { ...stored, errorName: stored.errorName ?? undefined };
    const receipt = await this.#askReceipt(stored.hash);
    return receipt === undefined ? undefined : { status: "success", hash: stored.hash, receipt };
  }

  async #askReceipt(hash: Hex): Promise<TransactionReceipt | undefined> {
    try {
      return await this.#client.getTransactionReceipt({ hash });
    } catch (error) {
      if (error instanceof Error && error.name === "TransactionReceiptNotFoundError") return undefined;
      throw error;
    }
  }
}
