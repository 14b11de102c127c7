import { expect } from "chai";
import { GatewayStatistics } from "../../../gateway/jobs/gateway-statistics.ts";
import { createPolicy, select } from "../../../gateway/routing/select.ts";
import { addressOf, publish } from "../routing/support/registry.ts";
import { requestOf, seeded } from "../routing/support/request.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("what the gateway knows of providers that just refused", () => {
  for (const maxConcurrentJobs of [0, 2]) {
    it(`leaves one with a cap of ${maxConcurrentJobs} out for a moment: each further job there would cost two transactions`, () => {
      const clock = new ManualClock();
      const statistics = new GatewayStatistics(clock);
      const two = publish([1, 2].map((index) => ({ address: addressOf(index), maxConcurrentJobs })));
      const ask = () => select(two, requestOf(), createPolicy({ name: "cheapest" }), statistics, 1, seeded(1));
      statistics.fullAtNode(addressOf(1), 1000);
      expect(ask().ranked.map(({ provider }) => provider)).to.deep.equal([addressOf(2)]);
      statistics.fullAtNode(addressOf(2), 2000);
      expect([ask().verdict, ask().busyCount]).to.deep.equal(["busy", 2]);
      clock.advance(1000);
      expect(ask().ranked.map(({ provider }) => provider)).to.deep.equal([addressOf(1)]);
    });
  }

  it("asks one that the chain refused again once the index has moved on", () => {
    const clock = new ManualClock();
    const statistics = new GatewayStatistics(clock);
    const published = publish([{ address: addressOf(1) }], { version: 7 });
    statistics.fullOnChain(addressOf(1), 6, 60_000);
    const verdict = () =>
      select(published, requestOf(), createPolicy({ name: "cheapest" }), statistics, 1, seeded(1)).verdict;
    expect(verdict()).to.equal("busy");
    statistics.indexed(published.snapshot);
    expect(verdict()).to.equal("ready");
  });
});
