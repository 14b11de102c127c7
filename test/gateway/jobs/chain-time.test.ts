import { expect } from "chai";
import { ChainTime } from "../../../gateway/jobs/chain-time.ts";

describe("the chain's time", () => {
  let wallMs: number;
  let monotonicMs: number;
  let time: ChainTime;

  beforeEach(() => {
    wallMs = 1_000_000;
    monotonicMs = 0;
    time = new ChainTime({ now: () => wallMs, monotonic: () => monotonicMs, after: () => () => undefined });
  });

  function pass(seconds: number): void {
    wallMs += seconds * 1000;
    monotonicMs += seconds * 1000;
  }

  it("goes on between the blocks of a chain that is ahead of our clock", () => {
    time.observe(5000);
    time.observe(5012);
    pass(7);
    expect([time.nowSeconds(), time.steadySeconds()]).to.deep.equal([5019, 5019]);
    expect(time.blockSeconds()).to.equal(5012);
  });

  it("does not jump with our clock, so that no job is expired in vain, for gas, before its time", () => {
    time.observe(990);
    pass(10);
    time.observe(1002);
    wallMs += 3_600_000;
    pass(5);
    expect(time.steadySeconds()).to.equal(1007);
  });

  it("is that of our clock on a chain that makes no blocks, whose next one will have it", () => {
    expect(time.steadySeconds()).to.equal(1000);
    time.observe(100);
    expect(time.steadySeconds(), "the only block may be old").to.equal(1000);
    time.observe(150);
    pass(60);
    expect([time.nowSeconds(), time.steadySeconds()]).to.deep.equal([1060, 1060]);
  });
});
