import { expect } from "chai";
import fc from "fast-check";
import type { ModelStatus, ProviderStatus } from "../../../../protocol/status.ts";
import type { StreamOutcome } from "../../../../gateway/routing/statistics/outcomes.ts";
import { RoutingStatistics } from "../../../../gateway/routing/statistics/routing-statistics.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { addressOf, providerRecord, snapshotOf } from "../support/registry.ts";

const [a, b] = [addressOf(1), addressOf(2)];
const model = "m";

function setup() {
  const clock = new ManualClock();
  return { clock, statistics: new RoutingStatistics({ clock, statusStaleAfterMs: 10_000 }) };
}

const ended = (outcome: StreamOutcome, ttftMs?: number, durationMs = 1000, outputTokens = 101) => ({
  outcome,
  durationMs,
  outputTokens,
  ...(ttftMs === undefined ? {} : { ttftMs }),
});

const statusOf = (models: readonly ModelStatus[]): ProviderStatus => ({
  provider: a,
  issuedAt: 1,
  draining: false,
  maxConcurrentJobs: 2,
  running: 0,
  models,
});

describe("leases", () => {
  it("count a stream from acquiring to its end, whatever its end is", () => {
    const { statistics } = setup();
    const outcomes: StreamOutcome[] = ["success", "fault", "busy", "caller", "aborted"];
    const leases = outcomes.map(() => statistics.acquire(a, 1, model));
    expect(statistics.inFlight(a)).to.equal(5);
    expect(new Set(leases.map(({ id }) => id)).size).to.equal(5);
    leases.forEach((lease, index) => lease.end(ended(outcomes[index] ?? "success")));
    expect(statistics.inFlight(a)).to.equal(0);
    expect(statistics.totalInFlight(undefined)).to.equal(0);
  });

  it("are released once: a second end frees nobody else's place and records nothing", () => {
    const { statistics } = setup();
    const first = statistics.acquire(a, 1, model);
    statistics.acquire(a, 1, model);
    expect(first.end(ended("fault"))).to.equal(true);
    const before = statistics.measured(a, model);
    expect(first.end(ended("fault"))).to.equal(false);
    expect(statistics.inFlight(a)).to.equal(1);
    expect(statistics.measured(a, model)).to.deep.equal(before);
  });

  it("of a former registration cannot touch the count of the new one", () => {
    const { statistics } = setup();
    const old = statistics.acquire(a, 1, model);
    const fresh = statistics.acquire(a, 2, model);
    expect(statistics.inFlight(a)).to.equal(1);
    old.end(ended("success"));
    expect(statistics.inFlight(a, 2)).to.equal(1);
    fresh.end(ended("success"));
    expect(statistics.inFlight(a, 2)).to.equal(0);
  });

  it("taken on an outdated snapshot do not count for the newer registration", () => {
    const { statistics } = setup();
    statistics.acquire(a, 2, model);
    const late = statistics.acquire(a, 1, model);
    expect(statistics.inFlight(a)).to.equal(1);
    late.end(ended("success"));
    expect(statistics.inFlight(a)).to.equal(1);
  });

  it("are forgotten when the index shows that the provider left or came back", () => {
    const { statistics } = setup();
    statistics.acquire(a, 1, model);
    statistics.acquire(b, 1, model);
    statistics.indexed(snapshotOf([providerRecord({ address: a, generation: 2 })]));
    expect(statistics.inFlight(a)).to.equal(0);
    expect(statistics.inFlight(b)).to.equal(0);
    expect(statistics.totalInFlight(undefined)).to.equal(0);
  });

  it("keep the total equal to the sum of the parts in every order of events", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("acquire" as const), provider: fc.nat(3), generation: fc.nat(3), m: fc.nat(1) }),
      fc.record({ kind: fc.constant("end" as const), lease: fc.nat(40) }),
      fc.record({ kind: fc.constant("index" as const), provider: fc.nat(3), generation: fc.nat(3) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const { statistics } = setup();
        const leases: ReturnType<RoutingStatistics["acquire"]>[] = [];
        for (const event of steps) {
          if (event.kind === "acquire") {
            leases.push(statistics.acquire(addressOf(event.provider + 1), event.generation, `m${event.m}`));
          } else if (event.kind === "end") leases[event.lease]?.end(ended("success"));
          else {
            const known = providerRecord({ address: addressOf(event.provider + 1), generation: event.generation });
            const others = [1, 2, 3, 4].filter((index) => addressOf(index) !== known.address);
            const rest = others.map((index) => providerRecord({ address: addressOf(index), generation: 0 }));
            statistics.indexed(snapshotOf([known, ...rest]));
          }
          const providers = [1, 2, 3, 4].map(addressOf);
          const sum = providers.reduce((total, provider) => total + statistics.inFlight(provider), 0);
          expect(statistics.totalInFlight(undefined)).to.equal(sum);
          expect(statistics.totalInFlight("m0") + statistics.totalInFlight("m1")).to.equal(sum);
          for (const provider of providers) {
            expect(statistics.inFlight(provider)).to.be.at.least(0);
            const perModel = statistics.modelInFlight(provider, "m0") + statistics.modelInFlight(provider, "m1");
            expect(perModel).to.equal(statistics.inFlight(provider));
          }
        }
        for (const lease of leases) lease.end(ended("success"));
        expect(statistics.totalInFlight(undefined)).to.equal(0);
      }),
    );
  });
});

