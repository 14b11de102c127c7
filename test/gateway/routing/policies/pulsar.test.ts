import { expect } from "chai";
import fc from "fast-check";
import type { Address } from "viem";
import { RoutingStatistics } from "../../../../gateway/routing/statistics/routing-statistics.ts";
import { createPolicy, select } from "../../../../gateway/routing/select.ts";
import { Chooser } from "../support/choose.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { addressOf, publish, testModel } from "../support/registry.ts";
import { requestOf, seeded } from "../support/request.ts";
import { fleet, reportOf } from "../support/sketches.ts";

const keys = Array.from({ length: 2000 }, (_, index) => `conversation ${index}`);
const owners = (chooser: Chooser): (Address | undefined)[] => keys.map((affinityKey) => chooser.first({ affinityKey }));

function pulsar(weights: readonly (number | undefined)[], config: object = {}): Chooser {
  const chooser = new Chooser({ name: "pulsar", ...config }, fleet(weights.length));
  weights.forEach((maxInputTps, index) => {
    chooser.statistics.reportedOf.set(addressOf(index + 1), reportOf({ maxInputTps, lastMeanInputTps: 1000 }));
  });
  return chooser;
}

describe("pulsar", () => {
  it("gives each provider keys in proportion to its weight", () => {
    const shares = pulsar([100, 200, 300, 400]).shares(8000, (draw) => ({ affinityKey: `key ${draw}` }));
    [0.1, 0.2, 0.3, 0.4].forEach((share, index) => {
      expect(shares.get(addressOf(index + 1))).to.be.closeTo(share, 0.02);
    });
  });

  it("moves keys only to or from the provider whose weight changed", () => {
    const chooser = pulsar([100, 200, 300, 400]);
    const before = owners(chooser);
    for (const weight of [50, 900]) {
      chooser.statistics.reportedOf.set(addressOf(2), reportOf({ maxInputTps: weight }));
      owners(chooser).forEach((after, index) => {
        if (after !== before[index]) expect([after, before[index]]).to.include(addressOf(2));
      });
    }
  });

  for (const name of ["pulsar", "pulsar_wait_and_widen"] as const) {
    it(`${name} finds the few of many that hold a long prompt, each key the same one, without a look at all: one client could else stop the gateway`, () => {
      const long = [7, 8, 9];
      const chooser = new Chooser(
        { name },
        fleet(4000, (index) => ({ models: { [testModel]: { contextLength: long.includes(index) ? 200_000 : 8192 } } })),
      );
      let looks = 0;
      const { statistics } = chooser;
      statistics.reported = () => {
        looks += 1;
        return reportOf({ maxInputTps: 100, lastMeanInputTps: 100 });
      };
      const holders = long.map((index) => addressOf(index + 1));
      const first = new Map<string, Address | undefined>();
      for (let round = 0; round < 2; round += 1) {
        for (const affinityKey of keys.slice(0, 30)) {
          looks = 0;
          const ranked = chooser.ranked({ affinityKey, inputTokens: 100_000 });
          expect(looks, "reports looked at").to.be.lessThan(1000);
          expect(holders).to.include.members(ranked);
          expect(ranked.length, "none of them is named twice").to.equal(new Set(ranked).size);
          if (round === 0) first.set(affinityKey, ranked[0]);
          else expect(ranked[0], "a key moved without cause").to.equal(first.get(affinityKey));
        }
      }
      expect(new Set(first.values()).size).to.equal(3);
    });
  }

  it("does not rank a provider without the selected statistic, and never falls back to the other", () => {
    for (const invalid of [undefined, 0, -5, Number.NaN, Number.POSITIVE_INFINITY]) {
      const chooser = pulsar([100, invalid]);
      expect(chooser.ranked({ affinityKey: "k" })).to.deep.equal([addressOf(1)]);
      expect(chooser.select({ affinityKey: "k" }).excludedCounts).to.deep.equal({ no_statistic: 1 });
    }
    const mean = pulsar([undefined, undefined], { rendezvous_weight: "last-mean-input-tps" });
    expect(mean.ranked({ affinityKey: "k" })).to.have.length(2);
  });

  for (const name of ["pulsar", "pulsar_wait_and_widen"] as const) {
    it(`${name} serves a market in which nobody was measured yet, each provider its share of keys that stay`, () => {
      const chooser = new Chooser({ name }, fleet(4));
      const before = owners(chooser);
      expect(owners(chooser), "a key moved without cause").to.deep.equal(before);
      for (const { address } of chooser.providers) {
        expect(before.filter((owner) => owner === address).length / keys.length).to.be.closeTo(0.25, 0.04);
      }
      expect(chooser.select({ affinityKey: "k" }).reason).to.equal("no_statistics");
    });
  }

  it("ranks all alike until half of them have the statistic, as the first that has it would keep all work from the others", () => {
    const reasons = [0, 1, 2, 3].map((measured) => {
      const chooser = pulsar(Array.from({ length: 5 }, (_, index) => (index < measured ? 100 : undefined)));
      return [chooser.select({ affinityKey: "k" }).reason === "no_statistics", new Set(owners(chooser)).size];
    });
    expect(reasons).to.deep.equal([
      [true, 5],
      [true, 5],
      [true, 5],
      [false, 3],
    ]);
  });

  it("gives a newcomer without any statistic a small share of the requests, one that reports the other statistic none", () => {
    const shares = (newcomer: object): number | undefined => {
      const chooser = pulsar([100, 100, 100], { explore: 0.1 });
      chooser.statistics.reportedOf.set(addressOf(3), reportOf(newcomer));
      return chooser.shares(2000, (draw) => ({ affinityKey: `${draw}` })).get(addressOf(3));
    };
    expect(shares({})).to.be.closeTo(0.1, 0.02);
    expect(shares({ lastMeanInputTps: 100 })).to.equal(undefined);
  });

  it("asks a newcomer without any statistic rather than let a request wait while its slot is free", () => {
    const chooser = new Chooser(
      { name: "pulsar", explore: 0 },
      fleet(3, () => ({ maxConcurrentJobs: 1 })),
    );
    for (const index of [1, 2]) {
      chooser.statistics.reportedOf.set(addressOf(index), reportOf({ maxInputTps: 100 }));
      chooser.statistics.unconfirmedOf.set(addressOf(index), 1);
    }
    const selection = chooser.select({ affinityKey: "k" });
    expect(selection.ranked.map(({ provider }) => provider)).to.deep.equal([addressOf(3)]);
    expect(selection.reason).to.equal("measure_unknown");
  });

  it("serves a large fleet that nobody measured by the neighbours of each key, all of them", () => {
    const chooser = new Chooser({ name: "pulsar" }, fleet(1500));
    const before = owners(chooser);
    expect(owners(chooser)).to.deep.equal(before);
    expect(before).to.not.include(undefined);
    expect(new Set(before).size).to.be.greaterThan(900);
    expect(chooser.select({ affinityKey: "k" }).reason).to.equal("no_statistics");
  });

  it("takes the greatest maximum and the sum of the means of providers that share an engine", () => {
    const shares = (rendezvous_weight: "max-input-tps" | "last-mean-input-tps") => {
      const chooser = new Chooser({ name: "pulsar", rendezvous_weight }, fleet(3));
      for (const index of [1, 2]) {
        chooser.statistics.reportedOf.set(
          addressOf(index),
          reportOf({ maxInputTps: 100 * index, lastMeanInputTps: 100, clusterId: "engine" }),
        );
      }
      chooser.statistics.reportedOf.set(addressOf(3), reportOf({ maxInputTps: 200, lastMeanInputTps: 100 }));
      return chooser.shares(4000, (draw) => ({ affinityKey: `${draw}` })).get(addressOf(3));
    };
    expect(shares("max-input-tps")).to.be.closeTo(0.5, 0.03);
    expect(shares("last-mean-input-tps")).to.be.closeTo(1 / 3, 0.03);
  });

  it("serves a key of a shared engine by whichever of its providers has fewer streams", () => {
    const chooser = new Chooser({ name: "pulsar" }, fleet(2));
    for (const index of [1, 2]) {
      chooser.statistics.reportedOf.set(addressOf(index), reportOf({ maxInputTps: 100, clusterId: "engine" }));
    }
    chooser.statistics.inFlightOf.set(addressOf(1), 3);
    expect(chooser.first({ affinityKey: "k" })).to.equal(addressOf(2));
    chooser.statistics.inFlightOf.set(addressOf(2), 4);
    expect(chooser.first({ affinityKey: "k" })).to.equal(addressOf(1));
  });

  it("skips, on request, those with unknown or too little room in the KV cache", () => {
    const chooser = new Chooser({ name: "pulsar", consider_kv_free_tokens: true }, fleet(3));
    [undefined, 99, 100].forEach((kvFreeTokens, index) => {
      chooser.statistics.reportedOf.set(addressOf(index + 1), reportOf({ maxInputTps: 10, kvFreeTokens }));
    });
    const selection = chooser.select({ affinityKey: "k", inputTokens: 100 });
    expect(selection.ranked.map(({ provider }) => provider)).to.deep.equal([addressOf(3)]);
    expect(selection.excludedCounts).to.deep.equal({ kv_full: 2 });
  });

  it("draws a new key for each request without one", () => {
    const shares = pulsar([100, 100, 100]).shares(600);
    expect(shares.size).to.equal(3);
  });

  it("ranks alike with and without its cache, whatever changes in between", () => {
    const change = fc.record({
      provider: fc.nat(5),
      max: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
      mean: fc.integer({ min: 1, max: 5 }),
      advanceMs: fc.constantFrom(0, 0, 0, 4000),
      key: fc.nat(3),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const clock = new ManualClock();
        const statistics = new RoutingStatistics({ clock, statusStaleAfterMs: 10_000 });
        const published = publish(fleet(6));
        const cached = createPolicy({ name: "pulsar" });
        for (const { provider, max, mean, advanceMs, key } of changes) {
          clock.advance(advanceMs);
          statistics.report(addressOf(provider + 1), {
            provider: addressOf(provider + 1),
            issuedAt: 1,
            draining: false,
            maxConcurrentJobs: 0,
            running: 0,
            models: [
              {
                model: testModel,
                generation: "g",
                running: 0,
                lastMeanInputTps: mean,
                ...(max === undefined ? {} : { maxInputTps: max }),
              },
            ],
          });
          const request = requestOf({ affinityKey: `${key}` });
          const ask = (policy: typeof cached) => select(published, request, policy, statistics, 1, seeded(1));
          expect(ask(cached)).to.deep.equal(ask(createPolicy({ name: "pulsar", ranking_cache_size: 0 })));
        }
      }),
    );
  });

  it("keeps a large fleet's keys in proportion and in place by scoring the neighbours of the key", () => {
    const count = 3000;
    const chooser = new Chooser({ name: "pulsar" }, fleet(count));
    const weight = (index: number): number => (index % 2 === 0 ? 100 : 300);
    for (let index = 0; index < count; index += 1) {
      chooser.statistics.reportedOf.set(addressOf(index + 1), reportOf({ maxInputTps: weight(index) }));
    }
    const before = owners(chooser);
    expect(owners(chooser)).to.deep.equal(before);
    const heavy = before.filter((owner) => chooser.statistics.reportedOf.get(owner!)?.maxInputTps === 300).length;
    expect(heavy / before.length).to.be.closeTo(0.75, 0.04);
    const gone = before[0]!;
    chooser.replace(chooser.providers.filter(({ address }) => address !== gone));
    const moved = owners(chooser).filter((owner, index) => owner !== before[index] && before[index] !== gone).length;
    expect(
      moved / before.length,
      "besides its own keys at most those that its place brings a new neighbour",
    ).to.be.lessThan(0.005);
  });
});
