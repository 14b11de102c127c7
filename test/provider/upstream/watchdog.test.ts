import { expect } from "chai";
import { Watchdog } from "../../../provider/upstream/watchdog.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("Watchdog", () => {
  it("barks once, after silence and not before, however often it was touched", async () => {
    const clock = new ManualClock();
    let barks = 0;
    const dog = new Watchdog(clock, 100, () => {
      barks += 1;
    });
    for (let turn = 0; turn < 10; turn += 1) {
      await clock.advance(60);
      dog.touch();
    }
    expect(barks).to.equal(0);
    await clock.advance(99);
    expect(barks).to.equal(0);
    await clock.advance(1);
    expect(barks).to.equal(1);
    await clock.advance(1_000);
    expect(barks).to.equal(1);
    expect(clock.pending).to.equal(0);
  });

  it("is silent when stopped and starts anew with another limit", async () => {
    const clock = new ManualClock();
    let barks = 0;
    const dog = new Watchdog(clock, 100, () => {
      barks += 1;
    });
    dog.stop();
    await clock.advance(1_000);
    expect(barks).to.equal(0);
    dog.restart(50);
    await clock.advance(50);
    expect(barks).to.equal(1);
  });
});
