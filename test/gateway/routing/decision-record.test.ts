import { expect } from "chai";
import { decisionHeader, decisionLabels, decisionRecord } from "../../../gateway/routing/decision-record.ts";
import { Chooser } from "./support/choose.ts";
import { addressOf } from "./support/registry.ts";
import { fleet, measuredOf, reportOf } from "./support/sketches.ts";

describe("the decision record", () => {
  it("carries both statistics of the chosen provider, its score, and who was left out for what", () => {
    const chooser = new Chooser(
      { name: "pulsar" },
      fleet(3, (index) => ({ active: index !== 2 })),
    );
    chooser.statistics.reportedOf.set(addressOf(1), reportOf({ maxInputTps: 20, lastMeanInputTps: 10 }));
    chooser.statistics.measuredOf.set(addressOf(1), measuredOf({ ttftMs: 120 }));
    const selection = chooser.select({ affinityKey: "k" });
    const record = decisionRecord(selection, chooser.statistics);
    expect(record).to.deep.include({ policy: "pulsar", reason: "pulsar_owner", verdict: "ready" });
    expect(record.ranked[0]).to.deep.include({
      provider: addressOf(1),
      maxInputTps: 20,
      lastMeanInputTps: 10,
      ttftMs: 120,
    });
    expect(record.ranked[0]?.score).to.be.greaterThan(0);
    expect(record.excludedCounts).to.deep.equal({ inactive: 1, no_statistic: 1 });
    expect(record.ranked[0], "what is unknown is absent").to.not.have.property("queuedInputTokens");
    expect(decisionLabels(selection)).to.deep.equal({ policy: "pulsar", reason: "pulsar_owner", verdict: "ready" });
  });

  it("fits a header whatever ids the providers chose", () => {
    const name = "模型\r\nx-evil: 1".repeat(12);
    const chooser = new Chooser(
      { name: "cheapest" },
      fleet(30, () => ({ models: { [name]: {} } })),
    );
    const selection = chooser.select({ modelId: name });
    for (const { address } of chooser.providers)
      chooser.statistics.reportedOf.set(address, reportOf({ clusterId: name }));
    const header = decisionHeader(decisionRecord(selection, chooser.statistics));
    expect(header).to.match(/^[\x20-\x7e]*$/);
    expect(header.length).to.be.at.most(4096);
    expect(JSON.parse(header)).to.have.nested.property("ranked[0].model", name);
  });
});
