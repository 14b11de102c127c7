import { expect } from "chai";
import { type Address, encodeFunctionData, type Hex, numberToHex, parseEther } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../../chain/abi/job-escrow.ts";
import { openChain } from "../../../chain/rpc.ts";
import { systemClock } from "../../../chain/system-clock.ts";
import { openTransactionQueue, type RunningTransactionQueue } from "../../../chain/transactions/queue.ts";
import type { QueueEvent, TransactionQueueOptions } from "../../../chain/transactions/queue-options.ts";
import { type TestChain, startAnvil, startHardhatChain } from "../../support/chain.ts";
import { deployForTest } from "../../support/deployment.ts";
import { memoryJournal } from "../../support/memory-journal.ts";
import { countingRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { until } from "../../support/until.ts";

const receiver: Address = "0x00000000000000000000000000000000000a11ce";

interface Opened {
  readonly queue: RunningTransactionQueue;
  readonly events: QueueEvent[];
  readonly address: Address;
  readonly journal: ReturnType<typeof memoryJournal>;
}

describe("the transaction queue", function () {
  this.timeout(60_000);
  let chain: TestChain;
  let proxy: RpcProxy;
  const closers: (() => Promise<void>)[] = [];

  async function open(
    account: number,
    options: Partial<TransactionQueueOptions> & { readonly rpcUrl?: string } = {},
  ): Promise<Opened> {
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
  }

  async function nonceOf(address: Address): Promise<number> {
    return Number(await chain.rpc("eth_getTransactionCount", address, "latest"));
  }

  function submitMany(queue: RunningTransactionQueue, count: number, from = 0) {
    return Array.from({ length: count }, async (_, index) => {
      return await queue.submit({
        key: `k${from + index}`,
        kind: "test",
        to: receiver,
        data: numberToHex(from + index, { size: 32 }),
      });
    });
  }

  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
    proxy.setFault(undefined);
  });

  describe("on a Hardhat chain that mines a block per transaction", () => {
    before(async () => {
      chain = await startHardhatChain();
      proxy = await countingRpcProxy(chain.rpcUrl);
    });

    after(async () => {
      await proxy.stop();
      await chain.stop();
    });

    it("sends fifty at once without a nonce gap, which this chain refuses", async () => {
      const { queue, address } = await open(1);
      const before = await nonceOf(address);
      const outcomes = await Promise.all(submitMany(queue, 50));
      expect(outcomes.map(({ status }) => status)).to.deep.equal(Array(50).fill("success"));
      expect(await nonceOf(address)).to.equal(before + 50);
      expect(queue.pending).to.equal(0);
    });

    it("sends one transaction for one key, however often it is asked", async () => {
      const { queue, address } = await open(2);
      const before = await nonceOf(address);
      const request = { key: "same", kind: "test", to: receiver, data: "0x01" as Hex };
      const [first, second] = await Promise.all([queue.submit(request), queue.submit(request)]);
      const third = await queue.submit(request);
      expect(await nonceOf(address)).to.equal(before + 1);
      for (const outcome of [first, second, third, await queue.outcomeOf("same")]) {
        expect(outcome?.status === "success" && outcome.hash).to.equal(first.status === "success" && first.hash);
      }
    });

    it("finds out a revert by simulation, by its Solidity name and without spending a nonce", async () => {
      const { escrow } = await deployForTest(chain);
      const { queue, address } = await open(3);
      const before = await nonceOf(address);
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "withdraw", args: [5n, receiver] });
      const outcome = await queue.submit({ key: "w", kind: "withdraw", to: escrow, data });
      expect(outcome).to.include({ status: "reverted", hash: undefined, errorName: "InsufficientBalance" });
      expect(outcome.status === "reverted" && outcome.errorArgs).to.deep.equal([address, 0n, 5n]);
      expect(await nonceOf(address)).to.equal(before);
    });

    it("tells a revert that only mining showed", async () => {
      const { escrow } = await deployForTest(chain);
      const { queue } = await open(3, { rpcUrl: proxy.url });
      proxy.setFault(({ method }) =>
        method === "eth_estimateGas" ? { kind: "result", result: "0x30d40" } : undefined,
      );
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "withdraw", args: [5n, receiver] });
      const outcome = await queue.submit({ key: "w2", kind: "withdraw", to: escrow, data });
      expect(outcome.status).to.equal("reverted");
      expect(outcome.status === "reverted" && outcome.hash).to.match(/^0x/);
      expect(outcome.status === "reverted" && outcome.errorName).to.equal("InsufficientBalance");
    });

    it("needs at most four calls for a transaction", async () => {
      const { queue } = await open(4, { rpcUrl: proxy.url });
      await Promise.all(submitMany(queue, 1));
      proxy.reset();
      for (let index = 1; index <= 5; index += 1) await Promise.all(submitMany(queue, 1, index));
      expect(proxy.total).to.be.at.most(5 * 4);
    });

    it("does not send twice when the node took the transaction and its answer was lost", async () => {
      const { queue, address } = await open(5, { rpcUrl: proxy.url });
      const before = await nonceOf(address);
      let lost = 0;
      proxy.setFault(({ method }) => {
        if (method !== "eth_sendRawTransaction" || lost > 0) return undefined;
        lost += 1;
        return { kind: "drop-answer" };
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(lost).to.equal(1);
      expect(outcome?.status).to.equal("success");
      expect(await nonceOf(address)).to.equal(before + 1);
    });

    it("does not send again what it has sent when the node is slow to show it", async () => {
      const { queue, address, events } = await open(9, { rpcUrl: proxy.url });
      const before = await nonceOf(address);
      let hidden = 0;
      proxy.setFault(({ method }) => {
        if (method !== "eth_getTransactionReceipt" && method !== "eth_getTransactionByHash") return undefined;
        hidden += 1;
        return hidden <= 20 ? { kind: "result", result: null } : undefined;
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(hidden).to.be.greaterThan(20);
      expect(outcome?.status).to.equal("success");
      expect(events.filter(({ type }) => type === "foreign_nonce")).to.deep.equal([]);
      expect(await nonceOf(address)).to.equal(before + 1);
    });

    it("waits out an RPC that is down, then goes on by itself", async () => {
      const { queue } = await open(5, { rpcUrl: proxy.url });
      let refused = 0;
      proxy.setFault(() => {
        refused += 1;
        return refused < 12 ? { kind: "http", status: 503 } : undefined;
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(outcome?.status).to.equal("success");
    });

    it("gives up a transaction that cannot be sent in time, and leaves no nonce behind", async () => {
      const { queue, address } = await open(6, { rpcUrl: proxy.url });
      const before = await nonceOf(address);
      proxy.setFault(() => ({ kind: "http", status: 503 }));
      const outcome = await queue.submit({ key: "late", kind: "test", to: receiver, data: "0x01", sendWithinMs: 100 });
      expect(outcome.status).to.equal("abandoned");
      proxy.setFault(undefined);
      const again = await queue.submit({ key: "late", kind: "test", to: receiver, data: "0x01" });
      expect(again.status).to.equal("success");
      expect(await nonceOf(address)).to.equal(before + 1);
    });

    it("sends nothing of a transaction whose journal write failed, and gives its nonce to the next", async () => {
      const journal = memoryJournal();
      let isFull = true;
      const { queue, address } = await open(6, {
        journal: {
          ...journal,
          insertTransaction: async (row) => {
            if (isFull) throw new Error("disk full");
            return await journal.insertTransaction(row);
          },
        },
      });
      const before = await nonceOf(address);
      const refused = await queue
        .submit({ key: "refused", kind: "test", to: receiver, data: "0xdead" })
        .catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Error).with.property("message", "disk full");
      expect(queue.isPending("refused")).to.equal(false);
      isFull = false;
      const next = await queue.submit({ key: "next", kind: "test", to: receiver, data: "0x01" });
      expect(next.status === "success" && next.receipt.status).to.equal("success");
      expect(await nonceOf(address), "the refused one was sent as well").to.equal(before + 1);
    });

    it("knows its own transaction by the block that holds it, however long its receipt is not shown", async () => {
      const { queue, address, events } = await open(9, { rpcUrl: proxy.url, foreignPatienceMs: 50 });
      const before = await nonceOf(address);
      let isLost = false;
      let hidden = 0;
      proxy.setFault(({ method }) => {
        if (method === "eth_sendRawTransaction" && !isLost) {
          isLost = true;
          return { kind: "drop-answer" };
        }
        if (method !== "eth_getTransactionReceipt" && method !== "eth_getTransactionByHash") return undefined;
        hidden += 1;
        return { kind: "result", result: null };
      });
      const sent = queue.submit({ key: "lost", kind: "test", to: receiver, data: "0x01", sendWithinMs: 200 });
      await until("it was looked for often", () => hidden > 20);
      expect(events.map(({ type }) => type)).to.deep.equal([]);
      proxy.setFault(undefined);
      expect((await sent).status).to.equal("success");
      expect(await nonceOf(address), "it was sent with another nonce too").to.equal(before + 1);
    });

    it("asks a node again that is too full for it", async () => {
      const { queue } = await open(5, { rpcUrl: proxy.url });
      let refused = 0;
      proxy.setFault(({ method }) => {
        if (method !== "eth_sendRawTransaction" || refused >= 4) return undefined;
        refused += 1;
        return { kind: "error", code: -32_000, message: "txpool is full" };
      });
      const outcome = await queue.submit({ key: "full", kind: "test", to: receiver, data: "0x01" });
      expect(refused).to.equal(4);
      expect(outcome.status).to.equal("success");
    });

    it("lets the caller go in time when the node is asked but takes nothing", async () => {
      const { queue } = await open(6, { rpcUrl: proxy.url });
      proxy.setFault(({ method }) => (method === "eth_sendRawTransaction" ? { kind: "http", status: 503 } : undefined));
      const outcome = await queue.submit({ key: "half", kind: "test", to: receiver, data: "0x01", sendWithinMs: 200 });
      expect(outcome).to.include({ status: "abandoned", undecided: true });
      expect(queue.isPending("half")).to.equal(true);
    });

    describe("when the node does not show the receipt of what was mined before", () => {
      const request = { key: "old", kind: "test", to: receiver, data: "0x01" } as const;

      it("says that it cannot tell, and sends nothing", async () => {
        const { queue, address } = await open(7, { rpcUrl: proxy.url });
        await queue.submit(request);
        const after = await nonceOf(address);
        proxy.setFault(({ method }) =>
          method === "eth_getTransactionReceipt" ? { kind: "result", result: null } : undefined,
        );
        expect(await queue.outcomeOf("old")).to.include({ status: "abandoned", undecided: true });
        expect(await nonceOf(address)).to.equal(after);
      });

      it("waits for it when the transaction is asked for again, instead of failing or sending a second one", async () => {
        const { queue, address } = await open(8, { rpcUrl: proxy.url, foreignPatienceMs: 50 });
        const first = await queue.submit(request);
        const after = await nonceOf(address);
        let hidden = 0;
        proxy.setFault(({ method }) => {
          if (method !== "eth_getTransactionReceipt") return undefined;
          hidden += 1;
          return hidden < 10 ? { kind: "result", result: null } : undefined;
        });
        const again = await queue.submit(request);
        expect(again.status === "success" && again.hash).to.equal(first.status === "success" && first.hash);
        expect(await nonceOf(address)).to.equal(after);
      });
    });

    it("tolerates transactions that somebody else sends with the same key", async () => {
      const { queue, address } = await open(7);
      await Promise.all(submitMany(queue, 2));
      await chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      await chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      const outcomes = await Promise.all(submitMany(queue, 5, 10));
      expect(outcomes.map(({ status }) => status)).to.deep.equal(Array(5).fill("success"));
    });

    it("says that a wallet without ETH cannot send, instead of waiting for ever", async () => {
      const { queue, address } = await open(8);
      await chain.rpc("hardhat_setBalance", address, "0x0");
      const outcome = await queue.submit({ key: "poor", kind: "test", to: receiver, data: "0x01" });
      expect(outcome.status).to.equal("abandoned");
      await chain.rpc("hardhat_setBalance", address, numberToHex(parseEther("1")));
      const again = await queue.submit({ key: "poor", kind: "test", to: receiver, data: "0x01" });
      expect(again.status).to.equal("success");
    });
  });

  for (const [name, start] of [
    ["Hardhat chain", async () => await startHardhatChain({ blockTimeMs: 300 })],
    ["anvil chain", async () => await startAnvil({ blockTimeMs: 500 })],
  ] as const) {
    describe(`on a ${name} with blocks by the clock`, () => {
      before(async () => {
        chain = await start();
        proxy = await countingRpcProxy(chain.rpcUrl);
      });

      after(async () => {
        await proxy.stop();
        await chain.stop();
      });

      it("puts many transactions into one block instead of waiting for each", async () => {
        const { queue } = await open(1);
        const outcomes = await Promise.all(submitMany(queue, 40));
        const blocks = new Set(
          outcomes.map((outcome) => (outcome.status === "success" ? outcome.receipt.blockNumber : -1n)),
        );
        expect(blocks.has(-1n)).to.equal(false);
        expect(blocks.size).to.be.lessThan(20);
      });

      it("asks no more calls a poll for forty pending transactions than for one", async () => {
        const { queue } = await open(2, { rpcUrl: proxy.url, pollMs: 10 });
        const sent = submitMany(queue, 40);
        await until("all are sent", () => proxy.count("eth_sendRawTransaction") === 40);
        await Promise.all(sent);
        expect(proxy.count("eth_getTransactionReceipt")).to.be.at.most(45);
      });

      it("waits for the confirmations that it was told", async () => {
        const { queue } = await open(3, { confirmations: 3 });
        const [outcome] = await Promise.all(submitMany(queue, 1));
        if (outcome?.status !== "success") throw new Error("not mined");
        const head = BigInt((await chain.rpc("eth_blockNumber")) as string);
        expect(head >= outcome.receipt.blockNumber + 2n).to.equal(true);
      });
    });
  }

  describe("on an anvil chain that mines nothing by itself", () => {
    before(async () => {
      chain = await startAnvil({ extra: ["--no-mining"] });
      proxy = await countingRpcProxy(chain.rpcUrl);
    });

    after(async () => {
      await proxy.stop();
      await chain.stop();
    });

    it("sends a stuck transaction again on the same nonce at a higher fee, and only that one is mined", async () => {
      const { queue, events, address } = await open(1, { stuckAfterMs: 150 });
      const before = await nonceOf(address);
      const sent = submitMany(queue, 2);
      await until("the lowest nonce is bumped", () => events.filter(({ type }) => type === "bumped").length >= 2);
      await chain.rpc("evm_mine");
      const outcomes = await Promise.all(sent);
      expect(outcomes.map(({ status }) => status)).to.deep.equal(["success", "success"]);
      expect(await nonceOf(address)).to.equal(before + 2);
    });

    it("answers its caller in time while nothing is mined, and knows the end all the same", async () => {
      const { queue } = await open(1);
      const outcome = await queue.submit({
        key: "slow",
        kind: "test",
        to: receiver,
        data: "0x01",
        answerWithinMs: 200,
      });
      expect(outcome).to.include({ status: "abandoned", undecided: true });
      expect(queue.isPending("slow")).to.equal(true);
      await chain.rpc("evm_mine");
      await until("it is known", () => !queue.isPending("slow"));
      expect((await queue.outcomeOf("slow"))?.status).to.equal("success");
    });

    describe("when a reorganisation takes back what was mined", () => {
      /** A transaction that was mined and is in no block and no pool any more. */
      async function takenBack(opened: Opened): Promise<{ readonly before: number }> {
        const before = await nonceOf(opened.address);
        const snapshot = await chain.rpc("evm_snapshot");
        const first = opened.queue.submit({ key: "first", kind: "test", to: receiver, data: "0x01" });
        await until("it is pooled", async () => {
          return Number(await chain.rpc("eth_getTransactionCount", opened.address, "pending")) === before + 1;
        });
        await chain.rpc("evm_mine");
        expect((await first).status).to.equal("success");
        await chain.rpc("evm_revert", snapshot);
        expect(await nonceOf(opened.address)).to.equal(before);
        return { before };
      }

      async function mineUntil(told: Promise<{ readonly status: string }>): Promise<string> {
        let status: string | undefined;
        told.then(
          (outcome) => {
            status = outcome.status;
          },
          () => undefined,
        );
        await until("it is told", async () => {
          await chain.rpc("evm_mine");
          return status;
        });
        return (await told).status;
      }

      it("sends it again on its own nonce, so that the next one is not held up for good", async () => {
        const opened = await open(3, { gapLookMs: 50 });
        const { queue, address, events, journal } = opened;
        const { before } = await takenBack(opened);
        expect(await mineUntil(queue.submit({ key: "second", kind: "test", to: receiver, data: "0x02" }))).to.equal(
          "success",
        );
        await until("all is known", () => queue.pending === 0);
        expect(events.filter(({ type }) => type === "gap_closed").map((event) => event.key)).to.deep.equal(["first"]);
        expect((await journal.transaction("first"))?.status).to.equal("success");
        expect((await queue.outcomeOf("first"))?.status).to.equal("success");
        expect(await nonceOf(address)).to.equal(before + 2);
      });

      it("uses the nonce with nothing when what it did is not possible any more", async () => {
        const opened = await open(4, { gapLookMs: 50, rpcUrl: proxy.url });
        const { queue, address, events } = opened;
        const { before } = await takenBack(opened);
        proxy.setFault(({ method, params }) =>
          method === "eth_estimateGas" && (params[0] as { readonly data?: string }).data === "0x01"
            ? { kind: "error", code: 3, message: "execution reverted", data: "0x" }
            : undefined,
        );
        expect(await mineUntil(queue.submit({ key: "second", kind: "test", to: receiver, data: "0x02" }))).to.equal(
          "success",
        );
        await until("all is known", () => queue.pending === 0);
        expect(
          events.filter(({ type }) => type === "gap_closed").map((event) => "kind" in event && event.kind),
        ).to.deep.equal(["fill_gap"]);
        expect(await queue.outcomeOf("first"), "it is not on the chain").to.equal(undefined);
        expect(await nonceOf(address)).to.equal(before + 2);
      });
    });

    describe("when its nonce is lost to another transaction and it is refused on a second look", () => {
      /** Pooled, dropped, replaced by another; from then on its simulation reverts. */
      async function lose(opened: Opened): Promise<{ readonly told: ReturnType<RunningTransactionQueue["submit"]> }> {
        const { queue, address, journal } = opened;
        const told = queue.submit({ key: "loser", kind: "test", to: receiver, data: "0x01" });
        const hash = await until("it is sent", async () => {
          const first = (await journal.transaction("loser"))?.hashes[0];
          return first !== undefined && (await chain.rpc("eth_getTransactionByHash", first)) !== null
            ? first
            : undefined;
        });
        await chain.rpc("anvil_dropTransaction", hash);
        await chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
        await chain.rpc("evm_mine");
        return { told };
      }

      it("is not sent by the next process after its caller was told", async () => {
        const opened = await open(7, { foreignPatienceMs: 100, rpcUrl: proxy.url });
        proxy.setFault(({ method }) =>
          method === "eth_estimateGas" && proxy.count("eth_estimateGas") > 1
            ? { kind: "error", code: 3, message: "execution reverted", data: "0x" }
            : undefined,
        );
        proxy.reset();
        const { told } = await lose(opened);
        expect((await told).status).to.equal("reverted");
        expect((await opened.journal.transaction("loser"))?.status).to.equal("reverted");
        await opened.queue.close();
        const next = await open(7, { journal: opened.journal });
        expect(next.queue.pending).to.equal(0);
      });

      it("is told undecided where the node cannot show whose transaction it was", async () => {
        const opened = await open(8, { foreignPatienceMs: 100, rpcUrl: proxy.url });
        proxy.setFault(({ method, params }) => {
          if (method === "eth_estimateGas" && proxy.count("eth_estimateGas") > 1)
            return { kind: "error", code: 3, message: "execution reverted", data: "0x" };
          const isOfThePast = method === "eth_getTransactionCount" && String(params[1]).startsWith("0x");
          return isOfThePast ? { kind: "error", code: -32_000, message: "missing trie node" } : undefined;
        });
        proxy.reset();
        const { told } = await lose(opened);
        expect(await told).to.include({ status: "abandoned", undecided: true });
        expect(opened.queue.isPending("loser")).to.equal(true);
        await until("it is known in the end", () => !opened.queue.isPending("loser"));
      });
    });

    describe("when the chain is lost while a transaction is sent", () => {
      const late = { key: "late", kind: "test", to: receiver, data: "0x01", sendWithinMs: 200 } as const;
      let sendings = 0;

      /** The first sending suffers the fault, and nothing is answered after it. */
      function loseChain(fault: "drop" | "drop-answer"): void {
        sendings = 0;
        proxy.setFault(({ method }) => {
          if (method === "eth_sendRawTransaction") {
            sendings += 1;
            if (sendings === 1) return { kind: fault };
          }
          return sendings === 0 ? undefined : { kind: "http", status: 503 };
        });
      }

      it("lets the caller go in time, and knows in the end that it was mined all the same", async () => {
        const { queue, address } = await open(5, { rpcUrl: proxy.url });
        const before = await nonceOf(address);
        loseChain("drop-answer");
        const outcome = await queue.submit(late);
        expect(outcome).to.include({ status: "abandoned", undecided: true });
        expect(queue.isPending("late")).to.equal(true);
        proxy.setFault(undefined);
        await chain.rpc("evm_mine");
        await until("it is known", () => !queue.isPending("late"));
        expect((await queue.outcomeOf("late"))?.status).to.equal("success");
        expect(await nonceOf(address)).to.equal(before + 1);
      });

      it("gives its nonce to the next one, which decides that it never will be", async () => {
        const { queue, address, journal } = await open(6, { rpcUrl: proxy.url, foreignPatienceMs: 100 });
        const before = await nonceOf(address);
        loseChain("drop");
        await queue.submit(late);
        proxy.setFault(undefined);
        const next = submitMany(queue, 1);
        await until(
          "the next one is sent",
          async () => Number(await chain.rpc("eth_getTransactionCount", address, "pending")) === before + 1,
        );
        await chain.rpc("evm_mine");
        expect((await Promise.all(next))[0]?.status).to.equal("success");
        await until("it is known", () => !queue.isPending("late"));
        expect((await journal.transaction("late"))?.status).to.equal("abandoned");
        expect(await nonceOf(address)).to.equal(before + 1);
      });

      for (const fault of ["drop", "drop-answer"] as const) {
        it(`is mined once when it is asked for again, ${fault === "drop" ? "though it never arrived" : "though it had arrived"}`, async () => {
          const { queue, address } = await open(fault === "drop" ? 7 : 8, { rpcUrl: proxy.url });
          const before = await nonceOf(address);
          loseChain(fault);
          await queue.submit(late);
          proxy.setFault(undefined);
          const again = queue.submit({ ...late, sendWithinMs: 10_000 });
          await until(
            "it is pooled",
            async () => Number(await chain.rpc("eth_getTransactionCount", address, "pending")) === before + 1,
          );
          await chain.rpc("evm_mine");
          expect((await again).status).to.equal("success");
          expect(await nonceOf(address)).to.equal(before + 1);
        });
      }

      it("is not sent again by the next process, which only watches what becomes of it", async () => {
        const first = await open(9, { rpcUrl: proxy.url });
        loseChain("drop-answer");
        await first.queue.submit(late);
        await first.queue.close();
        proxy.setFault(undefined);
        proxy.reset();
        const { queue } = await open(9, { rpcUrl: proxy.url, journal: first.journal });
        expect(queue.isPending("late")).to.equal(true);
        expect(await queue.outcomeOf("late")).to.include({ status: "abandoned", undecided: true });
        await until("it is watched", () => proxy.count("eth_getTransactionCount") > 2);
        await chain.rpc("evm_mine");
        await until("it is known", () => !queue.isPending("late"));
        expect((await queue.outcomeOf("late"))?.status).to.equal("success");
        expect(proxy.count("eth_sendRawTransaction")).to.equal(0);
      });
    });

    it("stops raising at the cap, says so, and is still mined", async () => {
      const { queue, events } = await open(2, { stuckAfterMs: 100, feeCap: 3_500_000_000n });
      const sent = submitMany(queue, 1);
      await until("the cap is reached", () => events.some(({ type }) => type === "fee_cap_reached"));
      await chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });

    it("puts a transaction that the pool has dropped back into it", async () => {
      const { queue, journal } = await open(3, { stuckAfterMs: 200 });
      const sent = submitMany(queue, 1);
      const hash = await until("it is sent", async () => {
        const row = await journal.transaction("k0");
        const first = row?.hashes[0];
        return first !== undefined && (await chain.rpc("eth_getTransactionByHash", first)) !== null ? first : undefined;
      });
      await chain.rpc("anvil_dropTransaction", hash);
      await until("it is back", async () => {
        const row = await journal.transaction("k0");
        const last = row?.hashes.at(-1);
        return last !== hash && (await chain.rpc("eth_getTransactionByHash", last)) !== null;
      });
      await chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });

    it("gives its transaction another nonce when a foreign one took its place", async () => {
      const { queue, events, address, journal } = await open(4, { stuckAfterMs: 60_000, foreignPatienceMs: 200 });
      const sent = submitMany(queue, 1);
      const hash = await until("it is sent", async () => {
        const first = (await journal.transaction("k0"))?.hashes[0];
        return first !== undefined && (await chain.rpc("eth_getTransactionByHash", first)) !== null ? first : undefined;
      });
      await chain.rpc("anvil_dropTransaction", hash);
      await chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      await chain.rpc("evm_mine");
      await until("the loss is seen", () => events.some(({ type }) => type === "foreign_nonce"));
      await until("it is sent anew", async () => ((await journal.transaction("k0"))?.nonce ?? 0) > 0);
      await until("it is pooled", async () => {
        const last = (await journal.transaction("k0"))?.hashes.at(-1);
        return last !== undefined && (await chain.rpc("eth_getTransactionByHash", last)) !== null;
      });
      await chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });
  });
});
