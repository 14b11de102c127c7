import { expect } from "chai";
import { numberToHex } from "viem";
import { QueueClosedError } from "../../../chain/transactions/pace.ts";
import { startAnvil, startHardhatChain } from "../../support/chain.ts";
import { until } from "../../support/until.ts";
import { queuePlace, receiver, submitMany } from "./support/queue-place.ts";

describe("a transaction that was sent", function () {
  this.timeout(60_000);

  for (const [name, start] of [
    ["Hardhat chain", async () => await startHardhatChain({ blockTimeMs: 300 })],
    ["anvil chain", async () => await startAnvil({ blockTimeMs: 500 })],
  ] as const) {
    describe(`on a ${name} with blocks by the clock`, () => {
      const place = queuePlace(start);

      it("puts many transactions into one block instead of waiting for each", async () => {
        const { queue } = await place.open(1);
        const outcomes = await Promise.all(submitMany(queue, 40));
        const blocks = new Set(
          outcomes.map((outcome) => (outcome.status === "success" ? outcome.receipt.blockNumber : -1n)),
        );
        expect(blocks.has(-1n)).to.equal(false);
        expect(blocks.size).to.be.lessThan(20);
      });

      it("asks no more calls a poll for forty pending transactions than for one", async () => {
        const { queue } = await place.open(2, { rpcUrl: place.proxy.url, pollMs: 10 });
        const sent = submitMany(queue, 40);
        await until("all are sent", () => place.proxy.count("eth_sendRawTransaction") === 40);
        await Promise.all(sent);
        expect(place.proxy.count("eth_getTransactionReceipt")).to.be.at.most(45);
      });

      it("waits for the confirmations that it was told", async () => {
        const { queue } = await place.open(3, { confirmations: 3 });
        const [outcome] = await Promise.all(submitMany(queue, 1));
        if (outcome?.status !== "success") throw new Error("not mined");
        const head = BigInt((await place.chain.rpc("eth_blockNumber")) as string);
        expect(head >= outcome.receipt.blockNumber + 2n).to.equal(true);
      });
    });
  }

  describe("on an anvil chain that mines nothing by itself", () => {
    const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

    /** The chain seems to make blocks, none of which takes our transactions. */
    function passOver(): void {
      let head = 1000;
      place.proxy.setFault(({ method }) => {
        if (method !== "eth_blockNumber") return undefined;
        head += 1;
        return { kind: "result", result: numberToHex(head) };
      });
    }

    it("raises the fee of a stuck transaction once while the chain makes no blocks, as it would pay for all of a long outage", async () => {
      place.proxy.reset();
      const { queue, events } = await place.open(6, { rpcUrl: place.proxy.url, stuckAfterMs: 20 });
      const sent = submitMany(queue, 1);
      await until("it is sent again and again", () => place.proxy.count("eth_sendRawTransaction") >= 6);
      expect(events.filter(({ type }) => type === "bumped")).to.have.length(1);
      await place.chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });

    it("sends a stuck transaction again on the same nonce at a higher fee, and only that one is mined", async () => {
      const { queue, events, address } = await place.open(1, { rpcUrl: place.proxy.url, stuckAfterMs: 150 });
      passOver();
      const before = await place.nonceOf(address);
      const sent = submitMany(queue, 2);
      await until("the lowest nonce is bumped", () => events.filter(({ type }) => type === "bumped").length >= 2);
      await place.chain.rpc("evm_mine");
      const outcomes = await Promise.all(sent);
      expect(outcomes.map(({ status }) => status)).to.deep.equal(["success", "success"]);
      expect(await place.nonceOf(address)).to.equal(before + 2);
    });

    it("does not hold up the end of a queue that is closed while it looks for receipts", async () => {
      let closed = false;
      place.proxy.reset();
      const { queue } = await place.open(5, {
        rpcUrl: place.proxy.url,
        pollMs: 60_000,
        crashPoint: (point) => {
          if (point === "mined") void queue.close().then(() => (closed = true));
        },
      });
      const request = { kind: "test", to: receiver, data: "0x01" } as const;
      const first = queue.submit({ ...request, key: "first" });
      await until("it was looked for once", () => place.proxy.count("eth_getTransactionCount") === 2);
      await place.chain.rpc("evm_mine");
      const second = queue.submit({ ...request, key: "second" }).catch((error: unknown) => error);
      expect((await first).status).to.equal("success");
      await until("it is closed", () => closed, 5000);
      expect(await second).to.be.instanceOf(QueueClosedError);
    });

    it("stops raising at the cap, says so, and is still mined", async () => {
      const options = { rpcUrl: place.proxy.url, stuckAfterMs: 100, feeCap: 3_500_000_000n };
      const { queue, events } = await place.open(2, options);
      passOver();
      const sent = submitMany(queue, 1);
      await until("the cap is reached", () => events.some(({ type }) => type === "fee_cap_reached"));
      await place.chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });

    it("puts a transaction that the pool has dropped back into it", async () => {
      const { queue, journal } = await place.open(3, { stuckAfterMs: 200 });
      const sent = submitMany(queue, 1);
      const hash = await until("it is sent", async () => {
        const row = await journal.transaction("k0");
        const first = row?.hashes[0];
        return first !== undefined && (await place.chain.rpc("eth_getTransactionByHash", first)) !== null
          ? first
          : undefined;
      });
      await place.chain.rpc("anvil_dropTransaction", hash);
      await until("it is back", async () => {
        const row = await journal.transaction("k0");
        const last = row?.hashes.at(-1);
        return last !== hash && (await place.chain.rpc("eth_getTransactionByHash", last)) !== null;
      });
      await place.chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });

    it("gives its transaction another nonce when a foreign one took its place", async () => {
      const { queue, events, address, journal } = await place.open(4, { stuckAfterMs: 60_000, foreignPatienceMs: 200 });
      const sent = submitMany(queue, 1);
      const hash = await until("it is sent", async () => {
        const first = (await journal.transaction("k0"))?.hashes[0];
        return first !== undefined && (await place.chain.rpc("eth_getTransactionByHash", first)) !== null
          ? first
          : undefined;
      });
      await place.chain.rpc("anvil_dropTransaction", hash);
      await place.chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      await place.chain.rpc("evm_mine");
      await until("the loss is seen", () => events.some(({ type }) => type === "foreign_nonce"));
      await until("it is sent anew", async () => ((await journal.transaction("k0"))?.nonce ?? 0) > 0);
      await until("it is pooled", async () => {
        const last = (await journal.transaction("k0"))?.hashes.at(-1);
        return last !== undefined && (await place.chain.rpc("eth_getTransactionByHash", last)) !== null;
      });
      await place.chain.rpc("evm_mine");
      expect((await Promise.all(sent))[0]?.status).to.equal("success");
    });
  });
});
