import { expect } from "chai";
import fc from "fast-check";
import { noWeights, withWeight } from "../../../../chain/registry-index/client-weights.ts";
import { expectedCost } from "../../../../gateway/routing/expected-cost.ts";
import { Chooser } from "../support/choose.ts";
import { addressOf, ownRecord } from "../support/registry.ts";
import { fleet, measuredOf } from "../support/sketches.ts";

const offer = (inputPrice: bigint, outputPrice: bigint, completed = 0, failed = 0) => ({
  models: { "test/model": { inputPrice, outputPrice, completed, failed } },
});

describe("cheapest", () => {
  it("reckons the cost of this request, so that a long prompt and a long answer find different providers", () => {
    const chooser = new Chooser(
      { name: "cheapest" },
      fleet(2, (index) => (index === 0 ? offer(1n, 10n) : offer(10n, 1n))),
    );
    expect(chooser.first({ inputTokens: 1000, outputTokens: 1 })).to.equal(addressOf(1));
    expect(chooser.first({ inputTokens: 1, outputTokens: 1000 })).to.equal(addressOf(2));
  });

  it("draws among equal costs at random, so that gateways do not all run to the same provider", () => {
    for (const count of [3, 20, 300]) {
      const shares = new Chooser(
        { name: "cheapest" },
        fleet(count, () => offer(2n, 3n)),
      ).shares(3000);
      expect(shares.size, `${count} providers`).to.be.greaterThan(count * 0.95);
      expect(Math.max(...shares.values())).to.be.lessThan(3 / count + 0.02);
    }
  });

  it("draws at random among different prices of the same cost", () => {
    const chooser = new Chooser(
      { name: "cheapest" },
      fleet(2, (index) => (index === 0 ? offer(1n, 3n) : offer(3n, 1n))),
    );
    const shares = chooser.shares(2000, () => ({ inputTokens: 50, outputTokens: 50 }));
    expect(shares.get(addressOf(1))).to.be.within(0.45, 0.55);
  });

  it("names a provider once, and each as often, though one alone of its price lies at the end of another leaf", () => {
    // Put in order of price, so that the 32nd, the first at the price of all others, is the last of the first leaf.
    const providers = fleet(100, (index) => {
      const small = { inputPrice: BigInt(index + 1), outputPrice: 1n, contextLength: 1 };
      return index < 31 ? { models: { "test/model": small } } : offer(50n, 1n);
    });
    const chooser = new Chooser({ name: "cheapest" }, providers);
    let alone = 0;
    for (let round = 0; round < 2000; round += 1) {
      const ranked = chooser.ranked();
      expect(new Set(ranked).size).to.equal(8);
      if (ranked.includes(addressOf(32))) alone += 1;
    }
    expect(alone / 2000).to.be.within(8 / 69 - 0.04, 8 / 69 + 0.04);
  });

  it("finds the cheapest in order, as a full scan would, whatever the prices and limits", () => {
    const price = fc.bigInt(1n, 40n);
    const provider = fc.record({ input: price, output: price, context: fc.constantFrom(100, 400, 4000) });
    fc.assert(
      fc.property(
        fc.array(provider, { minLength: 1, maxLength: 200 }),
        fc.nat(500),
        fc.nat(500),
        fc.option(fc.bigInt(1n, 40n), { nil: undefined }),
        (providers, inputTokens, outputTokens, maxPrice) => {
          const chooser = new Chooser(
            { name: "cheapest" },
            providers.map(({ input, output, context }, index) => ({
              address: addressOf(index + 1),
              models: { "test/model": { inputPrice: input, outputPrice: output, contextLength: context } },
            })),
          );
          const request = { inputTokens, outputTokens };
          const selection = chooser.select({ ...request, maxPrice });
          const fitting = providers.filter(
            ({ input, output, context }) =>
              context >= inputTokens + outputTokens &&
              (maxPrice === undefined || (input <= maxPrice && output <= maxPrice)),
          );
          const costs = fitting
            .map(({ input, output }) => BigInt(inputTokens) * input + BigInt(outputTokens) * output)
            .toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
          const ranked = selection.ranked.map((candidate) => expectedCost(candidate, request));
          expect(ranked).to.deep.equal(costs.slice(0, ranked.length));
          expect(ranked.length).to.equal(Math.min(8, costs.length));
          expect(new Set(selection.ranked.map(({ provider: address }) => address)).size).to.equal(ranked.length);
        },
      ),
    );
  });
});

describe("cheapest, for a request without a model", () => {
  it("finds the cheapest offering that is long enough, though hundreds of providers have the same cheaper one that is too short", () => {
    const providers = fleet(500, (index) => ({
      models: {
        short: { inputPrice: 1n, outputPrice: 1n, contextLength: 100 },
        long: { inputPrice: BigInt(10 + ((index * 7) % 500)), outputPrice: 5n, contextLength: 1000 },
      },
    }));
    const request = { modelId: undefined, inputTokens: 400, outputTokens: 400 };
    for (let seed = 1; seed <= 20; seed += 1) {
      const { ranked } = new Chooser({ name: "cheapest" }, providers, seed).select(request);
      expect(ranked.map(({ inputPrice }) => inputPrice)).to.deep.equal([10n, 11n, 12n, 13n, 14n, 15n, 16n, 17n]);
    }
  });

  it("finds the cheapest where one offering is cheap in input and another one in output", () => {
    const providers = fleet(300, (index) => ({
      models: {
        reader: { inputPrice: 1n, outputPrice: BigInt(100 + ((index * 11) % 300)) },
        writer: { inputPrice: BigInt(100 + ((index * 13) % 300)), outputPrice: 1n },
      },
    }));
    const chooser = new Chooser({ name: "cheapest" }, providers);
    const [first] = chooser.select({ modelId: undefined, inputTokens: 100, outputTokens: 300 }).ranked;
    expect([first?.inputPrice, first?.outputPrice]).to.deep.equal([100n, 1n]);
  });
});

