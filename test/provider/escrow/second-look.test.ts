import { expect } from "chai";
import { SecondLook } from "../../../provider/escrow/second-look.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("SecondLook", () => {
  let clock: ManualClock;
  let look: SecondLook;

  beforeEach(() => {
    clock = new ManualClock();
    look = new SecondLook(clock);
  });

  it("keeps asking for blocks for as long as a node may not have them, whatever is asked for by its hash meanwhile", async () => {
    look.asked(10n, 12n, 12n);
    look.done(12n);
    expect(look.from(13n)).to.equal(10n);
    await clock.advance(14_999);
    look.done(13n);
    expect(look.from(14n)).to.equal(10n);
    await clock.advance(1);
    look.done(14n);
    expect(look.from(15n)).to.equal(15n);
  });

  it("goes back no further than a node can lag, as a catch-up over a year would else be read with every block", () => {
    look.asked(1n, 1_000_000n, 2_000_000n);
    look.asked(1_000_001n, 2_000_000n, 2_000_000n);
    look.done(2_000_000n);
    expect(look.from(2_000_001n)).to.equal(2_000_000n - 63n);
  });

  it("takes an event for news again only where a reorganisation has dropped it", () => {
    const event = { kind: "posted", jobId: "0x1", block: 12 };
    look.told(event, 12n);
    expect(look.isNews(event)).to.equal(false);
    expect(look.isNews({ ...event, block: 13 })).to.equal(true);
    look.forgetAbove(12n);
    expect(look.isNews(event)).to.equal(false);
    look.forgetAbove(11n);
    expect(look.isNews(event)).to.equal(true);
  });
});
