import { expect } from "chai";
import { run, type RunConfig, type RunResult } from "../../../scripts/sim/model/run.ts";
import { drawTrace, type LoadConfig } from "../../../scripts/sim/model/trace.ts";
import { estimateOf, pairedChange, percentile } from "../../../scripts/sim/report/estimate.ts";
import { equalBackends } from "../../../scripts/sim/scenarios/fleet.ts";

const load: LoadConfig = {
  steps: [{ seconds: 30, perSecond: 8 }],
  sessions: 20,
  regions: 1,
  inputTokens: 1000,
  prefixTokens: 800,
  maxOutputTokens: 100,
};

const config: RunConfig = {
  policy: { name: "pulsar_wait_and_widen" },
  backends: equalBackends(3),
  load,
  gateway: { clientTimeoutMs: 30_000, maxAttempts: 100, pollMs: 5000, affinity: true },
  roundTripMs: () => 10,
  blockMs: 1000,
  heartbeatMs: 1000,
  reportDelayMs: 50,
};

const ttft = ({ recorder }: RunResult): number[] => recorder.windows.flatMap((window) => window.ttftMs);

describe("the simulation", () => {
  it("gives the same run for the same seed, and another for another", () => {
    expect(ttft(run(config, 1))).to.deep.equal(ttft(run(config, 1)));
    expect(ttft(run(config, 1))).to.not.deep.equal(ttft(run(config, 2)));
  });

  it("gives every arm of a seed the same load, whatever the policy draws", () => {
    expect([...drawTrace(load, 3)]).to.deep.equal([...drawTrace(load, 3)]);
    const arrived = (policy: RunConfig["policy"]) =>
      run({ ...config, policy }, 3).recorder.windows.map((one) => one.arrived);
    expect(arrived({ name: "least_inflight" })).to.deep.equal(arrived({ name: "cheapest" }));
  });

  it("accounts for every request: answered or failed, and no slot left taken", () => {
    for (const slots of [1, 8]) {
      const gateway = { ...config.gateway, clientTimeoutMs: 3000 };
      const { recorder, backends } = run({ ...config, gateway, backends: equalBackends(3, { slots }) }, 5);
      for (const window of recorder.windows) {
        expect(window.ttftMs.length + window.failures).to.equal(window.arrived);
        expect(window.completed).to.equal(window.ttftMs.length);
      }
      expect(backends.map(({ running }) => running)).to.deep.equal([0, 0, 0]);
    }
  });

  it("sends away from a line with a limit those who waited so long, and computes nothing for clients who left", () => {
    const crowded = { ...config, backends: equalBackends(1, { slots: 4 }), load: { ...load, prefixTokens: 0 } };
    const inVain = ({ backends }: RunResult) => backends.map(({ vainPrefillMs }) => vainPrefillMs);
    const clients = { ...config.gateway, clientTimeoutMs: 6000, affinity: false };
    const patient = run({ ...crowded, gateway: clients }, 6);
    expect([...patient.recorder.failureCauses.keys()]).to.deep.equal(["client_timeout"]);
    expect(inVain(patient)[0]).to.be.greaterThan(0);
    const limited = run({ ...crowded, gateway: { ...clients, waitLimitMs: 4000 } }, 6);
    expect([...limited.recorder.failureCauses.keys()]).to.deep.equal(["wait_timeout"]);
    expect(inVain(limited)).to.deep.equal([0]);
    expect(Math.max(...ttft(limited))).to.be.greaterThan(4000);
    for (const { recorder, backends } of [patient, limited]) {
      for (const window of recorder.windows) expect(window.ttftMs.length + window.failures).to.equal(window.arrived);
      expect(backends.map(({ running }) => running)).to.deep.equal([0]);
    }
  });

  it("finds nothing cheaper than the way, the overhead and the uncached tokens", () => {
    const least = 10 + 20 + (1000 * 200) / 8000;
    const times = ttft(run(config, 7));
    expect(Math.min(...times)).to.be.closeTo(least, 1e-6);
  });

  it("ends a wait for the owner at the moment that the next band opens, not at the next poll", () => {
    const patienceMs = 400;
    const { recorder } = run(
      {
        ...config,
        policy: { name: "pulsar_wait_and_widen", band_patience_ms: patienceMs },
        backends: equalBackends(4, { slots: 1 }),
        // One session has one owner; streams of seconds, so that nothing but its own patience ends a wait so early.
        load: { ...load, sessions: 1, maxOutputTokens: 500, steps: [{ seconds: 200, perSecond: 0.15 }] },
        gateway: { ...config.gateway, pollMs: 1_000_000 },
      },
      2,
    );
    const waited = ttft({ recorder, backends: [], seconds: 200 }).filter((ms) => ms >= patienceMs);
    expect(waited).to.not.deep.equal([]);
    const warmMs = 10 + 20 + (1000 * 200) / 8000;
    const coldMs = 10 + 20 + (1000 * 1000) / 8000;
    // One patience to the second band, two to the third.
    for (const ms of waited) expect(Math.round(ms) % patienceMs).to.be.oneOf([warmMs, coldMs]);
  });

  it("counts failures and retries in the window in which the request arrived", () => {
    const steps = [
      { seconds: 10, perSecond: 0.2 },
      { seconds: 10, perSecond: 30 },
    ];
    const gateway = { ...config.gateway, clientTimeoutMs: 2000 };
    const { recorder } = run(
      { ...config, gateway, load: { ...load, steps }, backends: equalBackends(3, { slots: 2 }) },
      4,
    );
    const [calm, rush] = recorder.windows;
    expect([calm?.failures, calm?.retries]).to.deep.equal([0, 0]);
    expect(rush?.failures).to.be.greaterThan(0);
    expect(recorder.retries).to.equal((calm?.retries ?? 0) + (rush?.retries ?? 0));
    for (const window of recorder.windows) expect(window.ttftMs.every((ms) => ms <= 2000)).to.equal(true);
  });
});

describe("estimates", () => {
  it("are means with Student's interval over the seeds", () => {
    const { mean, ci95 } = estimateOf([1, 2, 3, 4]);
    expect(mean).to.equal(2.5);
    expect(ci95).to.be.closeTo((3.182 * Math.sqrt(5 / 3)) / 2, 1e-9);
    expect(estimateOf([5]).ci95).to.be.NaN;
  });

  it("compare seed by seed, so that what the seeds share cancels", () => {
    expect(pairedChange([110, 220, 330], [100, 200, 300]).mean).to.be.closeTo(10, 1e-9);
    expect(pairedChange([110, 220, 330], [100, 200, 300]).ci95).to.be.closeTo(0, 1e-9);
  });

  it("take percentiles by rank", () => {
    expect(percentile([5, 1, 4, 2, 3], 0.5)).to.equal(3);
    expect(percentile([], 0.5)).to.be.NaN;
  });
});
