import { expect } from "chai";
import { startAnvil, startHardhatChain } from "../../support/chain.ts";
import { until } from "../../support/until.ts";
import { queuePlace, receiver, submitMany } from "./support/queue-place.ts";

describe("a transaction that was let go or lost sight of", function () {
  this.timeout(60_000);

  describe("on a Hardhat chain that mines a block per transaction", () => {
    const place = queuePlace(startHardhatChain);

    describe("when the node does not show the receipt of what was mined before", () => {
      const request = { key: "old", kind: "test", to: receiver, data: "0x01" } as const;

      it("says that it cannot tell, and sends nothing", async () => {
        const { queue, address } = await place.open(7, { rpcUrl: place.proxy.url });
        await queue.submit(request);
        const after = await place.nonceOf(address);
        place.proxy.setFault(({ method }) =>
          method === "eth_getTransactionReceipt" ? { kind: "result", result: null } : undefined,
        );
        expect(await queue.outcomeOf("old")).to.include({ status: "abandoned", undecided: true });
        expect(await place.nonceOf(address)).to.equal(after);
      });

      it("waits for it when the transaction is asked for again, instead of failing or sending a second one", async () => {
        const { queue, address } = await place.open(8, { rpcUrl: place.proxy.url, foreignPatienceMs: 50 });
        const first = await queue.submit(request);
        const after = await place.nonceOf(address);
        let hidden = 0;
        place.proxy.setFault(({ method }) => {
          if (method !== "eth_getTransactionReceipt") return undefined;
          hidden += 1;
          return hidden < 10 ? { kind: "result", result: null } : undefined;
        });
        const again = await queue.submit(request);
        expect(again.status === "success" && again.hash).to.equal(first.status === "success" && first.hash);
        expect(await place.nonceOf(address)).to.equal(after);
      });
    });
  });

  describe("on an anvil chain that mines nothing by itself", () => {
    const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

    describe("when the chain is lost while a transaction is sent", () => {
      const late = { key: "late", kind: "test", to: receiver, data: "0x01", sendWithinMs: 200 } as const;
      let sendings = 0;

      /** The first sending suffers the fault, and nothing is answered after it. */
      function loseChain(fault: "drop" | "drop-answer"): void {
        sendings = 0;
        place.proxy.setFault(({ method }) => {
          if (method === "eth_sendRawTransaction") {
            sendings += 1;
            if (sendings === 1) return { kind: fault };
          }
          return sendings === 0 ? undefined : { kind: "http", status: 503 };
        });
      }

      it("lets the caller go in time, and knows in the end that it was mined all the same", async () => {
        const { queue, address } = await place.open(5, { rpcUrl: place.proxy.url });
        const before = await place.nonceOf(address);
        loseChain("drop-answer");
        const outcome = await queue.submit(late);
        expect(outcome).to.include({ status: "abandoned", undecided: true });
        expect(queue.isPending("late")).to.equal(true);
        place.proxy.setFault(undefined);
        await place.chain.rpc("evm_mine");
        await until("it is known", () => !queue.isPending("late"));
        expect((await queue.outcomeOf("late"))?.status).to.equal("success");
        expect(await place.nonceOf(address)).to.equal(before + 1);
      });

      it("gives its nonce to the next one, which decides that it never will be", async () => {
        const { queue, address, journal } = await place.open(6, { rpcUrl: place.proxy.url, foreignPatienceMs: 100 });
        const before = await place.nonceOf(address);
        loseChain("drop");
        await queue.submit(late);
        place.proxy.setFault(undefined);
        const next = submitMany(queue, 1);
        await until(
          "the next one is sent",
          async () => Number(await place.chain.rpc("eth_getTransactionCount", address, "pending")) === before + 1,
        );
        await place.chain.rpc("evm_mine");
        expect((await Promise.all(next))[0]?.status).to.equal("success");
        await until("it is known", () => !queue.isPending("late"));
        expect((await journal.transaction("late"))?.status).to.equal("abandoned");
        expect(await place.nonceOf(address)).to.equal(before + 1);
      });

      for (const fault of ["drop", "drop-answer"] as const) {
        it(`is mined once when it is asked for again, ${fault === "drop" ? "though it never arrived" : "though it had arrived"}`, async () => {
          const { queue, address } = await place.open(fault === "drop" ? 7 : 8, { rpcUrl: place.proxy.url });
          const before = await place.nonceOf(address);
          loseChain(fault);
          await queue.submit(late);
          place.proxy.setFault(undefined);
          const again = queue.submit({ ...late, sendWithinMs: 10_000 });
          await until(
            "it is pooled",
            async () => Number(await place.chain.rpc("eth_getTransactionCount", address, "pending")) === before + 1,
          );
          await place.chain.rpc("evm_mine");
          expect((await again).status).to.equal("success");
          expect(await place.nonceOf(address)).to.equal(before + 1);
        });
      }

      it("is not sent again by the next process, which only watches what becomes of it", async () => {
        const first = await place.open(9, { rpcUrl: place.proxy.url });
        loseChain("drop-answer");
        await first.queue.submit(late);
        await first.queue.close();
        place.proxy.setFault(undefined);
        place.proxy.reset();
        const { queue } = await place.open(9, { rpcUrl: place.proxy.url, journal: first.journal });
        expect(queue.isPending("late")).to.equal(true);
        expect(await queue.outcomeOf("late")).to.include({ status: "abandoned", undecided: true });
        await until("it is watched", () => place.proxy.count("eth_getTransactionCount") > 2);
        await place.chain.rpc("evm_mine");
        await until("it is known", () => !queue.isPending("late"));
        expect((await queue.outcomeOf("late"))?.status).to.equal("success");
        expect(place.proxy.count("eth_sendRawTransaction")).to.equal(0);
      });
    });
  });
});
