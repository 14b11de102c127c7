import { expect } from "chai";
import type { Hex } from "viem";
import { startAnvil, startHardhatChain } from "../../support/chain.ts";
import { until } from "../../support/until.ts";
import { queuePlace, receiver, submitMany } from "./support/queue-place.ts";

describe("the transaction queue", function () {
  this.timeout(60_000);

  describe("on a Hardhat chain that mines a block per transaction", () => {
    const place = queuePlace(startHardhatChain);

    it("sends fifty at once without a nonce gap, which this chain refuses", async () => {
      const { queue, address } = await place.open(1);
      const before = await place.nonceOf(address);
      const outcomes = await Promise.all(submitMany(queue, 50));
      expect(outcomes.map(({ status }) => status)).to.deep.equal(Array(50).fill("success"));
      expect(await place.nonceOf(address)).to.equal(before + 50);
      expect(queue.pending).to.equal(0);
    });

    it("sends one transaction for one key, however often it is asked", async () => {
      const { queue, address } = await place.open(2);
      const before = await place.nonceOf(address);
      const request = { key: "same", kind: "test", to: receiver, data: "0x01" as Hex };
      const [first, second] = await Promise.all([queue.submit(request), queue.submit(request)]);
      const third = await queue.submit(request);
      expect(await place.nonceOf(address)).to.equal(before + 1);
      for (const outcome of [first, second, third, await queue.outcomeOf("same")]) {
        expect(outcome?.status === "success" && outcome.hash).to.equal(first.status === "success" && first.hash);
      }
    });

    it("needs at most four calls for a transaction", async () => {
      const { queue } = await place.open(4, { rpcUrl: place.proxy.url });
      await Promise.all(submitMany(queue, 1));
      place.proxy.reset();
      for (let index = 1; index <= 5; index += 1) await Promise.all(submitMany(queue, 1, index));
      expect(place.proxy.total).to.be.at.most(5 * 4);
    });

    it("tolerates transactions that somebody else sends with the same key", async () => {
      const { queue, address } = await place.open(7);
      await Promise.all(submitMany(queue, 2));
      await place.chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      await place.chain.rpc("eth_sendTransaction", { from: address, to: receiver, value: "0x1" });
      const outcomes = await Promise.all(submitMany(queue, 5, 10));
      expect(outcomes.map(({ status }) => status)).to.deep.equal(Array(5).fill("success"));
    });
  });

  describe("on an anvil chain that mines nothing by itself", () => {
    const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

    it("answers its caller in time while nothing is mined, and knows the end all the same", async () => {
      const { queue } = await place.open(1);
      const outcome = await queue.submit({
        key: "slow",
        kind: "test",
        to: receiver,
        data: "0x01",
        answerWithinMs: 200,
      });
      expect(outcome).to.include({ status: "abandoned", undecided: true });
      expect(queue.isPending("slow")).to.equal(true);
      await place.chain.rpc("evm_mine");
      await until("it is known", () => !queue.isPending("slow"));
      expect((await queue.outcomeOf("slow"))?.status).to.equal("success");
    });
  });
});
