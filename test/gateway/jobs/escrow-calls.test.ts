import { expect } from "chai";
import { createPublicClient, custom, type Hex, numberToHex } from "viem";
import { EscrowCalls } from "../../../gateway/jobs/escrow-calls.ts";
import type { TransactionQueue, TransactionRequest } from "../../../chain/transactions/types.ts";
import { escrowEvent, fakeContracts, person } from "../../support/fake-chain.ts";
import { testTarget } from "../support/test-settings.ts";

const jobId: Hex = `0x${"11".repeat(32)}`;

/** Calls of an escrow on a node that answers by method. */
function callsOn(answers: Readonly<Record<string, (parameters: readonly unknown[]) => unknown>>) {
  const submitted: TransactionRequest[] = [];
  const queue: TransactionQueue = {
    address: person(1),
    submit: async (request) => {
      submitted.push(request);
      return await Promise.resolve({ status: "abandoned", message: "", undecided: false });
    },
    outcomeOf: async () => await Promise.resolve(undefined),
    isPending: () => false,
    pending: 0,
    close: async () => await Promise.resolve(),
  };
  const request = async ({ method, params }: { method: string; params?: unknown }): Promise<unknown> =>
    await Promise.resolve(answers[method]?.(Array.isArray(params) ? params : []));
  const client = createPublicClient({ transport: custom({ request }, { retryCount: 0 }) });
  return {
    submitted,
    calls: new EscrowCalls({
      queue,
      client,
      escrow: fakeContracts.escrow,
      registry: fakeContracts.registry,
      chainId: testTarget.chainId,
    }),
  };
}

/** `eth_getLogs` of a node that answers at most so many blocks at once and has one log. */
function logsOf(
  log: { readonly blockNumber: number; readonly topics: readonly Hex[]; readonly data: Hex },
  most: number,
) {
  return ([range]: readonly unknown[]): unknown => {
    const { fromBlock, toBlock } = range as { readonly fromBlock: Hex; readonly toBlock: Hex };
    if (Number(toBlock) - Number(fromBlock) >= most) throw new Error("block range is too large");
    const isIn = Number(fromBlock) <= log.blockNumber && log.blockNumber <= Number(toBlock);
    const hash = `0x${"22".repeat(32)}`;
    const place = { blockHash: hash, transactionHash: hash, transactionIndex: "0x0", logIndex: "0x0", removed: false };
    return isIn ? [{ ...log, ...place, address: fakeContracts.escrow, blockNumber: numberToHex(log.blockNumber) }] : [];
  };
}

describe("what the gateway asks of the escrow", () => {
  it("is what a job has paid, also of a node that answers a few blocks at once", async () => {
    const completed = escrowEvent("JobCompleted", {
      jobId,
      provider: person(2),
      payment: 300n,
      inputTokens: 3n,
      outputTokens: 4n,
      responseHash: jobId,
      signed: true,
    });
    for (const postBlock of [100, undefined]) {
      const { calls } = callsOn({
        eth_blockNumber: () => numberToHex(4000),
        eth_getLogs: logsOf({ ...completed, blockNumber: 1234 }, 500),
      });
      expect(await calls.completionOf(jobId, postBlock)).to.deep.include({
        payment: 300n,
        usage: { inputTokens: 3, outputTokens: 4 },
      });
    }
  });

  it("is no payment of nothing where the node cannot tell", async () => {
    const { calls } = callsOn({
      eth_blockNumber: () => numberToHex(4000),
      eth_getLogs: () => {
        throw new Error("method is not available");
      },
    });
    const error = await calls.completionOf(jobId, 100).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Error);
  });

  for (const [chain, estimate, least] of [
    ["an ordinary chain", 45_000n, 80_000n],
    ["a chain that charges a transaction's data in gas", 900_000n, 900_000n],
  ] as const) {
    it(`is gas enough to expire jobs that the estimate skips, on ${chain}`, async () => {
      const { calls, submitted } = callsOn({ eth_estimateGas: () => numberToHex(estimate) });
      await calls.expire("key", [jobId, jobId, jobId]).catch(() => undefined);
      expect(submitted[0]?.gas).to.equal(least + 3n * 65_000n);
    });
  }
});
