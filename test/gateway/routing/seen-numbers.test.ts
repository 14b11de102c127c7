import { expect } from "chai";
import fc from "fast-check";
import { SeenNumbers } from "../../../gateway/routing/seen-numbers.ts";

describe("SeenNumbers", () => {
  it("tells what it has met from what it has not, few numbers or many, as a set does", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(80), { maxLength: 120 }), (numbers) => {
        const seen = new SeenNumbers();
        const expected = new Set<number>();
        for (const number of numbers) {
          expect(seen.has(number)).to.equal(expected.has(number));
          expect(seen.add(number)).to.equal(!expected.has(number));
          expected.add(number);
          expect(seen.size).to.equal(expected.size);
        }
      }),
    );
  });
});
