import { expect } from "chai";
import { Chooser } from "../support/choose.ts";
import { addressOf } from "../support/registry.ts";
import { fleet, measuredOf } from "../support/sketches.ts";

const [a, b, c] = [addressOf(1), addressOf(2), addressOf(3)];
const config = { name: "least_inflight", explore: 0 } as const;

describe("least_inflight", () => {
  it("draws among the idle in proportion to their scores", () => {
    const chooser = new Chooser(config, fleet(2));
    chooser.statistics.measuredOf.set(a, measuredOf({ ttftMs: 1000 }));
    chooser.statistics.measuredOf.set(b, measuredOf({ ttftMs: 3000 }));
    // Scores 1/2 and 1/4.
    expect(chooser.shares(6000).get(a)).to.be.within(0.64, 0.69);
  });

  it("spreads traffic that never overlaps over equal machines, which a tie-break by score would not", () => {
    const shares = new Chooser(config, fleet(4)).shares(4000);
    for (const share of shares.values()) expect(share).to.be.within(0.22, 0.28);
  });

  it("takes the only least loaded one outright, whatever its score", () => {
    const chooser = new Chooser(config, fleet(3));
    chooser.statistics.inFlightOf.set(a, 2);
    chooser.statistics.inFlightOf.set(b, 2);
    chooser.statistics.measuredOf.set(c, measuredOf({ ttftMs: 60_000, successRatio: 0.6 }));
    for (let draw = 0; draw < 20; draw += 1) expect(chooser.first()).to.equal(c);
    expect(chooser.select().reason).to.equal("least_loaded");
  });

  it("weighs streams by slots, so that a large machine takes more of them", () => {
    const chooser = new Chooser(
      config,
      fleet(2, (index) => ({ maxConcurrentJobs: index === 0 ? 1 : 16 })),
    );
    chooser.statistics.inFlightOf.set(b, 14);
    expect(chooser.first(), "15 of 16 is less than 1 of 1").to.equal(b);
  });

  it("counts recent failures as load, so that failing fast does not attract traffic", () => {
    const chooser = new Chooser(config, fleet(2));
    chooser.statistics.inFlightOf.set(a, 3);
    chooser.statistics.measuredOf.set(b, measuredOf({ recentFailures: 4, successRatio: 0.7 }));
    expect(chooser.first()).to.equal(a);
    chooser.statistics.measuredOf.set(b, measuredOf({ recentFailures: 0.3, successRatio: 0.7 }));
    expect(chooser.first(), "until it has decayed").to.equal(b);
  });

  it("keeps a slow machine measured", () => {
    const chooser = new Chooser(config, fleet(2));
    chooser.statistics.measuredOf.set(a, measuredOf({ ttftMs: 1 }));
    chooser.statistics.measuredOf.set(b, measuredOf({ ttftMs: 10 ** 9 }));
    expect(chooser.shares(4000).get(b)).to.be.within(0.03, 0.07);
  });

  it("gives the unknown a small share though a larger machine is always less loaded", () => {
    const chooser = new Chooser(
      { name: "least_inflight", explore: 0.1 },
      fleet(2, (index) => ({ maxConcurrentJobs: index === 0 ? 16 : 1 })),
    );
    chooser.statistics.measuredOf.set(a, measuredOf({ ttftMs: 100 }));
    expect(chooser.shares(4000).get(b)).to.be.within(0.07, 0.13);
  });

  it("judges a sample of a large fleet, and all of a small one", () => {
    const small = new Chooser(config, fleet(60));
    for (const { address } of small.providers.slice(1)) small.statistics.inFlightOf.set(address, 1);
    expect(small.first()).to.equal(a);
    const large = new Chooser(config, fleet(2000));
    for (const { address } of large.providers.slice(0, 1000)) large.statistics.inFlightOf.set(address, 1);
    const busyShare = [...large.shares(500)].filter(([provider]) => large.statistics.inFlight(provider) > 0).length;
    expect(busyShare, "8 draws nearly always find an idle one of a half").to.be.at.most(8);
  });
});
