import { expect } from "chai";
import { firstBlockSince } from "../../../provider/registration/first-block.ts";

/** Block 10 has time 100, each ten more; counts the questions. */
function blocks() {
  const asked: bigint[] = [];
  const timeOf = async (block: bigint): Promise<number> => {
    asked.push(block);
    return await Promise.resolve(Number(block) * 10);
  };
  return { asked, timeOf };
}

describe("firstBlockSince", () => {
  it("leaves no block of the time out, wherever the time falls", async () => {
    const { timeOf } = blocks();
    expect(await firstBlockSince(500, 10n, 100n, timeOf), "at a block's time").to.equal(50n);
    expect(await firstBlockSince(501, 10n, 100n, timeOf), "between two").to.equal(51n);
    expect(await firstBlockSince(0, 10n, 100n, timeOf), "before the first").to.equal(10n);
    expect(await firstBlockSince(2_000, 10n, 100n, timeOf), "after the last").to.equal(100n);
    expect(await firstBlockSince(500, 100n, 100n, timeOf), "of a single block").to.equal(100n);
  });

  it("takes the first of blocks with equal times", async () => {
    const timeOf = async (block: bigint): Promise<number> => await Promise.resolve(block < 40n ? 1 : 2);
    expect(await firstBlockSince(2, 0n, 100n, timeOf)).to.equal(40n);
  });

  it("asks for few blocks of a long chain", async () => {
    const { asked, timeOf } = blocks();
    await firstBlockSince(123_456_789, 0n, 1n << 30n, timeOf);
    expect(asked.length).to.be.at.most(30);
  });
});
