import { expect } from "chai";
import { CapacityLines, type WaitOutcome, type WaitState } from "../../../gateway/capacity/capacity-lines.ts";
import { ManualClock } from "../support/manual-clock.ts";

interface Scene {
  readonly clock: ManualClock;
  readonly lines: CapacityLines<string>;
  free: number;
}

function scene(maxWaiting = 10): Scene {
  const clock = new ManualClock();
  return { clock, lines: new CapacityLines<string>({ clock, maxWaiting, pollMs: 5000 }), free: 0 };
}

interface Guest {
  readonly outcome: Promise<WaitOutcome<string>>;
  readonly states: WaitState[];
  readonly abort: AbortController;
  settled: WaitOutcome<string> | undefined;
}

function enter(place: Scene, sequence: number, limitMs = 120_000, alreadyWaitedMs = 0): Guest {
  const states: WaitState[] = [];
  const abort = new AbortController();
  const outcome = place.lines.enter({
    line: "model",
    sequence,
    needs: "",
    take: () => {
      if (place.free === 0) return { kind: "busy" };
      place.free -= 1;
      return { kind: "granted", grant: `slot of ${sequence}` };
    },
    onWaiting: (state) => states.push(state),
    limitMs,
    alreadyWaitedMs,
    signal: abort.signal,
  });
  const guest: Guest = { outcome, states, abort, settled: undefined };
  outcome.then((value) => (guest.settled = value)).catch(() => undefined);
  return guest;
}

describe("capacity lines", () => {
  it("grant at once what is free, with no line and no timer", async () => {
    const place = scene();
    place.free = 1;
    expect(await enter(place, 1).outcome).to.deep.equal({ kind: "granted", grant: "slot of 1", waitedMs: 0 });
    expect(place.clock.pending).to.equal(0);
  });

  it("wake the head at once when a slot is freed, without waiting for the poll", async () => {
    const place = scene();
    const first = enter(place, 1);
    const second = enter(place, 2);
    place.clock.advance(1000);
    place.free = 1;
    place.lines.capacityFreed("model");
    expect(await first.outcome).to.deep.equal({ kind: "granted", grant: "slot of 1", waitedMs: 1000 });
    expect(second.settled).to.equal(undefined);
  });

  it("report position and time when joining and at the rhythm of the poll", () => {
    const place = scene();
    enter(place, 1);
    const second = enter(place, 2);
    place.clock.advance(10_000);
    expect(second.states).to.deep.equal([
      { position: 2, waitedMs: 0, limitMs: 120_000 },
      { position: 2, waitedMs: 5000, limitMs: 120_000 },
      { position: 2, waitedMs: 10_000, limitMs: 120_000 },
    ]);
  });

  it("find by the poll what nobody woke them for", async () => {
    const place = scene();
    const guest = enter(place, 1);
    place.free = 1;
    place.clock.advance(5000);
    expect((await guest.outcome).kind).to.equal("granted");
    expect(place.clock.pending).to.equal(0);
  });

  it("ask again when the wait itself has opened another provider, long before the poll", async () => {
    const place = scene();
    const opensAt = 300;
    const outcome = place.lines.enter({
      line: "model",
      sequence: 1,
      needs: "",
      take: () => {
        const left = opensAt - place.clock.monotonic();
        return left > 0 ? { kind: "busy", recheckMs: left } : { kind: "granted", grant: "the next band" };
      },
      onWaiting: () => undefined,
      limitMs: 120_000,
      alreadyWaitedMs: 0,
      signal: new AbortController().signal,
    });
    place.clock.advance(100);
    place.lines.capacityFreed("model");
    place.clock.advance(200);
    expect(await outcome).to.deep.equal({ kind: "granted", grant: "the next band", waitedMs: 300 });
    expect(place.clock.pending).to.equal(0);
  });

  it("end the wait at its limit and leave no timer behind", async () => {
    const place = scene();
    const guest = enter(place, 1, 7000);
    place.clock.advance(7000);
    expect(await guest.outcome).to.deep.equal({ kind: "timeout", waitedMs: 7000 });
    expect(place.clock.pending).to.equal(0);
    expect(place.lines.sizes().size).to.equal(0);
  });

  it("fail at once with a limit of 0", async () => {
    expect(await enter(scene(), 1, 0).outcome).to.deep.equal({ kind: "timeout", waitedMs: 0 });
  });

  it("turn newcomers away when full, but not a request that comes back to its place", async () => {
    const place = scene(2);
    enter(place, 2);
    enter(place, 3);
    expect((await enter(place, 4).outcome).kind).to.equal("full");
    const returning = enter(place, 1, 120_000, 1);
    expect(returning.states[0]?.position).to.equal(1);
  });

  it("forget a client that went, and give the slot to the next", async () => {
    const place = scene();
    const gone = enter(place, 1);
    const next = enter(place, 2);
    gone.abort.abort();
    expect((await gone.outcome).kind).to.equal("aborted");
    place.free = 1;
    place.lines.capacityFreed("model");
    expect((await next.outcome).kind).to.equal("granted");
    expect(place.free).to.equal(0);
  });

  it("count earlier stays against the limit", async () => {
    const place = scene();
    const guest = enter(place, 1, 10_000, 8000);
    place.clock.advance(2000);
    expect(await guest.outcome).to.deep.equal({ kind: "timeout", waitedMs: 10_000 });
  });

  it("send everybody away when the gateway drains, and let nobody in", async () => {
    const place = scene();
    const guest = enter(place, 1);
    place.lines.drain();
    expect((await guest.outcome).kind).to.equal("draining");
    place.free = 1;
    expect((await enter(place, 2).outcome).kind).to.equal("draining");
    expect(place.clock.pending).to.equal(0);
  });
});
