import { expect } from "chai";
import { OfferedStatuses } from "../../../gateway/routing/offered-status.ts";
import { RoutingStatistics } from "../../../gateway/routing/statistics/routing-statistics.ts";
import { ManualClock } from "./support/manual-clock.ts";
import { addressOf, publish, testModel } from "./support/registry.ts";

const [honest, liar] = [addressOf(1), addressOf(2)];

function setup() {
  const clock = new ManualClock();
  const statistics = new RoutingStatistics({ clock });
  const statuses = new OfferedStatuses(statistics);
  const report = (provider: typeof honest, names: readonly string[], draining = false) =>
    statuses.report(provider, {
      provider,
      issuedAt: clock.now(),
      draining,
      maxConcurrentJobs: 1,
      running: 0,
      models: names.map((model) => ({ model, generation: "g", running: 0, maxInputTps: 5 })),
    });
  const series = () => [...statistics.reports()].map(([provider, model]) => [provider, model]);
  return { statistics, statuses, report, series };
}

describe("a provider's word of its models", () => {
  it("counts for those that it offers on chain, so that no stranger fills the metrics with names of its own", () => {
    const { statuses, report, series } = setup();
    statuses.indexed(publish([{ address: honest }, { address: liar }]).snapshot);
    report(honest, [testModel]);
    for (let round = 0; round < 5; round += 1)
      report(liar, [testModel, ...Array.from({ length: 63 }, (_, index) => `invented ${round} ${index}`)]);
    expect(series()).to.deep.equal([
      [honest, testModel],
      [liar, testModel],
    ]);
  });

  it("is heard in all else also when it names no model that it offers", () => {
    const { statistics, statuses, report, series } = setup();
    statuses.indexed(publish([{ address: liar }]).snapshot);
    report(liar, ["invented"], true);
    expect(series()).to.deep.equal([]);
    expect(statistics.isDraining(liar)).to.equal(true);
  });

  it("counts for an offering from the first status after it is on chain", () => {
    const { statuses, report, series } = setup();
    statuses.indexed(publish([{ address: honest }]).snapshot);
    report(honest, ["new"]);
    expect(series()).to.deep.equal([]);
    statuses.indexed(publish([{ address: honest, models: { new: {} } }]).snapshot);
    report(honest, ["new"]);
    expect(series()).to.deep.equal([[honest, "new"]]);
  });
});