describe("pending input", () => {
  it("is queued at the provider from acquiring until the first token or the end, once", () => {
    const { statistics } = setup();
    const answered = statistics.acquire(a, 1, model, 100);
    const failed = statistics.acquire(a, 1, model, 50);
    expect(statistics.pendingInputTokens(a, model)).to.equal(150);
    answered.firstToken(10);
    answered.end(ended("success"));
    expect(statistics.pendingInputTokens(a, model)).to.equal(50);
    failed.end(ended("fault"));
    failed.end(ended("fault"));
    expect(statistics.pendingInputTokens(a, model)).to.equal(0);
  });
});

describe("a provider that shuts down", () => {
  const draining = (issuedAt: number): ProviderStatus => ({ ...statusOf([]), issuedAt, draining: true });
  const record = { address: a, generation: 1, lastSeen: 900 };

  function marked() {
    const { statistics } = setup();
    statistics.report(a, draining(1));
    statistics.indexed(snapshotOf([providerRecord(record)], { blockTimestamp: 1000 }));
    expect([statistics.isDraining(a), statistics.isDraining(b)]).to.deep.equal([true, false]);
    return (change: object, blockTimestamp: number): boolean => {
      statistics.indexed(snapshotOf([providerRecord({ ...record, ...change })], { blockTimestamp }));
      return statistics.isDraining(a);
    };
  }

  it("is known by its status until a newer one says otherwise, and by its refusal of a job", () => {
    const { statistics } = setup();
    statistics.report(a, draining(1));
    expect(statistics.isDraining(a)).to.equal(true);
    statistics.report(a, { ...draining(2), draining: false });
    expect(statistics.isDraining(a)).to.equal(false);
    statistics.noteDraining(a);
    expect(statistics.isDraining(a)).to.equal(true);
    statistics.report(a, { ...draining(3), draining: false });
    expect(statistics.isDraining(a)).to.equal(false);
  });

  it("stays so when its last status is stale: it may have stopped since", () => {
    const { clock, statistics } = setup();
    statistics.report(a, draining(1));
    clock.advance(60_000);
    expect(statistics.isDraining(a)).to.equal(true);
  });

  it("stays so while it settles its last jobs, and is back with a registration, an endpoint or a later heartbeat of its own", () => {
    expect(marked()({ lastSeen: 1200 }, 1200), "settling shows life, too").to.equal(true);
    expect(marked()({ lastSeen: 1301 }, 1301)).to.equal(false);
    expect(marked()({ generation: 2 }, 1001)).to.equal(false);
  });
});

