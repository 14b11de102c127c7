import { expect } from "chai";
import type { WantedPublication } from "../../../provider/registration/plan.ts";
import { PublicationLoop } from "../../../provider/registration/publication-loop.ts";
import type { Published, Publisher } from "../../../provider/registration/publisher.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";

/** A loop over answers given by hand, and how often it has published. */
function loopOver(answers: readonly (readonly string[] | Error)[]) {
  const clock = new ManualClock();
  let published = 0;
  const publisher = {
    publish: async () => {
      const answer = answers[Math.min(published, answers.length - 1)];
      published += 1;
      await Promise.resolve();
      if (answer instanceof Error) throw answer;
      return { warnings: answer } as unknown as Published;
    },
  } as unknown as Publisher;
  const loop = new PublicationLoop({
    publisher,
    wanted: () => ({}) as WantedPublication,
    clock,
    random: () => 0.5,
    onPublished: () => undefined,
    onError: () => undefined,
  });
  return { loop, clock, published: () => published };
}

describe("PublicationLoop", () => {
  it("looks again while others have something to change, so that tokens that come later are staked", async () => {
    const { loop, clock, published } = loopOver([["the wallet is empty"], ["the wallet is empty"], []]);
    await loop.request();
    expect(published()).to.equal(1);
    await clock.advance(15_000);
    expect(published()).to.equal(2);
    await clock.advance(15_000);
    expect(published()).to.equal(3);
    await clock.advance(600_000);
    expect(published(), "nothing is missing any more").to.equal(3);
  });

  it("has one look in waiting, however often it is asked, and none after its stop", async () => {
    const { loop, clock, published } = loopOver([["the owner is away"]]);
    await loop.request();
    await loop.request();
    expect(clock.pending).to.equal(1);
    await loop.stop();
    await clock.advance(60_000);
    await settle();
    expect(published()).to.equal(2);
  });

  it("tries again after a fault", async () => {
    const { loop, clock, published } = loopOver([new Error("no node"), []]);
    await loop.request();
    await clock.advance(30_000);
    expect(published()).to.equal(2);
  });
});
