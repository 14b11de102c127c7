import { expect } from "chai";
import type { Address } from "viem";
import { recallFaults } from "../../../gateway/jobs/past-faults.ts";
import { RoutingStatistics } from "../../../gateway/routing/statistics/routing-statistics.ts";
import { defaultHalfLives } from "../../../gateway/routing/statistics/outcomes.ts";
import type { JobRow } from "../../../store/journal.ts";
import { addressOf } from "../routing/support/registry.ts";

const week = defaultHalfLives.reputationMs;

function row(attempts: readonly object[]): JobRow {
  return {
    collection: "gateway",
    id: "0x01",
    jobId: null,
    status: "failed",
    open: false,
    document: JSON.stringify({ attempts }),
    revision: 1,
    createdAt: 0,
    updatedAt: 0,
  };
}

describe("faults of an earlier process", () => {
  it("count against a provider after a restart as much as their age leaves of them, those of one incident once, outages not at all", async () => {
    const statistics = new RoutingStatistics({ clock: { monotonic: () => 10 } });
    const attempt = (provider: Address, change: object): object => ({
      provider,
      modelId: "m",
      postedAt: week,
      ...change,
    });
    const rows = [
      row([attempt(addressOf(1), { fault: true }), attempt(addressOf(2), { state: "abandoned" })]),
      row([attempt(addressOf(1), { fault: true, postedAt: week + 1000 })]),
      row([attempt(addressOf(1), { fault: true, postedAt: 0 }), { fault: true, modelId: "m" }]),
    ];
    await recallFaults({ recentJobs: async () => await Promise.resolve(rows) }, statistics, week + 1000);
    expect(statistics.hasFailed(addressOf(1))).to.equal(true);
    const measured = statistics.measured(addressOf(1), "m");
    expect(measured?.faults).to.be.closeTo(1.5, 1e-4);
    expect(measured?.recentFailures, "it is not down now").to.equal(0);
    expect(measured?.successRatio, "nor suspect").to.equal(1);
    expect(statistics.measured(addressOf(2), "m")).to.equal(undefined);
  });
});
