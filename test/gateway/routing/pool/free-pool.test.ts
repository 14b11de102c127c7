import { expect } from "chai";
import { createPolicy, select } from "../../../../gateway/routing/select.ts";
import { policyNames, type RoutingRequest } from "../../../../gateway/routing/types.ts";
import { addressOf, type ProviderSketch, publish, testModel } from "../support/registry.ts";
import { collateralOf } from "../support/collateral.ts";
import { requestOf, seeded } from "../support/request.ts";
import { fleet, measuredOf, reportOf } from "../support/sketches.ts";
import { ScriptedStatistics } from "../support/statistics.ts";

const names = policyNames.filter((name) => name !== "manual");
const broken = measuredOf({ successRatio: 0.1, samples: 9, recentFailures: 8 });

/** Statistics that count how many candidates are judged by what only the moment knows. */
class CountingStatistics extends ScriptedStatistics {
  judged = 0;

  override endpointRefused(provider: `0x${string}`): boolean {
    this.judged += 1;
    return super.endpointRefused(provider);
  }

  override reported() {
    return reportOf({ maxInputTps: 100, lastMeanInputTps: 100, running: 0 });
  }
}

type Fault = "endpoint_refused" | "draining" | "at_capacity" | "suspect";
const faults: readonly Fault[] = ["endpoint_refused", "draining", "at_capacity", "suspect"];

/** Statistics by which all providers but some are of no use now. */
function allBut(useful: ReadonlySet<number>, count: number, fault: Fault): CountingStatistics {
  const statistics = new CountingStatistics();
  for (let index = 0; index < count; index += 1) {
    const address = addressOf(index + 1);
    if (useful.has(index)) continue;
    if (fault === "endpoint_refused") statistics.refused.add(address);
    else if (fault === "draining") statistics.draining.add(address);
    else if (fault === "at_capacity") statistics.unconfirmedOf.set(address, 1);
    else statistics.measuredOf.set(address, broken);
  }
  return statistics;
}

function published(count: number, change: (index: number) => Partial<ProviderSketch> = () => ({})) {
  return publish(fleet(count, (index) => ({ maxConcurrentJobs: 1, ...change(index) })));
}

describe("candidates that are of no use at the moment", () => {
  const asked = (round: number): RoutingRequest => requestOf({ affinityKey: `k${round}`, routingText: `t${round}` });

  it("hide nobody while they are a thousand: every policy finds the one that is free", () => {
    const count = 1000;
    const registry = published(count);
    for (const fault of faults) {
      const statistics = allBut(new Set([617]), count, fault);
      for (const name of names) {
        const { ranked } = select(registry, asked(1), createPolicy({ name }), statistics, 1, seeded(1));
        expect(
          ranked.map(({ provider }) => provider),
          `${name}, others ${fault}`,
        ).to.deep.equal([addressOf(618)]);
      }
    }
  });

  for (const prices of [1, 10_000]) {
    it(`are not all met where they are ten thousand at ${prices} prices, as a decision would else hold up all others`, () => {
      const count = 10_000;
      const models = (index: number) => ({ [testModel]: { inputPrice: BigInt(1 + (index % prices)) } });
      const registry = published(count, (index) => ({ models: models(index) }));
      for (const fault of faults) {
        const statistics = allBut(new Set(), count, fault);
        for (const name of names) {
          statistics.judged = 0;
          const { verdict, recheckMs } = select(registry, asked(1), createPolicy({ name }), statistics, 1, seeded(1));
          expect(statistics.judged, `${name}, ${fault}`).to.be.lessThan(1600);
          // Who fails is asked when nobody else is known. For others it is looked again: somebody may be free all the same.
          expect(verdict, `${name}, ${fault}`).to.equal(fault === "suspect" ? "ready" : "busy");
          if (fault !== "suspect") expect(recheckMs, `${name}, ${fault}`).to.be.a("number");
        }
      }
    });
  }

  it("keep no policy from the dearer half, though thousands of cheaper ones are refused", () => {
    const count = 6000;
    const useful = new Set(Array.from({ length: count / 2 }, (_, index) => count / 2 + index));
    const registry = published(count, (index) => ({ models: { [testModel]: { inputPrice: BigInt(1 + index) } } }));
    const statistics = allBut(useful, count, "endpoint_refused");
    for (const name of names) {
      const { ranked } = select(registry, asked(1), createPolicy({ name }), statistics, 1, seeded(1));
      expect(ranked, name).to.not.be.empty;
      for (const { provider } of ranked) expect(statistics.refused.has(provider), name).to.equal(false);
      if (name !== "cheapest") continue;
      const costs = ranked.map(({ inputPrice }) => Number(inputPrice));
      expect(costs, "cheapest first").to.deep.equal(costs.toSorted((a, b) => a - b));
    }
  });

  it("are found in turn by a request that looks again, where one in five hundred is free", () => {
    const count = 10_000;
    const useful = new Set(Array.from({ length: 20 }, (_, index) => index * 499 + 3));
    const registry = published(count);
    const statistics = allBut(useful, count, "draining");
    for (const name of names) {
      const policy = createPolicy({ name });
      const random = seeded(3);
      const found = new Set<string>();
      for (let round = 0; round < 60; round += 1) {
        const { ranked } = select(registry, asked(round), policy, statistics, 1, random);
        for (const { provider } of ranked) found.add(provider);
      }
      expect(found.size, name).to.equal(20);
    }
  });

  it("count as full beyond a thousand of refused ones that are full, and are not all looked at", () => {
    const count = 5000;
    const registry = published(count, () => ({ openJobs: 1 }));
    const statistics = allBut(new Set(), count, "endpoint_refused");
    const { verdict, busyCount } = select(
      registry,
      asked(1),
      createPolicy({ name: "cheapest" }),
      statistics,
      1,
      seeded(1),
    );
    expect(statistics.judged).to.be.lessThan(1100);
    expect([verdict, busyCount]).to.deep.equal(["busy", count - 1024]);
  });
});

