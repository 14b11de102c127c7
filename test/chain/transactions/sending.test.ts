import { expect } from "chai";
import { startHardhatChain } from "../../support/chain.ts";
import { until } from "../../support/until.ts";
import { queuePlace, receiver, submitMany } from "./support/queue-place.ts";

describe("a signed transaction that is sent", function () {
  this.timeout(60_000);

  describe("on a Hardhat chain that mines a block per transaction", () => {
    const place = queuePlace(startHardhatChain);

    it("does not send twice when the node took the transaction and its answer was lost", async () => {
      const { queue, address } = await place.open(5, { rpcUrl: place.proxy.url });
      const before = await place.nonceOf(address);
      let lost = 0;
      place.proxy.setFault(({ method }) => {
        if (method !== "eth_sendRawTransaction" || lost > 0) return undefined;
        lost += 1;
        return { kind: "drop-answer" };
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(lost).to.equal(1);
      expect(outcome?.status).to.equal("success");
      expect(await place.nonceOf(address)).to.equal(before + 1);
    });

    it("does not send again what it has sent when the node is slow to show it", async () => {
      const { queue, address, events } = await place.open(9, { rpcUrl: place.proxy.url });
      const before = await place.nonceOf(address);
      let hidden = 0;
      place.proxy.setFault(({ method }) => {
        if (method !== "eth_getTransactionReceipt" && method !== "eth_getTransactionByHash") return undefined;
        hidden += 1;
        return hidden <= 20 ? { kind: "result", result: null } : undefined;
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(hidden).to.be.greaterThan(20);
      expect(outcome?.status).to.equal("success");
      expect(events.filter(({ type }) => type === "foreign_nonce")).to.deep.equal([]);
      expect(await place.nonceOf(address)).to.equal(before + 1);
    });

    it("waits out an RPC that is down, then goes on by itself", async () => {
      const { queue } = await place.open(5, { rpcUrl: place.proxy.url });
      let refused = 0;
      place.proxy.setFault(() => {
        refused += 1;
        return refused < 12 ? { kind: "http", status: 503 } : undefined;
      });
      const [outcome] = await Promise.all(submitMany(queue, 1));
      expect(outcome?.status).to.equal("success");
    });

    it("knows its own transaction by the block that holds it, however long its receipt is not shown", async () => {
      const { queue, address, events } = await place.open(9, { rpcUrl: place.proxy.url, foreignPatienceMs: 50 });
      const before = await place.nonceOf(address);
      let isLost = false;
      let hidden = 0;
      place.proxy.setFault(({ method }) => {
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
      place.proxy.setFault(undefined);
      expect((await sent).status).to.equal("success");
      expect(await place.nonceOf(address), "it was sent with another nonce too").to.equal(before + 1);
    });

    it("asks a node again that is too full for it", async () => {
      const { queue } = await place.open(5, { rpcUrl: place.proxy.url });
      let refused = 0;
      place.proxy.setFault(({ method }) => {
        if (method !== "eth_sendRawTransaction" || refused >= 4) return undefined;
        refused += 1;
        return { kind: "error", code: -32_000, message: "txpool is full" };
      });
      const outcome = await queue.submit({ key: "full", kind: "test", to: receiver, data: "0x01" });
      expect(refused).to.equal(4);
      expect(outcome.status).to.equal("success");
    });

    it("lets the caller go in time when the node is asked but takes nothing", async () => {
      const { queue } = await place.open(6, { rpcUrl: place.proxy.url });
      place.proxy.setFault(({ method }) =>
        method === "eth_sendRawTransaction" ? { kind: "http", status: 503 } : undefined,
      );
      const outcome = await queue.submit({ key: "half", kind: "test", to: receiver, data: "0x01", sendWithinMs: 200 });
      expect(outcome).to.include({ status: "abandoned", undecided: true });
      expect(queue.isPending("half")).to.equal(true);
    });
  });
});
