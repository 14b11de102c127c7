import { expect } from "chai";
import fc from "fast-check";
import { expectedCost } from "../../../gateway/routing/expected-cost.ts";
import { candidateOf } from "../../../gateway/routing/pool/member.ts";
import { createPolicy, select } from "../../../gateway/routing/select.ts";
import type { JobCollateral } from "../../../gateway/routing/stake.ts";
import { type Candidate, policyNames, type RoutingRequest, type Selection } from "../../../gateway/routing/types.ts";
import { collateralOf } from "./support/collateral.ts";
import { addressOf, type ProviderSketch, providerRecord, publish, testModel } from "./support/registry.ts";
import { requestOf, seeded } from "./support/request.ts";
import { fleet, reportOf } from "./support/sketches.ts";
import { ScriptedStatistics } from "./support/statistics.ts";

const names = policyNames.filter((name) => name !== "manual");

/** All report, so that no policy leaves out anybody for want of a statistic. */
class ReportingStatistics extends ScriptedStatistics {
  override reported() {
    return reportOf({ maxInputTps: 100, lastMeanInputTps: 100, running: 0 });
  }
}

function offersOf(sketch: ProviderSketch, modelId: string | undefined): Candidate[] {
  const record = providerRecord(sketch);
  const offerings = [...record.offerings.values()].filter((one) => modelId === undefined || one.modelId === modelId);
  return offerings.map((offering) => candidateOf(record, offering));
}

function misfitOf(offer: Candidate, request: RoutingRequest): string | undefined {
  const { maxPrice, collateral } = request;
  if (maxPrice !== undefined && (offer.inputPrice > maxPrice || offer.outputPrice > maxPrice)) {
    return "price_above_limit";
  }
  if (offer.contextLength < request.inputTokens + request.outputTokens) return "context_too_small";
  return collateral !== undefined && offer.stake < collateral.at(offer) ? "insufficient_stake" : undefined;
}

/** The nearer a misfit is to fitting, the later. */
const misfits = ["price_above_limit", "context_too_small", "insufficient_stake"];

/** What a look at every offering finds: for each provider its fitting offers, and how many fit none for what reason. */
function judgeAll(sketches: readonly ProviderSketch[], request: RoutingRequest) {
  const fitting = new Map<string, readonly Candidate[]>();
  const counts: Record<string, number> = {};
  for (const sketch of sketches) {
    const offers = offersOf(sketch, request.modelId);
    if (offers.length === 0) continue;
    const reasons = offers.map((offer) => misfitOf(offer, request));
    const able = offers.filter((_, index) => reasons[index] === undefined);
    if (able.length > 0) fitting.set(sketch.address, able);
    else {
      const nearest = misfits[Math.max(...reasons.map((reason) => misfits.indexOf(reason ?? "")))] as string;
      counts[nearest] = (counts[nearest] ?? 0) + 1;
    }
  }
  return { fitting, counts };
}

/** Costs of the cheapest eight, cheapest first. */
function leastCosts(fitting: ReadonlyMap<string, readonly Candidate[]>, request: RoutingRequest): number[] {
  const costs = [...fitting.values()].map((offers) =>
    Math.min(...offers.map((offer) => Number(expectedCost(offer, request)))),
  );
  return costs.toSorted((a, b) => a - b).slice(0, 8);
}

/** Stakes, prices and contexts of a fleet: few different ones or many, few that fit or many. */
interface Market {
  readonly count: number;
  readonly prices: number;
  readonly contexts: readonly number[];
  /** One in so many has ample stake. */
  readonly richOneIn: number;
  /** Stake of the others: up to so many times what a job of the middle holds. */
  readonly otherStake: number;
  readonly models: number;
}

const market: fc.Arbitrary<Market> = fc.record({
  count: fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 1, max: 200 }) }, fc.constantFrom(500, 1100)),
  prices: fc.constantFrom(1, 3, 1000),
  contexts: fc.constantFrom([1000], [1000, 4000, 16_000]),
  richOneIn: fc.constantFrom(1, 2, 20, 400, 1e9),
  otherStake: fc.constantFrom(0, 0.5, 1, 2),
  models: fc.constantFrom(1, 2),
});

const asked = fc.record({
  modelId: fc.constantFrom(testModel, undefined),
  inputTokens: fc.constantFrom(100, 900, 3000),
  affinityKey: fc.constantFrom("k", undefined),
  maxPrice: fc.constantFrom(undefined, undefined, 2n, 500n),
  collateral: fc.constantFrom(
    collateralOf({ input: 10 }),
    collateralOf({ input: 3, output: 2, context: 1 }),
    collateralOf({ context: 3 }),
  ),
});

