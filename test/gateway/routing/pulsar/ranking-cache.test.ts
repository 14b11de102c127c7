import { expect } from "chai";
import fc from "fast-check";
import { RankingCache } from "../../../../gateway/routing/pulsar/ranking-cache.ts";

const step = fc.record({ key: fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h"), isSet: fc.boolean() });

describe("RankingCache", () => {
  it("forgets what was not used for longest, and nothing else, in whatever order it is used", () => {
    fc.assert(
      fc.property(fc.nat(5), fc.array(step, { maxLength: 200 }), (limit, steps) => {
        const cache = new RankingCache<number>(limit);
        /** Least recently used first. */
        let expected: (readonly [string, number])[] = [];
        steps.forEach(({ key, isSet }, value) => {
          const known = expected.find(([other]) => other === key);
          const others = expected.filter(([other]) => other !== key);
          if (isSet) {
            cache.set(key, value);
            expected = [...others, [key, value]];
            if (expected.length > limit) expected.shift();
          } else {
            expect(cache.get(key)).to.equal(known?.[1]);
            if (known !== undefined) expected = [...others, known];
          }
          expect(cache.size).to.equal(expected.length);
        });
        for (const [key, value] of expected) expect(cache.get(key)).to.equal(value);
      }),
    );
  });
});