describe("a standing that thousands do not have, though their place among the members tells so", () => {
  const policy = createPolicy({ name: "top_rep_cheapest", explore: 1 });

  it("is looked for no further than a thousand at a time: of 20,000 that had failed a decision took 45 to 90 ms", () => {
    const count = 8000;
    const seasoned = publish(fleet(count, () => ({ models: { [testModel]: { completed: 30 } } })));
    const statistics = new ScriptedStatistics();
    let looked = 0;
    statistics.measured = () => {
      looked += 1;
      return measuredOf({ faults: 3 });
    };
    const { ranked, reason } = select(seasoned, requestOf(), policy, statistics, 1, seeded(1));
    expect([ranked.length, reason]).to.deep.equal([8, "none_seasoned"]);
    expect(looked).to.be.lessThan(4000);
  });

  it("hides nobody while they are a thousand", () => {
    const providers = fleet(1000, (index) => ({
      models: { [testModel]: { completed: 30, inputPrice: BigInt(index + 1) } },
    }));
    const statistics = new ScriptedStatistics();
    statistics.measured = (provider) => measuredOf({ faults: provider === addressOf(1000) ? 0 : 3 });
    const { ranked, reason } = select(publish(providers), requestOf(), policy, statistics, 1, seeded(1));
    expect([ranked[0]?.provider, reason]).to.deep.equal([addressOf(1000), "cheapest_seasoned"]);
  });

  it("is looked for no further where another model of the same provider has it", () => {
    const providers = fleet(8000, () => ({
      models: {
        known: { inputPrice: 900n, outputPrice: 900n, completed: 30 },
        new: { inputPrice: 1n, outputPrice: 1n },
      },
    }));
    let read = 0;
    const statistics = new ScriptedStatistics();
    Object.assign(statistics, { hasFailed: () => (read++, false) });
    const request = requestOf({ modelId: undefined });
    const { ranked, reason } = select(publish(providers), request, policy, statistics, 1, seeded(1));
    expect([ranked.length, ranked[0]?.modelId, reason]).to.deep.equal([8, "new", "none_seasoned"]);
    expect(read).to.be.lessThan(4000);
  });
});

describe("a request that nobody fits, where no subtree tells it", () => {
  it("is looked at by top_rep_cheapest once, not once for each standing that it asks for", () => {
    const providers = fleet(5000, (index) => ({
      stake: index % 2 === 0 ? 1n : 10n ** 9n,
      models: {
        [testModel]: {
          inputPrice: BigInt(index + 1),
          completed: index % 4 < 2 ? 30 : 0,
          contextLength: index % 2 === 0 ? 1000 : 100,
        },
      },
    }));
    const registry = publish(providers);
    const judged = (name: "cheapest" | "top_rep_cheapest"): number => {
      let count = 0;
      const collateral = collateralOf({ context: 1 });
      const counting = {
        ...collateral,
        atLeast: (...terms: [number, number, number]) => (count++, collateral.atLeast(...terms)),
      };
      const request = requestOf({ inputTokens: 400, outputTokens: 400, collateral: counting });
      const { verdict } = select(registry, request, createPolicy({ name }), new ScriptedStatistics(), 1, seeded(1));
      expect(verdict).to.equal("none");
      return count;
    };
    expect(judged("top_rep_cheapest")).to.be.lessThan(1.1 * judged("cheapest"));
  });
});
