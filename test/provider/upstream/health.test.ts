import { expect } from "chai";
import { BackendHealth, type ProbeResult } from "../../../provider/upstream/health.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";

const up = (process?: string, models?: string): ProbeResult => ({ healthy: true, process, models });
const down: ProbeResult = { healthy: false, reason: "gone" };
const rhythm = { healthyMs: 5_000, suspectMs: 100, suspectMaxMs: 800 };

function setup(first: ProbeResult) {
  const clock = new ManualClock();
  let next = first;
  let probes = 0;
  let changes = 0;
  const health = new BackendHealth(
    clock,
    async () => {
      probes += 1;
      return next;
    },
    () => {
      changes += 1;
    },
    rhythm,
  );
  return {
    clock,
    health,
    answer: (result: ProbeResult) => {
      next = result;
    },
    probes: () => probes,
    changes: () => changes,
  };
}

describe("BackendHealth", () => {
  it("is not healthy before its first probe, so that no heartbeat vouches for a backend nobody has seen", async () => {
    const { health } = setup(up());
    expect(health.isHealthy).to.equal(false);
    expect(health.isDown).to.equal(false);
    await health.start();
    expect(health.isHealthy).to.equal(true);
  });

  it("goes down at once when a request cannot connect, and is probed quickly until it is back", async () => {
    const { clock, health, answer, probes } = setup(up());
    await health.start();
    answer(down);
    health.connectionFailed("refused");
    expect(health.isDown).to.equal(true);
    const before = probes();
    await clock.advance(100 + 200 + 400 + 800 + 800);
    expect(probes() - before).to.be.at.least(4);
    answer(up());
    await clock.advance(800);
    expect(health.isHealthy).to.equal(true);
  });

  it("is another generation after a restart, whether the process says who it is or only was away", async () => {
    const silent = setup(up());
    await silent.health.start();
    const before = silent.health.epoch;
    silent.health.connectionFailed("refused");
    await silent.clock.advance(100);
    expect(silent.health.epoch).to.equal(before + 1);

    const named = setup(up("1"));
    await named.health.start();
    const first = named.health.epoch;
    named.health.connectionFailed("one lost connection");
    await named.clock.advance(100);
    expect(named.health.epoch, "the same process after a lost connection").to.equal(first);
    named.answer(up("2"));
    await named.clock.advance(5_000);
    expect(named.health.epoch, "another process that was never seen down").to.equal(first + 1);
  });

  it("is another generation when the models were replaced", async () => {
    const { clock, health, answer, changes } = setup(up("1", "a"));
    await health.start();
    const [epoch, changesBefore] = [health.epoch, changes()];
    answer(up("1", "b"));
    await clock.advance(5_000);
    expect(health.epoch).to.equal(epoch + 1);
    expect(changes()).to.equal(changesBefore + 1);
  });

  it("takes a probe that throws for a failed one", async () => {
    const clock = new ManualClock();
    const health = new BackendHealth(
      clock,
      async () => {
        throw new Error("no");
      },
      () => undefined,
      rhythm,
    );
    await health.start();
    expect(health.isDown).to.equal(true);
  });

  it("leaves no timer behind when stopped", async () => {
    const { clock, health } = setup(up());
    await health.start();
    health.stop();
    await settle();
    expect(clock.pending).to.equal(0);
    health.connectionFailed("late");
    expect(clock.pending).to.equal(0);
  });
});
