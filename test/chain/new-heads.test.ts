import { expect } from "chai";
import { followNewHeads } from "../../chain/registry-index/new-heads.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { startAnvil } from "../support/chain.ts";
import { until } from "../support/until.ts";

describe("announcements of new blocks", function () {
  this.timeout(30_000);

  it("come over the WebSocket, go on after the node was restarted, and end when told", async () => {
    const first = await startAnvil();
    let wakes = 0;
    const stop = followNewHeads({ url: first.wsUrl, clock: systemClock, random: () => 0, onWake: () => (wakes += 1) });
    await until("the subscription stands", () => wakes === 1);
    await first.rpc("evm_mine");
    await until("a block was announced", () => wakes === 2);
    await first.stop();
    const second = await startAnvil({ port: Number(new URL(first.wsUrl).port) });
    await until("it is connected again", () => wakes === 3);
    await second.rpc("evm_mine");
    await until("a block was announced again", () => wakes === 4);
    stop();
    await second.rpc("evm_mine");
    await second.rpc("eth_blockNumber");
    expect(wakes).to.equal(4);
    await second.stop();
  });

  it("keep trying, without harm, where nobody answers", async () => {
    let wakes = 0;
    const delays: number[] = [];
    const clock = {
      ...systemClock,
      after: (delayMs: number, callback: () => void) => {
        delays.push(delayMs);
        return systemClock.after(1, callback);
      },
    };
    const stop = followNewHeads({ url: "ws://127.0.0.1:9", clock, random: () => 1, onWake: () => (wakes += 1) });
    await until("it tried several times", () => delays.length >= 4);
    stop();
    expect(delays.slice(0, 4)).to.deep.equal([250, 500, 1000, 2000]);
    expect(wakes).to.equal(0);
  });
});
