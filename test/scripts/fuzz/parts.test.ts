import { expect } from "chai";
import { partsOf } from "../../../scripts/fuzz/parts.ts";

describe("the parts of a fuzz campaign", () => {
  it("play what was asked for and not a whole part where less was", () => {
    expect(partsOf(2_000, 1_000, 50)).to.deep.equal([2]);
    expect(partsOf(1, 1_000, 50)).to.deep.equal([1]);
    expect(partsOf(2_001, 1_000, 50)).to.deep.equal([3]);
  });

  it("are of one size but the last, so that a longer campaign goes on where a shorter one ended", () => {
    expect(partsOf(100_000, 1_000, 50)).to.deep.equal([50, 50]);
    expect(partsOf(120_000, 1_000, 50)).to.deep.equal([50, 50, 20]);
  });
});
