import { expect } from "chai";
import { encodeFunctionData, numberToHex, parseEther } from "viem";
import { jobEscrowAbi } from "../../../chain/abi/job-escrow.ts";
import type { RunningTransactionQueue } from "../../../chain/transactions/queue.ts";
import { startAnvil, startHardhatChain } from "../../support/chain.ts";
import { deployForTest } from "../../support/deployment.ts";
import { memoryJournal } from "../../support/memory-journal.ts";
import { until } from "../../support/until.ts";
import { type OpenedQueue, queuePlace, receiver } from "./support/queue-place.ts";

describe("a transaction that is given a nonce", function () {
  this.timeout(60_000);

  describe("on a Hardhat chain that mines a block per transaction", () => {
    const place = queuePlace(startHardhatChain);

    it("finds out a revert by simulation, by its Solidity name and without spending a nonce", async () => {
      const { escrow } = await deployForTest(place.chain);
      const { queue, address } = await place.open(3);
      const before = await place.nonceOf(address);
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "withdraw", args: [5n, receiver] });
      const outcome = await queue.submit({ key: "w", kind: "withdraw", to: escrow, data });
      expect(outcome).to.include({ status: "reverted", hash: undefined, errorName: "InsufficientBalance" });
      expect(outcome.status === "reverted" && outcome.errorArgs).to.deep.equal([address, 0n, 5n]);
      expect(await place.nonceOf(address)).to.equal(before);
    });

    it("tells a revert that only mining showed", async () => {
      const { escrow } = await deployForTest(place.chain);
      const { queue } = await place.open(3, { rpcUrl: place.proxy.url });
      place.proxy.setFault(({ method }) =>
        method === "eth_estimateGas" ? { kind: "result", result: "0x30d40" } : undefined,
      );
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "withdraw", args: [5n, receiver] });
      const outcome = await queue.submit({ key: "w2", kind: "withdraw", to: escrow, data });
      expect(outcome.status).to.equal("reverted");
      expect(outcome.status === "reverted" && outcome.hash).to.match(/^0x/);
      expect(outcome.status === "reverted" && outcome.errorName).to.equal("InsufficientBalance");
    });

    for (const [times, errorName] of [
      [2, "InsufficientBalance"],
      [Number.POSITIVE_INFINITY, undefined],
    ] as const) {
      it(`${errorName === undefined ? "tells a revert without" : "waits for"} its name when the node cannot be asked for it ${
        errorName === undefined ? "at all" : "at once"
      }`, async () => {
        const { escrow } = await deployForTest(place.chain);
        const { queue } = await place.open(3, { rpcUrl: place.proxy.url });
        let asked = 0;
        place.proxy.setFault(({ method }) => {
          if (method === "eth_estimateGas") return { kind: "result", result: "0x30d40" };
          if (method !== "eth_call" || asked >= 2 * times) return undefined;
          asked += 1;
          return { kind: "http", status: 503 };
        });
        const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "withdraw", args: [5n, receiver] });
        const outcome = await queue.submit({ key: `reverted ${times}`, kind: "withdraw", to: escrow, data });
        expect(outcome).to.include({ status: "reverted", errorName });
      });
    }

    it("gives up a transaction that cannot be sent in time, and leaves no nonce behind", async () => {
      const { queue, address } = await place.open(6, { rpcUrl: place.proxy.url });
      const before = await place.nonceOf(address);
      place.proxy.setFault(() => ({ kind: "http", status: 503 }));
      const outcome = await queue.submit({ key: "late", kind: "test", to: receiver, data: "0x01", sendWithinMs: 100 });
      expect(outcome.status).to.equal("abandoned");
      place.proxy.setFault(undefined);
      const again = await queue.submit({ key: "late", kind: "test", to: receiver, data: "0x01" });
      expect(again.status).to.equal("success");
      expect(await place.nonceOf(address)).to.equal(before + 1);
    });

    it("sends nothing of a transaction whose journal write failed, and gives its nonce to the next", async () => {
      const journal = memoryJournal();
      let isFull = true;
      const { queue, address } = await place.open(6, {
        journal: {
          ...journal,
          insertTransaction: async (row) => {
            if (isFull) throw new Error("disk full");
            return await journal.insertTransaction(row);
          },
        },
      });
      const before = await place.nonceOf(address);
      const refused = await queue
        .submit({ key: "refused", kind: "test", to: receiver, data: "0xdead" })
        .catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Error).with.property("message", "disk full");
      expect(queue.isPending("refused")).to.equal(false);
      isFull = false;
      const next = await queue.submit({ key: "next", kind: "test", to: receiver, data: "0x01" });
      expect(next.status === "success" && next.receipt.status).to.equal("success");
      expect(await place.nonceOf(address), "the refused one was sent as well").to.equal(before + 1);
    });

    it("says that a wallet without ETH cannot send, instead of waiting for ever", async () => {
      const { queue, address } = await place.open(8);
      await place.chain.rpc("hardhat_setBalance", address, "0x0");
      const outcome = await queue.submit({ key: "poor", kind: "test", to: receiver, data: "0x01" });
      expect(outcome.status).to.equal("abandoned");
      await place.chain.rpc("hardhat_setBalance", address, numberToHex(parseEther("1")));
      const again = await queue.submit({ key: "poor", kind: "test", to: receiver, data: "0x01" });
      expect(again.status).to.equal("success");
    });
  });

  describe("on an anvil chain that mines nothing by itself", () => {
    const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

    describe("when its nonce is lost to another transaction and it is refused on a second look", () => {
      /** Pooled, dropped, replaced by another; from then on its simulation reverts. */
      async function lose(
        opened: OpenedQueue,
      ): Promise<{ readonly told: ReturnType<RunningTransactionQueue["submit"]> }> {
        const { queue, address, journal } = opened;
        const told = queue.submit({ key: "loser", kind: "test", to: receiver, data: "0x01" });
        const hash = await until("it is sent", async () => {
          const first = (await journal.transaction("loser"))?.hashes[0];
          return first !== undefined && (await place.chain.rpc("eth_getTransactionByHash", first)) !== null
            ? first
            : undefined;
        });
        await place.chain.rpc("anvil_dropTransaction", hash);
        await place.chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
        await place.chain.rpc("evm_mine");
        return { told };
      }

      it("is not sent by the next process after its caller was told", async () => {
        const opened = await place.open(7, { foreignPatienceMs: 100, rpcUrl: place.proxy.url });
        place.proxy.setFault(({ method }) =>
          method === "eth_estimateGas" && place.proxy.count("eth_estimateGas") > 1
            ? { kind: "error", code: 3, message: "execution reverted", data: "0x" }
            : undefined,
        );
        place.proxy.reset();
        const { told } = await lose(opened);
        expect((await told).status).to.equal("reverted");
        expect((await opened.journal.transaction("loser"))?.status).to.equal("reverted");
        await opened.queue.close();
        const next = await place.open(7, { journal: opened.journal });
        expect(next.queue.pending).to.equal(0);
      });

      it("is told undecided where the node cannot show whose transaction it was", async () => {
        const opened = await place.open(8, { foreignPatienceMs: 100, rpcUrl: place.proxy.url });
        place.proxy.setFault(({ method, params }) => {
          if (method === "eth_estimateGas" && place.proxy.count("eth_estimateGas") > 1)
            return { kind: "error", code: 3, message: "execution reverted", data: "0x" };
          const isOfThePast = method === "eth_getTransactionCount" && String(params[1]).startsWith("0x");
          return isOfThePast ? { kind: "error", code: -32_000, message: "missing trie node" } : undefined;
        });
        place.proxy.reset();
        const { told } = await lose(opened);
        expect(await told).to.include({ status: "abandoned", undecided: true });
        expect(opened.queue.isPending("loser")).to.equal(true);
        await until("it is known in the end", () => !opened.queue.isPending("loser"));
      });
    });
  });
});
