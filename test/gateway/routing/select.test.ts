import { expect } from "chai";
import { createPolicy, select } from "../../../gateway/routing/select.ts";
import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import type { RoutingRequest, Selection } from "../../../gateway/routing/types.ts";
import { collateralOf } from "./support/collateral.ts";
import { MutableRegistry } from "./support/mutable-registry.ts";
import { addressOf, type ProviderSketch, publish, type SnapshotOptions } from "./support/registry.ts";
import { requestOf, seeded } from "./support/request.ts";
import { ScriptedStatistics } from "./support/statistics.ts";

const [a, b, c] = [addressOf(1), addressOf(2), addressOf(3)];

function selectFrom(
  providers: readonly ProviderSketch[],
  change: {
    readonly request?: Partial<RoutingRequest>;
    readonly policy?: PolicyConfig;
    readonly statistics?: ScriptedStatistics;
    readonly snapshot?: SnapshotOptions;
    readonly seed?: number;
  } = {},
): Selection {
  return select(
    publish(providers, change.snapshot),
    requestOf(change.request),
    createPolicy(change.policy ?? { name: "cheapest" }),
    change.statistics ?? new ScriptedStatistics(),
    1_000_000,
    seeded(change.seed ?? 1),
  );
}

const priced = (price: bigint) => ({ "test/model": { inputPrice: price, outputPrice: price } });
const ranked = (selection: Selection) => selection.ranked.map((candidate) => candidate.provider);

