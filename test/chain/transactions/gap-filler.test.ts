import { expect } from "chai";
import { startAnvil } from "../../support/chain.ts";
import { until } from "../../support/until.ts";
import { type OpenedQueue, queuePlace, receiver } from "./support/queue-place.ts";

describe("a nonce that the node waits for", function () {
  this.timeout(60_000);

  describe("on an anvil chain that mines nothing by itself", () => {
    const place = queuePlace(async () => await startAnvil({ extra: ["--no-mining"] }));

    describe("when a reorganisation takes back what was mined", () => {
      /** A transaction that was mined and is in no block and no pool any more. */
      async function takenBack(opened: OpenedQueue): Promise<{ readonly before: number }> {
        const before = await place.nonceOf(opened.address);
        const snapshot = await place.chain.rpc("evm_snapshot");
        const first = opened.queue.submit({ key: "first", kind: "test", to: receiver, data: "0x01" });
        await until("it is pooled", async () => {
          return Number(await place.chain.rpc("eth_getTransactionCount", opened.address, "pending")) === before + 1;
        });
        await place.chain.rpc("evm_mine");
        expect((await first).status).to.equal("success");
        await place.chain.rpc("evm_revert", snapshot);
        expect(await place.nonceOf(opened.address)).to.equal(before);
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
          await place.chain.rpc("evm_mine");
          return status;
        });
        return (await told).status;
      }

      it("sends it again on its own nonce, so that the next one is not held up for good", async () => {
        const opened = await place.open(3, { gapLookMs: 50 });
        const { queue, address, events, journal } = opened;
        const { before } = await takenBack(opened);
        expect(await mineUntil(queue.submit({ key: "second", kind: "test", to: receiver, data: "0x02" }))).to.equal(
          "success",
        );
        await until("all is known", () => queue.pending === 0);
        expect(events.filter(({ type }) => type === "gap_closed").map((event) => event.key)).to.deep.equal(["first"]);
        expect((await journal.transaction("first"))?.status).to.equal("success");
        expect((await queue.outcomeOf("first"))?.status).to.equal("success");
        expect(await place.nonceOf(address)).to.equal(before + 2);
      });

      it("uses the nonce with nothing when what it did is not possible any more", async () => {
        const opened = await place.open(4, { gapLookMs: 50, rpcUrl: place.proxy.url });
        const { queue, address, events } = opened;
        const { before } = await takenBack(opened);
        place.proxy.setFault(({ method, params }) =>
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
        expect(await place.nonceOf(address)).to.equal(before + 2);
      });
    });
  });
});
