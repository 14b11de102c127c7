import { expect } from "chai";
import { Chooser } from "../support/choose.ts";
import { addressOf } from "../support/registry.ts";
import { fleet, reportOf } from "../support/sketches.ts";

const [a, b, c] = [addressOf(1), addressOf(2), addressOf(3)];

/** Providers that need these times for a prompt of 100 tokens, ms. */
function withTtft(config: object, ttfts: readonly number[]): Chooser {
  const chooser = new Chooser(
    { name: "wait_and_widen", ...config },
    fleet(ttfts.length, () => ({ maxConcurrentJobs: 2 })),
  );
  ttfts.forEach((ttft, index) => {
    chooser.statistics.reportedOf.set(addressOf(index + 1), reportOf({ lastMeanInputTps: 100_000 / ttft, running: 0 }));
  });
  return chooser;
}

describe("wait_and_widen", () => {
  it("draws among those within the bucket of the fastest, and leaves slower ones locked", () => {
    const shares = withTtft({ choices: 1 }, [100, 119, 121]).shares(500);
    expect([...shares.keys()].toSorted()).to.deep.equal([a, b].toSorted());
  });

  it("unlocks a slower one when the wait has paid a quarter of the gap, and each further gap beyond that", () => {
    const chooser = withTtft({ choices: 1 }, [100, 500, 900]);
    const reach = (elapsedMs: number) => chooser.ranked({ elapsedMs }).length;
    expect([reach(0), reach(99), reach(100), reach(199), reach(200)]).to.deep.equal([1, 1, 2, 2, 3]);
  });

  it("takes the better of two drawn, so that the slowest is never first while there are three", () => {
    const shares = withTtft({ bucket_ms: 1000 }, [100, 200, 300]).shares(3000);
    expect(shares.get(a)).to.be.closeTo(2 / 3, 0.04);
    expect(shares.get(b)).to.be.closeTo(1 / 3, 0.04);
    expect(shares.has(c)).to.equal(false);
  });

  it("adds round trip, queue and prefill, the queue over the mean", () => {
    const chooser = withTtft({}, [100, 100]);
    chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, queuedInputTokens: 500, running: 0 }));
    chooser.statistics.roundTripOf.set(b, 400);
    expect(chooser.first(), "500 ms of queue against 400 ms of way").to.equal(b);
    chooser.statistics.roundTripOf.set(b, 600);
    expect(chooser.first()).to.equal(a);
  });

  it("keeps out a queue over the limit, which rises with the wait until the objective is used up", () => {
    const limits = { queue_limit_floor_ms: 100, queue_limit_ceil_ms: 500, slo_ms: 1000 };
    const chooser = withTtft(limits, [100]);
    chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, queuedInputTokens: 300 }));
    const verdict = (elapsedMs: number) => chooser.select({ elapsedMs }).verdict;
    expect([verdict(0), verdict(499), verdict(500), verdict(5000)]).to.deep.equal(["busy", "busy", "ready", "ready"]);
    const selection = chooser.select({ elapsedMs: 0 });
    expect(selection.reason).to.equal("wait_to_widen");
    expect(selection.excludedCounts).to.deep.equal({ queue_over_limit: 1 });
    expect(selection.recheckMs, "time alone will let it in").to.be.greaterThan(0);
  });

  it("holds one limit, too: the floor until the objective is used up, the ceiling from nothing on", () => {
    const reached = (limits: object): string[] => {
      const chooser = withTtft({ ...limits, slo_ms: 1000 }, [100]);
      chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, queuedInputTokens: 300 }));
      return [0, 3, 599, 601, 999, 1000].map((elapsedMs) => chooser.select({ elapsedMs }).verdict);
    };
    expect(reached({ queue_limit_floor_ms: 100 })).to.deep.equal(["busy", "busy", "busy", "busy", "busy", "ready"]);
    expect(reached({ queue_limit_ceil_ms: 500 })).to.deep.equal(["busy", "busy", "busy", "ready", "ready", "ready"]);
  });

  it("waits while the fastest has no room, and says when the next one is unlocked", () => {
    const chooser = withTtft({}, [100, 500]);
    chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, running: 2 }));
    const selection = chooser.select({ elapsedMs: 30 });
    expect(selection.verdict).to.equal("busy");
    expect(selection.recheckMs).to.equal(70);
    expect(chooser.first({ elapsedMs: 100 })).to.equal(b);
  });

  it("looks again as soon as a queue limit or a status may let somebody in, not only when the next slower one is unlocked", () => {
    const limits = { queue_limit_floor_ms: 100, queue_limit_ceil_ms: 500, slo_ms: 1000 };
    const chooser = withTtft(limits, [100, 200, 90_000]);
    chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, queuedInputTokens: 101, running: 0 }));
    chooser.statistics.reportedOf.set(b, reportOf({ lastMeanInputTps: 500, running: 2 }));
    const overLimit = chooser.select({ elapsedMs: 0 });
    expect(overLimit.verdict).to.equal("busy");
    expect(overLimit.recheckMs).to.be.at.most(100);
    const full = withTtft({}, [100]);
    full.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, running: 2 }));
    expect(full.select().recheckMs, "a status wakes nobody").to.be.at.most(250);
  });

  it("lets some wait at the provider when told so", () => {
    const chooser = withTtft({ max_queued: 1 }, [100]);
    chooser.statistics.reportedOf.set(a, reportOf({ lastMeanInputTps: 1000, running: 2 }));
    expect(chooser.first()).to.equal(a);
    chooser.statistics.inFlightOf.set(a, 3);
    expect(chooser.select().verdict, "this gateway's own streams count when they are more").to.equal("busy");
  });

  it("tries a provider that reports nothing once, and then judges it by what it measured there", () => {
    const chooser = withTtft({}, [100]);
    chooser.replace(fleet(2));
    expect(chooser.first()).to.equal(b);
    chooser.statistics.measuredOf.set(b, {
      ttftMs: 900,
      outputTps: 10,
      successRatio: 1,
      samples: 1,
      recentFailures: 0,
      faults: 0,
    });
    expect(chooser.first()).to.equal(a);
  });
});

