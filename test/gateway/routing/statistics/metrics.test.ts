import { expect } from "chai";
import { Registry } from "prom-client";
import { registerGauges } from "../../../../gateway/ops/prometheus-gauges.ts";
import { statisticsGauges } from "../../../../gateway/routing/statistics/metrics.ts";
import { RoutingStatistics } from "../../../../gateway/routing/statistics/routing-statistics.ts";
import type { ModelStatus } from "../../../../protocol/status.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { addressOf } from "../support/registry.ts";

const provider = addressOf(1);

function setup(maxSeries = 10) {
  const clock = new ManualClock();
  const statistics = new RoutingStatistics({ clock, statusStaleAfterMs: 10_000 });
  const registry = new Registry();
  registerGauges(registry, statisticsGauges(statistics, { maxSeries }));
  const report = (models: readonly ModelStatus[], of = provider) =>
    statistics.report(of, { provider: of, issuedAt: 1, draining: false, maxConcurrentJobs: 1, running: 0, models });
  const series = async (name: string): Promise<string[]> => {
    const text = await registry.metrics();
    return text.split("\n").filter((line) => line.startsWith(`${name}{`));
  };
  return { clock, statistics, report, series };
}

describe("metrics of the statistics", () => {
  const max = "t4t_provider_max_input_tps";

  it("show the maximum only while it is known", async () => {
    const { report, series, clock } = setup();
    report([{ model: "m", generation: "g", running: 0 }]);
    expect(await series(max)).to.deep.equal([]);
    report([{ model: "m", generation: "g", running: 0, maxInputTps: 7 }]);
    expect(await series(max)).to.deep.equal([`${max}{provider="${provider}",model="m"} 7`]);
    clock.advance(10_001);
    expect(await series(max)).to.deep.equal([]);
  });

  it("drop the maximum when its model goes", async () => {
    const { report, series } = setup();
    report([{ model: "m", generation: "g", running: 0, maxInputTps: 7 }]);
    report([{ model: "other", generation: "g2", running: 0, maxInputTps: 3 }]);
    expect(await series(max)).to.deep.equal([`${max}{provider="${provider}",model="other"} 3`]);
  });

  it("drop the maximum when the model is replaced by one whose maximum is unknown", async () => {
    const { report, series } = setup();
    report([{ model: "m", generation: "g1", running: 0, maxInputTps: 7 }]);
    await series(max);
    report([{ model: "m", generation: "g2", running: 0 }]);
    expect(await series(max)).to.deep.equal([]);
  });

  it("show the round trip of a provider as long as it is followed", async () => {
    const { statistics, series } = setup();
    const name = "t4t_provider_round_trip_seconds";
    expect(await series(name)).to.deep.equal([]);
    statistics.recordRoundTrip(provider, 250);
    expect(await series(name)).to.deep.equal([`${name}{provider="${provider}"} 0.25`]);
    statistics.forgetReport(provider);
    expect(await series(name)).to.deep.equal([]);
    expect(statistics.roundTripMs(provider), "an endpoint elsewhere is measured anew").to.equal(0);
  });

  it("bound the number of series and say how many are missing", async () => {
    const { report, series } = setup(2);
    for (let index = 1; index <= 5; index += 1) {
      report([{ model: "m", generation: "g", running: 0, maxInputTps: 7 }], addressOf(index));
    }
    expect(await series(max)).to.have.length(2);
    expect(await series("t4t_provider_series_omitted")).to.include(`t4t_provider_series_omitted{gauge="${max}"} 3`);
  });

  it("show the outcomes of the providers used last when there are too many, and read no more of them", async () => {
    const { statistics, series } = setup(2);
    for (const index of [1, 2, 3, 4, 5, 1]) {
      statistics.acquire(addressOf(index), 1, "m").end({ outcome: "success", ttftMs: 1000 * index, durationMs: 9000 });
    }
    const ttft = "t4t_provider_ttft_seconds";
    const of = (index: number, value: number) => `${ttft}{provider="${addressOf(index)}",model="m"} ${value}`;
    expect(await series(ttft)).to.deep.equal([of(1, 1), of(5, 5)]);
    expect(await series("t4t_provider_series_omitted")).to.include(`t4t_provider_series_omitted{gauge="${ttft}"} 3`);
  });

  it("drop the streams of a provider that has none", async () => {
    const { statistics, series } = setup();
    const lease = statistics.acquire(provider, 1, "m");
    expect(await series("t4t_provider_in_flight")).to.have.length(1);
    lease.end({ outcome: "success", durationMs: 1 });
    expect(await series("t4t_provider_in_flight")).to.have.length(0);
  });
});
