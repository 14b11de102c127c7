import { expect } from "chai";
import fc from "fast-check";
import { bestOf } from "../../../../gateway/routing/pulsar/best-list.ts";

describe("the best of many scores", () => {
  it("are those that sorting all of them gives, equal ones by their texts, and no text is read without a tie", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 80 }), fc.nat(40), (scores, limit) => {
        const idOf = (place: number): string => `id ${(place * 7919) % 101}`;
        const expected = scores
          .map((score, place) => ({ score, place }))
          .toSorted((a, b) => b.score - a.score || (idOf(a.place) < idOf(b.place) ? -1 : 1))
          .slice(0, limit);
        const best = bestOf(scores, limit, idOf);
        expect(best.places).to.deep.equal(expected.map(({ place }) => place));
        expect(best.scores).to.deep.equal(expected.map(({ score }) => score));
        const distinct = [...new Set(scores)];
        bestOf(distinct, limit, () => expect.fail("a text was read"));
      }),
    );
  });
});