describe("pulsar_wait_and_widen", () => {
  function bands(config: object, count = 8): Chooser {
    const chooser = new Chooser(
      { name: "pulsar_wait_and_widen", ...config },
      fleet(count, () => ({ maxConcurrentJobs: 2 })),
    );
    for (const { address } of chooser.providers) {
      chooser.statistics.reportedOf.set(address, reportOf({ maxInputTps: 100, lastMeanInputTps: 1000, running: 0 }));
    }
    return chooser;
  }
  const ranking = (chooser: Chooser, affinityKey: string) => {
    const pulsar = new Chooser({ name: "pulsar" }, chooser.providers);
    for (const [address, report] of chooser.statistics.reportedOf) pulsar.statistics.reportedOf.set(address, report);
    const order = new Set<`0x${string}`>();
    for (let size = -1; size < order.size; ) {
      size = order.size;
      for (const address of pulsar.ranked({ affinityKey, tried: order })) order.add(address);
    }
    return [...order];
  };
  const fill = (chooser: Chooser, full: readonly `0x${string}`[]) =>
    chooser.replace(chooser.providers.map((one) => (full.includes(one.address) ? { ...one, openJobs: 2 } : one)));

  it("gives the key to its owner outright while the owner has room, however much faster another is", () => {
    const chooser = bands({});
    const [owner, second] = ranking(chooser, "k");
    chooser.statistics.reportedOf.set(second!, reportOf({ maxInputTps: 100, lastMeanInputTps: 1e6, running: 0 }));
    const selection = chooser.select({ affinityKey: "k" });
    expect(selection.ranked[0]?.provider).to.equal(owner);
    expect(selection.reason).to.equal("pulsar_owner");
  });

  it("widens to bands of 2, then 4, each judged by itself", () => {
    const chooser = bands({});
    const ranked = ranking(chooser, "k");
    const busy = (address: `0x${string}`) =>
      chooser.statistics.reportedOf.set(address, reportOf({ maxInputTps: 100, lastMeanInputTps: 1000, running: 2 }));
    busy(ranked[0]!);
    expect(chooser.first({ affinityKey: "k" })).to.be.oneOf(ranked.slice(1, 3));
    busy(ranked[1]!);
    busy(ranked[2]!);
    expect(chooser.first({ affinityKey: "k" })).to.be.oneOf(ranked.slice(3, 7));
  });

  it("waits for a full owner as long as it has patience, and says when the next band opens", () => {
    const chooser = bands({ band_patience_ms: 1000 });
    const ranked = ranking(chooser, "k");
    fill(chooser, ranked.slice(0, 1));
    const waiting = chooser.select({ affinityKey: "k", elapsedMs: 400 });
    expect([waiting.verdict, waiting.reason, waiting.recheckMs]).to.deep.equal(["busy", "wait_to_widen", 600]);
    expect(chooser.first({ affinityKey: "k", elapsedMs: 1000 })).to.be.oneOf(ranked.slice(1, 3));
    fill(chooser, ranked.slice(0, 3));
    expect(chooser.select({ affinityKey: "k", elapsedMs: 1999 }).verdict).to.equal("busy");
    expect(chooser.first({ affinityKey: "k", elapsedMs: 2000 })).to.be.oneOf(ranked.slice(3, 7));
  });

  it("gives each band a multiple of the patience before it, so that few providers hold a prefix while all are short of slots", () => {
    const chooser = bands({ band_patience_ms: 100, band_patience_growth: 4 });
    const ranked = ranking(chooser, "k");
    fill(chooser, ranked.slice(0, 1));
    expect(chooser.select({ affinityKey: "k", elapsedMs: 99 }).recheckMs).to.equal(1);
    expect(chooser.first({ affinityKey: "k", elapsedMs: 100 })).to.be.oneOf(ranked.slice(1, 3));
    fill(chooser, ranked.slice(0, 3));
    expect(chooser.select({ affinityKey: "k", elapsedMs: 100 }).recheckMs).to.equal(400);
    expect(chooser.first({ affinityKey: "k", elapsedMs: 500 })).to.be.oneOf(ranked.slice(3, 7));
  });

  it("does not let a request wait that has no owner", () => {
    const chooser = bands({ band_patience_ms: 1000 });
    const [last, ...others] = chooser.providers.map(({ address }) => address);
    fill(chooser, others);
    for (let draw = 0; draw < 20; draw += 1) expect(chooser.first({})).to.equal(last);
  });

  it("lets whoever is free serve a request that has waited for every band, however far down the ranking", () => {
    const chooser = bands({ band_patience_ms: 100 }, 70);
    const ranked = ranking(chooser, "k");
    fill(chooser, ranked.slice(0, 69));
    expect(chooser.select({ affinityKey: "k", elapsedMs: 599 }).verdict).to.equal("busy");
    expect(chooser.first({ affinityKey: "k", elapsedMs: 600 })).to.equal(ranked[69]);
  });

  it("does not wait for an owner that has failed this request", () => {
    const chooser = bands({ band_patience_ms: 1000 });
    const ranked = ranking(chooser, "k");
    fill(chooser, ranked.slice(0, 1));
    expect(chooser.first({ affinityKey: "k", tried: new Set(ranked.slice(0, 1)) })).to.be.oneOf(ranked.slice(1, 3));
  });

  it("does not wait for an owner that is full and whose endpoint is never called", () => {
    const chooser = bands({ band_patience_ms: 1000 });
    const ranked = ranking(chooser, "k");
    fill(chooser, ranked.slice(0, 1));
    chooser.statistics.refused.add(ranked[0]!);
    expect(chooser.first({ affinityKey: "k" })).to.be.oneOf(ranked.slice(1, 3));
  });

  it("serves a key by whoever fits, however far behind those that do not, before its patience is used up", () => {
    const isLong = (index: number): boolean => index === 150;
    const models = (index: number) => ({ "test/model": { contextLength: isLong(index) ? 100_000 : 1000 } });
    const chooser = new Chooser(
      { name: "pulsar_wait_and_widen", band_patience_ms: 1000 },
      fleet(300, (index) => ({ maxConcurrentJobs: 2, models: models(index) })),
    );
    chooser.statistics.reported = () => reportOf({ maxInputTps: 100, lastMeanInputTps: 1000, running: 0 });
    const long = chooser.providers.find((_, index) => isLong(index))?.address;
    for (let key = 0; key < 30; key += 1) {
      expect(chooser.first({ affinityKey: `key ${key}`, inputTokens: 50_000 }), "a 404 for a served model").to.equal(
        long,
      );
    }
  });
});