function sketchesOf({ count, prices, contexts, richOneIn, otherStake, models }: Market, seed: number) {
  const random = seeded(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  return fleet(count, (): Partial<ProviderSketch> => {
    const offer = () => ({
      inputPrice: BigInt(1 + below(prices)),
      outputPrice: BigInt(1 + below(prices)),
      contextLength: contexts[below(contexts.length)] as number,
    });
    const offers = models === 1 ? { [testModel]: offer() } : { [testModel]: offer(), other: offer() };
    const isRich = random() * richOneIn < 1;
    return { models: offers, stake: isRich ? 10n ** 24n : BigInt(below(otherStake * (5 * prices + 8000))) };
  });
}

function decide(
  published: ReturnType<typeof publish>,
  request: RoutingRequest,
  name: (typeof names)[number],
  seed: number,
): Selection {
  return select(published, request, createPolicy({ name }), new ReportingStatistics(), 1, seeded(seed));
}

describe("stake for a request's job, for every policy", () => {
  it("chooses only who has it, somebody whenever somebody has, the cheapest where price decides, and counts the others", () => {
    fc.assert(
      fc.property(market, asked, fc.nat(), (shape, change, seed) => {
        const sketches = sketchesOf(shape, seed);
        const request = requestOf(change);
        const { fitting, counts } = judgeAll(sketches, request);
        const published = publish(sketches);
        for (const name of names) {
          const { ranked, excludedCounts } = decide(published, request, name, seed);
          expect(ranked.length > 0, `${name}: somebody fits`).to.equal(fitting.size > 0);
          for (const candidate of ranked) {
            const able = fitting.get(candidate.provider)?.map(({ modelId }) => modelId) ?? [];
            expect(able, `${name}: fits by the offering that it names`).to.include(candidate.modelId);
          }
          expect(new Set(ranked.map(({ provider }) => provider)).size, name).to.equal(ranked.length);
          // Nobody has a record, so both go by price alone. Of providers of several models that begin at one price a few are drawn.
          const hasOneOffer = shape.models === 1 || request.modelId !== undefined;
          if (hasOneOffer && (name === "cheapest" || name === "top_rep_cheapest")) {
            const costs = ranked.map((candidate) => Number(expectedCost(candidate, request)));
            expect(costs, name).to.deep.equal(leastCosts(fitting, request));
          }
          if (shape.count <= 200) expect(excludedCounts, name).to.deep.equal(counts);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("decides as without stake where everybody has enough, by the same random numbers", () => {
    fc.assert(
      fc.property(market, asked, fc.nat(), (shape, change, seed) => {
        const published = publish(sketchesOf({ ...shape, richOneIn: 1 }, seed));
        for (const name of names) {
          const judged = decide(published, requestOf(change), name, seed);
          const { collateral: _, ...without } = requestOf(change);
          expect(judged, name).to.deep.equal(decide(published, without, name, seed));
        }
      }),
      { numRuns: 40 },
    );
  });
});

/** Counts how often it is asked, exactly or for a bound. */
class CountingCollateral implements JobCollateral {
  readonly #inner = collateralOf({ input: 10, context: 1 });
  exact = 0;
  bounds = 0;

  at(terms: Parameters<JobCollateral["at"]>[0]): bigint {
    this.exact += 1;
    return this.#inner.at(terms);
  }

  atLeast(...terms: Parameters<JobCollateral["atLeast"]>): number {
    this.bounds += 1;
    return this.#inner.atLeast(...terms);
  }

  atMost(...terms: Parameters<JobCollateral["atMost"]>): number {
    this.bounds += 1;
    return this.#inner.atMost(...terms);
  }
}

it("costs a decision no more than a look at whom it meets where everybody has enough", () => {
  const registry = publish(fleet(5000, (index) => ({ models: { [testModel]: { inputPrice: BigInt(1 + index) } } })));
  for (const name of names) {
    const collateral = new CountingCollateral();
    const request = requestOf({ affinityKey: "k", routingText: "t", collateral });
    select(registry, request, createPolicy({ name }), new ReportingStatistics(), 1, seeded(1));
    expect(collateral.exact, name).to.equal(0);
    expect(collateral.bounds, name).to.be.lessThan(40);
  }
});

describe("a decision where few of very many have the stake", () => {
  const count = 20_000;
  const holders = [7, 8, 12_345];
  for (const prices of [1, count]) {
    for (const held of [[], holders]) {
      const published = publish(
        fleet(count, (index) => ({
          stake: held.includes(index) ? 10n ** 24n : 100n,
          models: { [testModel]: { inputPrice: BigInt(1 + (index % prices)) } },
        })),
      );
      const expected = held.map((index) => addressOf(index + 1));
      for (const name of names) {
        it(`${name} finds ${held.length} at ${prices} prices without judging all: one request could else stop the gateway`, () => {
          const policy = createPolicy({ name });
          const random = seeded(1);
          for (let round = 0; round < 5; round += 1) {
            const collateral = new CountingCollateral();
            const request = requestOf({ affinityKey: `k${round}`, routingText: `t${round}`, collateral });
            const { ranked, excludedCounts } = select(published, request, policy, new ReportingStatistics(), 1, random);
            expect(expected).to.include.members(ranked.map(({ provider }) => provider));
            expect(ranked.length > 0).to.equal(held.length > 0);
            expect(excludedCounts).to.deep.equal({ insufficient_stake: count - held.length });
            expect(collateral.exact, "judged exactly").to.be.lessThan(10);
            expect(collateral.bounds, "judged by bounds").to.be.lessThan(3000);
          }
        });
      }
    }
  }
});
