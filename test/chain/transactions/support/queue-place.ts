import { type Address, numberToHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { openChain } from "../../../../chain/rpc.ts";
import { systemClock } from "../../../../chain/system-clock.ts";
import { openTransactionQueue, type RunningTransactionQueue } from "../../../../chain/transactions/queue.ts";
import type { QueueEvent, TransactionQueueOptions } from "../../../../chain/transactions/queue-options.ts";
import type { TestChain } from "../../../support/chain.ts";
import { memoryJournal } from "../../../support/memory-journal.ts";
import { countingRpcProxy, type RpcProxy } from "../../../support/rpc-proxy.ts";

/** Where test transactions go: an address without code. */
export const receiver: Address = "0x00000000000000000000000000000000000a11ce";

/** A queue of one of the chain's accounts. */
export interface OpenedQueue {
  readonly queue: RunningTransactionQueue;
  readonly events: QueueEvent[];
  readonly address: Address;
  /** Its own journal; unused where the test gave another. */
  readonly journal: ReturnType<typeof memoryJournal>;
}

/** Where a suite's queues work. Chain and proxy are there from the suite's first test on. */
export interface QueuePlace {
  readonly chain: TestChain;
  /** Counts calls and does harm to them. Only queues that were given its URL go through it. */
  readonly proxy: RpcProxy;
  open(
    account: number,
    options?: Partial<TransactionQueueOptions> & { readonly rpcUrl?: string },
  ): Promise<OpenedQueue>;
  /** How many of an address's transactions were mined. */
  nonceOf(address: Address): Promise<number>;
}

/** Gives the suite that calls it a chain of its own. Queues are closed, and the proxy does no more harm, after each test. */
export function queuePlace(start: () => Promise<TestChain>): QueuePlace {
  let chain: TestChain;
  let proxy: RpcProxy;
  const closers: (() => Promise<void>)[] = [];

  before(async () => {
    chain = await start();
    proxy = await countingRpcProxy(chain.rpcUrl);
  });

  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
    proxy.setFault(undefined);
  });

  after(async () => {
    await proxy.stop();
    await chain.stop();
  });

  return {
    get chain() {
      return chain;
    },
    get proxy() {
      return proxy;
    },
    async open(account, options = {}) {
      const events: QueueEvent[] = [];
      const { key, address } = chain.account(account);
      const connection = openChain({
        url: options.rpcUrl ?? chain.rpcUrl,
        clock: systemClock,
        random: Math.random,
        attempts: 2,
      });
      const journal = memoryJournal();
      const queue = await openTransactionQueue({
        client: connection.client,
        account: privateKeyToAccount(key),
        chainId: chain.chainId,
        journal,
        clock: systemClock,
        random: Math.random,
        pollMs: 20,
        onEvent: (event) => events.push(event),
        ...options,
      });
      closers.push(async () => {
        await queue.close();
        await connection.close();
      });
      return { queue, events, address, journal };
    },
    nonceOf: async (address) => Number(await chain.rpc("eth_getTransactionCount", address, "latest")),
  };
}

/** Submits transactions `k<from>` to `k<from + count - 1>` at once. */
export function submitMany(queue: RunningTransactionQueue, count: number, from = 0) {
  return Array.from({ length: count }, async (_, index) => {
    return await queue.submit({
      key: `k${from + index}`,
      kind: "test",
      to: receiver,
      data: numberToHex(from + index, { size: 32 }),
    });
  });
}