describe("top_rep_cheapest", () => {
  const seasoned = offer(5n, 5n, 100, 2);
  const newcomer = offer(1n, 1n, 3, 0);
  const poor = offer(1n, 1n, 80, 20);

  it("takes the cheapest of the seasoned, with newcomers and then the poor behind for when they fail", () => {
    const providers = fleet(4, (index) => [seasoned, offer(4n, 4n, 20, 1), newcomer, poor][index] ?? {});
    const chooser = new Chooser({ name: "top_rep_cheapest", explore: 0 }, providers);
    expect(chooser.ranked()).to.deep.equal([2, 1, 3, 4].map(addressOf));
  });

  it("gives a random newcomer one choice in twenty, and never a provider with a poor record", () => {
    const providers = fleet(4, (index) => [seasoned, newcomer, newcomer, poor][index] ?? {});
    const shares = new Chooser({ name: "top_rep_cheapest" }, providers).shares(8000);
    expect(shares.get(addressOf(1))).to.be.within(0.93, 0.97);
    expect(shares.get(addressOf(2))).to.be.within(0.015, 0.035);
    expect(shares.get(addressOf(3))).to.be.within(0.015, 0.035);
    expect(shares.has(addressOf(4))).to.equal(false);
  });

  it("needs 20 jobs and 95 % of them good", () => {
    const providers = fleet(
      3,
      (index) => [offer(9n, 9n, 19, 1), offer(1n, 1n, 19, 0), offer(1n, 1n, 20, 2)][index] ?? {},
    );
    expect(new Chooser({ name: "top_rep_cheapest", explore: 0 }, providers).first()).to.equal(addressOf(1));
  });

  it("leaves a provider that this gateway saw fail behind all others, however well the chain speaks of it", () => {
    const providers = fleet(4, (index) => [offer(1n, 1n, 100, 0), seasoned, newcomer, poor][index] ?? {});
    const chooser = new Chooser({ name: "top_rep_cheapest", explore: 1 }, providers);
    chooser.statistics.measuredOf.set(addressOf(1), measuredOf({ faults: 8 }));
    expect(chooser.ranked()).to.deep.equal([3, 2, 4].map(addressOf));
    chooser.statistics.measuredOf.set(addressOf(3), measuredOf({ faults: 2 }));
    expect(chooser.ranked(), "nor is it tried as a newcomer").to.deep.equal([2, 4].map(addressOf));
  });

  it("judges a request for any model by the offering that would serve it: a name for one model is none for another", () => {
    const cheap = { inputPrice: 1n, outputPrice: 1n, contextLength: 100, completed: 100, failed: 0 };
    const dear = { inputPrice: 2n, outputPrice: 2n, contextLength: 10_000 };
    const providers = fleet(2, (index) =>
      index === 0 ? { models: { a: cheap, b: dear } } : { models: { b: { ...dear, inputPrice: 3n, completed: 100 } } },
    );
    const chooser = new Chooser({ name: "top_rep_cheapest", explore: 0 }, providers);
    expect(chooser.first({ modelId: undefined, inputTokens: 10, outputTokens: 10 })).to.equal(addressOf(1));
    expect(chooser.first({ modelId: undefined, inputTokens: 1000, outputTokens: 10 })).to.equal(addressOf(2));
  });

  it("takes the cheapest of all when nobody is seasoned", () => {
    const failed = withWeight(noWeights, addressOf(500), 1e9);
    const slandered = { inputPrice: 0n, outputPrice: 1n, reputation: { ...ownRecord(0, 0), failed } };
    const providers = fleet(2, (index) => (index === 0 ? newcomer : { models: { "test/model": slandered } }));
    const selection = new Chooser({ name: "top_rep_cheapest" }, providers).select();
    expect(selection.ranked.map(({ provider }) => provider)).to.deep.equal([2, 1].map(addressOf));
    expect(selection.reason).to.equal("none_seasoned");
  });

  it("does not come back to whoever is cheap and fails this gateway, as long as there is anybody else", () => {
    const chooser = new Chooser(
      { name: "top_rep_cheapest" },
      fleet(2, (index) => offer(BigInt(index + 1), 1n)),
    );
    expect(chooser.ranked()).to.deep.equal([1, 2].map(addressOf));
    chooser.statistics.measuredOf.set(addressOf(1), measuredOf({ faults: 2 }));
    expect(chooser.ranked()).to.deep.equal([addressOf(2)]);
    chooser.statistics.measuredOf.set(addressOf(2), measuredOf({ faults: 2 }));
    expect(chooser.ranked()).to.deep.equal([1, 2].map(addressOf));
  });
});

describe("manual", () => {
  it("takes its one provider, and applies all checks to it", () => {
    const manual = { name: "manual", provider: addressOf(2) } as const;
    expect(new Chooser(manual, fleet(3)).ranked()).to.deep.equal([addressOf(2)]);
    expect(new Chooser(manual, fleet(3)).select().excludedCounts).to.deep.equal({ not_manual_provider: 2 });
    const full = fleet(3, () => ({ maxConcurrentJobs: 1, openJobs: 1 }));
    expect(new Chooser(manual, full).select().verdict).to.equal("busy");
    expect(
      new Chooser(
        manual,
        fleet(3, () => ({ active: false })),
      ).select().verdict,
    ).to.equal("none");
    expect(new Chooser({ name: "manual", provider: addressOf(9) }, fleet(3)).select().verdict).to.equal("none");
  });
});