describe("unconfirmed posts", () => {
  it("count until the index has reached the block of the post, so that a slot is neither lost nor counted twice", () => {
    const { statistics } = setup();
    const post = statistics.openPost(a);
    expect(statistics.unconfirmedPosts(a)).to.equal(1);
    post.mined(b, 7);
    expect([statistics.unconfirmedPosts(a), statistics.unconfirmedPosts(b)]).to.deep.equal([0, 1]);
    statistics.indexed({ blockNumber: 6, blockTimestamp: 1000, provider: () => undefined });
    expect(statistics.unconfirmedPosts(b)).to.equal(1);
    statistics.indexed({ blockNumber: 7, blockTimestamp: 1000, provider: () => undefined });
    expect(statistics.unconfirmedPosts(b)).to.equal(0);
  });

  it("do not count when the index was faster than the receipt", () => {
    const { statistics } = setup();
    const post = statistics.openPost(a);
    statistics.indexed({ blockNumber: 9, blockTimestamp: 1000, provider: () => undefined });
    post.mined(a, 8);
    expect(statistics.unconfirmedPosts(a)).to.equal(0);
  });

  it("end once", () => {
    const { statistics } = setup();
    statistics.openPost(a);
    const post = statistics.openPost(a);
    post.drop();
    post.drop();
    post.mined(a, 5);
    expect(statistics.unconfirmedPosts(a)).to.equal(1);
  });
});

describe("outcomes", () => {
  it("are taken at the end of the stream: a stream that breaks after its first token is a failure", () => {
    const { statistics } = setup();
    const lease = statistics.acquire(a, 1, model);
    lease.firstToken(50);
    expect(statistics.measured(a, model)).to.equal(undefined);
    lease.end(ended("fault"));
    expect(statistics.measured(a, model)?.successRatio).to.equal(0.5);
    expect(statistics.measured(a, model)?.ttftMs, "a fast failure is no fast answer").to.equal(undefined);
  });

  it("charge nothing for busy, the caller's fault or a client that left", () => {
    const { statistics } = setup();
    for (const outcome of ["busy", "caller", "aborted"] as const) {
      statistics.acquire(a, 1, model).end(ended(outcome));
    }
    expect(statistics.measured(a, model)?.successRatio).to.equal(1);
    expect(statistics.measured(a, model)?.recentFailures).to.equal(0);
  });

  it("measure time to first token and tokens per second after it", () => {
    const { statistics } = setup();
    const lease = statistics.acquire(a, 1, model);
    lease.firstToken(200);
    lease.firstToken(900);
    lease.end({ outcome: "success", durationMs: 1200, outputTokens: 101 });
    expect(statistics.measured(a, model)?.ttftMs).to.equal(200);
    expect(statistics.measured(a, model)?.outputTps).to.equal(100);
  });

  it("let a client that left before the first token only raise the latency", () => {
    const { statistics } = setup();
    statistics.acquire(a, 1, model).end(ended("success", 100));
    statistics.acquire(a, 1, model).end(ended("aborted", undefined, 50));
    expect(statistics.measured(a, model)?.ttftMs).to.equal(100);
    statistics.acquire(a, 1, model).end(ended("aborted", undefined, 900));
    expect(statistics.measured(a, model)?.ttftMs).to.equal(500);
  });

  it("take no time to first token from an answer in one piece, whose end is long after its first token", () => {
    const { statistics } = setup();
    statistics.acquire(a, 1, model).end(ended("success", 100));
    statistics.acquire(a, 1, model).end(ended("success", undefined, 20_000));
    statistics.acquire(a, 1, model).end({ ...ended("aborted", undefined, 9_000), streamed: false });
    expect(statistics.measured(a, model)?.ttftMs).to.equal(100);
    expect(statistics.measured(a, model)?.outputTps).to.be.closeTo(111.1, 0.1);
    expect(statistics.measured(a, model)?.samples).to.equal(2);
  });

  it("decay, so that a provider that was repaired is trusted again", () => {
    const { clock, statistics } = setup();
    for (let index = 0; index < 10; index += 1) statistics.acquire(a, 1, model).end(ended("fault"));
    expect(statistics.measured(a, model)?.recentFailures).to.equal(10);
    clock.advance(30_000);
    expect(statistics.measured(a, model)?.recentFailures).to.be.closeTo(5, 1e-9);
    clock.advance(3_600_000);
    expect(statistics.measured(a, model)?.successRatio).to.be.greaterThan(0.99);
  });

  it("count in reputation only after an acknowledgement, and once for all streams that one incident cuts", () => {
    const { clock, statistics } = setup();
    const fail = (acknowledged: boolean): void => {
      statistics.acquire(a, 1, model).end({ ...ended("fault"), acknowledged });
    };
    fail(false);
    fail(false);
    expect(statistics.measured(a, model)?.faults, "our own network may have been down").to.equal(0);
    for (let stream = 0; stream < 5; stream += 1) fail(true);
    expect(statistics.measured(a, model)?.faults).to.equal(1);
    expect(statistics.measured(a, model)?.recentFailures, "all of them are load").to.equal(7);
    clock.advance(600_000);
    fail(true);
    expect(statistics.measured(a, model)?.faults).to.be.closeTo(2, 0.001);
    clock.advance(604_800_000);
    expect(statistics.measured(a, model)?.faults, "a week later").to.be.closeTo(1, 0.001);
  });

  it("outlive a new registration: leaving and returning washes nothing off", () => {
    const { statistics } = setup();
    statistics.acquire(a, 1, model).end(ended("fault"));
    statistics.acquire(a, 2, model);
    expect(statistics.measured(a, model)?.recentFailures).to.equal(1);
  });

  it("are remembered for a bounded number of providers", () => {
    const clock = new ManualClock();
    const statistics = new RoutingStatistics({ clock, maxRemembered: 2 });
    for (const index of [1, 2, 1, 3]) statistics.acquire(addressOf(index), 1, model).end(ended("success"));
    expect([...statistics.outcomes()].map(([provider]) => provider)).to.deep.equal([addressOf(3), addressOf(1)]);
  });
});

