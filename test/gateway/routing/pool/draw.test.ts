import { expect } from "chai";
import fc from "fast-check";
import { RankDraw } from "../../../../gateway/routing/pool/draw.ts";
import { seeded } from "../support/request.ts";

describe("RankDraw", () => {
  it("draws each number once, and the same ones in whatever portions they are asked for", () => {
    fc.assert(
      fc.property(
        fc.nat(300),
        fc.nat(20),
        fc.array(fc.nat(40), { maxLength: 12 }),
        fc.nat(),
        (size, wanted, asked, seed) => {
          const portions = new RankDraw(size, wanted, seeded(seed));
          const drawn = [...asked.flatMap((count) => portions.next(count)), ...portions.next(size)];
          expect(drawn).to.deep.equal(new RankDraw(size, wanted, seeded(seed)).next(size));
          expect(drawn.toSorted((a, b) => a - b)).to.deep.equal(Array.from({ length: size }, (_, rank) => rank));
          expect(portions.next(1)).to.deep.equal([]);
        },
      ),
    );
  });

  it("takes no number before it is asked for, so that a decision draws as many as it meets", () => {
    let draws = 0;
    const draw = new RankDraw(1000, 8, () => {
      draws += 1;
      return draws / 1000;
    });
    draw.next(3);
    expect(draws).to.equal(3);
  });

  it("draws every number equally often", () => {
    const random = seeded(3);
    const counts = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (let round = 0; round < 20_000; round += 1) {
      const [first] = new RankDraw(10, round % 2 === 0 ? 1 : 8, random).next(1);
      counts[first as number] = (counts[first as number] as number) + 1;
    }
    for (const count of counts) expect(count).to.be.within(1800, 2200);
  });
});
