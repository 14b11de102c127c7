import { type Address, type Hex, isAddressEqual, type PublicClient } from "viem";
import { chainUnavailableIn } from "../rpc-errors.ts";

/**
 * The transaction with which a sender used a nonce: found by the block in which its count passed the nonce, so that a node that does not
 * show a receipt yet cannot make a transaction seem another's. Takes about twice log2 of the age in blocks in calls.
 *
 * @returns undefined when the nonce is not used, or the node does not tell: it keeps no state as old, or lags.
 * @throws ChainUnavailableError when the node cannot be asked.
 */
export async function transactionOfNonce(
  client: PublicClient,
  sender: Address,
  nonce: number,
): Promise<Hex | undefined> {
  try {
    const isUsedAt = async (blockNumber: bigint): Promise<boolean> =>
      (await client.getTransactionCount({ address: sender, blockNumber })) > nonce;
    let after = await client.getBlockNumber({ cacheTime: 0 });
    if (!(await isUsedAt(after))) return undefined;
    let before = after;
    for (let step = 1n; ; step *= 2n) {
      before = after > step ? after - step : 0n;
      if (!(await isUsedAt(before))) break;
      if (before === 0n) return undefined;
      after = before;
    }
    while (after - before > 1n) {
      const middle = (after + before) / 2n;
      if (await isUsedAt(middle)) after = middle;
      else before = middle;
    }
    const { transactions } = await client.getBlock({ blockNumber: after, includeTransactions: true });
    return transactions.find(({ from, nonce: used }) => used === nonce && isAddressEqual(from, sender))?.hash;
  } catch (error) {
    if (chainUnavailableIn(error) !== undefined) throw error;
    return undefined;
  }
}