describe("select", () => {
  it("drops full providers", () => {
    const selection = selectFrom([
      { address: a, maxConcurrentJobs: 2, openJobs: 2 },
      { address: b, maxConcurrentJobs: 2, openJobs: 1 },
    ]);
    expect(ranked(selection)).to.deep.equal([b]);
    expect(selection.busy.map((candidate) => candidate.provider)).to.deep.equal([a]);
    expect(selection.busyCount).to.equal(1);
    expect(selection.excluded).to.deep.include({ provider: a, reason: "at_capacity" });
  });

  it("passes over a provider that shuts down, and lets a request wait for it only when nobody else is there", () => {
    const statistics = new ScriptedStatistics();
    statistics.draining.add(a);
    const both = selectFrom([{ address: a }, { address: b }], { statistics });
    expect(ranked(both)).to.deep.equal([b]);
    expect(both.excluded).to.deep.include({ provider: a, reason: "draining" });
    const alone = selectFrom([{ address: a }], { statistics });
    expect([alone.verdict, alone.excludedCounts]).to.deep.equal(["busy", { draining: 1 }]);
  });

  describe("with stake for some jobs only", () => {
    /** A job at a price of 10 holds 1,000 of stake. */
    const request = { collateral: collateralOf({ input: 100 }) };
    const poor = { address: a, models: priced(1n), stake: 99n };
    const rich = { address: b, models: priced(10n), stake: 1000n };

    it("passes over a provider whose stake does not cover the job, however cheap, as the chain would refuse it", () => {
      for (const name of ["cheapest", "least_inflight", "consistent_hash", "pulsar", "wait_and_widen"] as const) {
        const selection = selectFrom([poor, rich], { request, policy: { name } });
        expect(ranked(selection), name).to.deep.equal([b]);
        expect(selection.excludedCounts, name).to.deep.equal({ insufficient_stake: 1 });
      }
      expect(ranked(selectFrom([{ ...poor, stake: 100n }, rich], { request }))).to.deep.equal([a, b]);
    });

    it("lets no request wait for it, free or full, as no freed slot would help", () => {
      for (const openJobs of [0, 1]) {
        const selection = selectFrom([{ ...poor, maxConcurrentJobs: 1, openJobs }], { request });
        expect(selection.verdict).to.equal("none");
        expect(selection.excludedCounts).to.deep.equal({ insufficient_stake: 1 });
      }
      const full = selectFrom([poor, { ...rich, maxConcurrentJobs: 1, openJobs: 1 }], { request });
      expect([full.verdict, full.busyCount]).to.deep.equal(["busy", 1]);
    });

    it("finds those that have it behind hundreds that joined without", () => {
      const crowd = Array.from({ length: 500 }, (_, index) => ({
        ...poor,
        address: addressOf(100 + index),
        stake: 0n,
      }));
      expect(ranked(selectFrom([...crowd, rich], { request }))).to.deep.equal([b]);
    });

    it("takes it again once it has staked", () => {
      const registry = new MutableRegistry();
      const rankedNow = () =>
        ranked(
          select(
            registry.publish(),
            requestOf(request),
            createPolicy({ name: "cheapest" }),
            new ScriptedStatistics(),
            1_000_000,
            seeded(1),
          ),
        );
      registry.put(poor);
      expect(rankedNow()).to.deep.equal([]);
      registry.put({ ...poor, stake: 100n });
      expect(rankedNow()).to.deep.equal([a]);
    });
  });

  it("falls back to the cheapest that is not busy", () => {
    const selection = selectFrom([
      { address: a, models: priced(1n), maxConcurrentJobs: 1, openJobs: 1 },
      { address: b, models: priced(3n), maxConcurrentJobs: 1 },
      { address: c, models: priced(2n), maxConcurrentJobs: 1 },
    ]);
    expect(selection.verdict).to.equal("ready");
    expect(ranked(selection)).to.deep.equal([c, b]);
  });

  it("treats 0 as unlimited", () => {
    const selection = selectFrom([{ address: a, maxConcurrentJobs: 0, openJobs: 5000 }]);
    expect(ranked(selection)).to.deep.equal([a]);
  });

  it("fails at once when nothing matches", () => {
    const selection = selectFrom([{ address: a }], { request: { modelId: "no/such" } });
    expect(selection.verdict).to.equal("none");
    expect(selection.ranked).to.have.length(0);
    expect(selection.busyCount).to.equal(0);
  });

  it("tells none from all busy", () => {
    const full = { address: a, maxConcurrentJobs: 1, openJobs: 1 };
    expect(selectFrom([full]).verdict).to.equal("busy");
    expect(selectFrom([{ ...full, active: false }]).verdict).to.equal("none");
    expect(selectFrom([]).verdict).to.equal("none");
  });

  it("waits for the one full provider that fits among thousands, where context or stake keeps out each of the others", () => {
    const last = 2990;
    const providers = Array.from({ length: 3000 }, (_, index) => {
      const isLong = index % 2 === 0 || index === last;
      const offer = { inputPrice: BigInt(100 + index), contextLength: isLong ? 1000 : 100 };
      const stake = index % 2 === 1 || index === last ? 10n ** 9n : 1n;
      return {
        address: addressOf(index + 1),
        maxConcurrentJobs: 1,
        openJobs: 1,
        stake,
        models: { "test/model": offer },
      };
    });
    const request = requestOf({ inputTokens: 400, outputTokens: 400, collateral: collateralOf({ context: 1 }) });
    const selection = selectFrom(providers, { request });
    expect(selection.verdict, "a 404 for a model that is served").to.equal("busy");
    expect(selection.busyCount).to.equal(1);
    expect(selection.busy.map(({ provider }) => provider)).to.deep.equal([addressOf(last + 1)]);
  });

  it("does not wait for a full provider whose price is over the limit", () => {
    const selection = selectFrom([{ address: a, models: priced(10n), maxConcurrentJobs: 1, openJobs: 1 }], {
      request: { maxPrice: 9n },
    });
    expect(selection.verdict).to.equal("none");
    expect(selection.excludedCounts).to.deep.equal({ price_above_limit: 1 });
  });

  it("counts this gateway's unconfirmed posts, so that it does not send the post that must revert", () => {
    const statistics = new ScriptedStatistics();
    statistics.unconfirmedOf.set(a, 1);
    const provider = { address: a, maxConcurrentJobs: 2, openJobs: 1 };
    expect(selectFrom([provider], { statistics }).verdict).to.equal("busy");
    expect(selectFrom([provider]).verdict).to.equal("ready");
  });

  it("judges freshness by chain time: live up to lastSeen + timeToLive, stale one second later", () => {
    const provider = { address: a, lastSeen: 400 };
    expect(selectFrom([provider], { snapshot: { blockTimestamp: 1000, timeToLive: 600 } }).verdict).to.equal("ready");
    const stale = selectFrom([provider], { snapshot: { blockTimestamp: 1001, timeToLive: 600 } });
    expect(stale.verdict).to.equal("none");
    expect(stale.excludedCounts).to.deep.equal({ stale: 1 });
  });

  it("counts a stale provider as stale only if it would do when it comes back: whoever waits for it would wait in vain", () => {
    const long = (address: typeof a, contextLength: number, lastSeen: number) => ({
      address,
      lastSeen,
      models: { "test/model": { contextLength } },
    });
    const request = { inputTokens: 300, outputTokens: 100 };
    const able = selectFrom([long(a, 200, 1000), long(b, 400, 1)], { request });
    expect([able.verdict, able.excludedCounts]).to.deep.equal(["none", { context_too_small: 1, stale: 1 }]);
    expect(able.excluded).to.have.deep.members([
      { provider: a, reason: "context_too_small" },
      { provider: b, reason: "stale" },
    ]);
    const unable = selectFrom([long(a, 200, 1000), long(b, 200, 1)], { request });
    expect(unable.excludedCounts).to.deep.equal({ context_too_small: 2 });
    const dear = selectFrom([long(a, 400, 1)], { request: { ...request, maxPrice: 1n } });
    expect(dear.excludedCounts).to.deep.equal({ price_above_limit: 1 });
  });

  it("never offers an inactive provider", () => {
    const selection = selectFrom([{ address: a, active: false }, { address: b }]);
    expect(ranked(selection)).to.deep.equal([b]);
    expect(selection.excludedCounts).to.deep.equal({ inactive: 1 });
  });

  it("holds both prices against the limit, so that a cheap prompt does not hide a dear answer", () => {
    const selection = selectFrom(
      [
        { address: a, models: { "test/model": { inputPrice: 1n, outputPrice: 11n } } },
        { address: b, models: { "test/model": { inputPrice: 11n, outputPrice: 1n } } },
        { address: c, models: { "test/model": { inputPrice: 10n, outputPrice: 10n } } },
      ],
      { request: { maxPrice: 10n } },
    );
    expect(ranked(selection)).to.deep.equal([c]);
    expect(selection.excludedCounts).to.deep.equal({ price_above_limit: 2 });
  });

  it("needs context for prompt and answer together", () => {
    const providers = [{ address: a, models: { "test/model": { contextLength: 200 } } }];
    expect(selectFrom(providers, { request: { inputTokens: 100, outputTokens: 100 } }).verdict).to.equal("ready");
    const selection = selectFrom(providers, { request: { inputTokens: 101, outputTokens: 100 } });
    expect(selection.verdict).to.equal("none");
    expect(selection.excludedCounts).to.deep.equal({ context_too_small: 1 });
  });

  it("leaves out those that already failed this request, and those whose endpoint the gateway refuses", () => {
    const statistics = new ScriptedStatistics();
    statistics.refused.add(b);
    const selection = selectFrom([{ address: a }, { address: b }, { address: c }], {
      statistics,
      request: { tried: new Set([a]) },
    });
    expect(ranked(selection)).to.deep.equal([c]);
    expect(selection.excludedCounts).to.deep.equal({ already_tried: 1, endpoint_refused: 1 });
  });

  it("takes any model of a provider for a request without one, and says which", () => {
    const selection = selectFrom(
      [
        {
          address: a,
          models: { dear: { inputPrice: 9n, outputPrice: 9n }, cheap: { inputPrice: 2n, outputPrice: 2n } },
        },
      ],
      { request: { modelId: undefined } },
    );
    expect(selection.ranked.map((candidate) => candidate.modelId)).to.deep.equal(["cheap"]);
  });

  it("lists a bounded number of providers and counts all of them", () => {
    const providers = Array.from({ length: 100 }, (_, index) => ({
      address: addressOf(index + 1),
      maxConcurrentJobs: 1,
      openJobs: index % 2,
    }));
    const selection = selectFrom(providers);
    expect(selection.ranked.length).to.be.within(1, 32);
    expect(selection.busy.length).to.be.within(1, 32);
    expect(selection.busyCount).to.equal(50);
    expect(selection.excludedCounts.at_capacity).to.equal(50);
  });

  it("gives the same answer for the same random sequence", () => {
    const providers = Array.from({ length: 20 }, (_, index) => ({ address: addressOf(index + 1) }));
    expect(selectFrom(providers, { seed: 7 })).to.deep.equal(selectFrom(providers, { seed: 7 }));
  });
});
