import { expect } from "chai";
import { type SeenBlock, withBlock } from "../../../provider/escrow/block-locator.ts";

const block = (number: number): SeenBlock => ({ number: String(number), hash: `0x${number.toString(16)}` });

function locatorOf(...numbers: readonly number[]): readonly SeenBlock[] {
  let locator: readonly SeenBlock[] = [];
  for (const number of numbers) locator = withBlock(locator, block(number));
  return locator;
}

const numbersIn = (locator: readonly SeenBlock[]): number[] => locator.map(({ number }) => Number(number));

describe("a block locator", () => {
  it("knows a block within three times the depth of any fork, and stays small", () => {
    const newest = 20_000;
    const numbers = numbersIn(locatorOf(...Array.from({ length: newest + 1 }, (_, number) => number)));
    expect(numbers.length).to.be.lessThan(60);
    for (let depth = 1; depth < newest; depth += 7) {
      const common = numbers.find((number) => number <= newest - depth);
      expect(common, `a fork ${depth} deep`).to.be.at.least(Math.max(0, newest - 3 * depth - 12));
    }
  });

  it("keeps the oldest block for good, so that another chain is told from a node that is behind", () => {
    expect(numbersIn(locatorOf(0, 5_000, ...Array.from({ length: 500 }, (_, index) => 5_001 + index))).at(-1)).to.equal(
      0,
    );
  });

  it("drops what is not below the new block, as that is of a branch that is gone", () => {
    expect(numbersIn(locatorOf(1, 2, 3, 4, 5, 3))).to.deep.equal([3, 2, 1]);
  });
});