describe("reported statistics", () => {
  it("are unknown once the status is older than the stale age", () => {
    const { clock, statistics } = setup();
    statistics.report(a, statusOf([{ model, generation: "g", running: 1, maxInputTps: 5 }]));
    clock.advance(10_000);
    expect(statistics.reported(a, model)?.maxInputTps).to.equal(5);
    clock.advance(1);
    expect(statistics.reported(a, model)).to.equal(undefined);
  });

  it("never take an absent, zero, negative or non-finite rate for a value", () => {
    const { statistics } = setup();
    for (const bad of [undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      const status = { model, generation: "g", running: 0, ...(bad === undefined ? {} : { maxInputTps: bad }) };
      statistics.report(a, statusOf([status]));
      expect(statistics.reported(a, model)?.maxInputTps).to.equal(undefined);
    }
  });

  it("tell a ranking when its own statistic changed, and only then", () => {
    const { clock, statistics } = setup();
    const report = (maxInputTps: number, lastMeanInputTps: number) =>
      statistics.report(a, statusOf([{ model, generation: "g", running: 0, maxInputTps, lastMeanInputTps }]));
    report(10, 5);
    const epochs = () => [
      statistics.weightEpoch(model, "max-input-tps"),
      statistics.weightEpoch(model, "last-mean-input-tps"),
    ];
    const [max, mean] = epochs();
    report(10, 6);
    expect(statistics.weightEpoch(model, "max-input-tps")).to.equal(max);
    expect(statistics.weightEpoch(model, "last-mean-input-tps")).to.not.equal(mean);
    const before = epochs();
    report(10, 6);
    expect(epochs()).to.deep.equal(before);
    clock.advance(10_001);
    expect(statistics.weightEpoch(model, "max-input-tps"), "a status that grew stale is a change").to.not.equal(max);
  });
});
