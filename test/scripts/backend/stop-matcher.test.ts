import { expect } from "chai";
import * as fc from "fast-check";
import { StopMatcher } from "../../../scripts/backend/stop-matcher.ts";

function run(stops: readonly string[], pieces: readonly string[]): { text: string; stopped: boolean } {
  const matcher = new StopMatcher(stops);
  let text = "";
  for (const piece of pieces) {
    const result = matcher.push(piece);
    text += result.text;
    if (result.stopped) return { text, stopped: true };
  }
  return { text: text + matcher.end(), stopped: false };
}

describe("StopMatcher", () => {
  it("never shows a part of a stop text that comes in pieces", () => {
    expect(run(["END"], ["some E", "N", "D more"])).to.deep.equal({ text: "some ", stopped: true });
  });

  it("shows what looked like a stop text and was none", () => {
    expect(run(["END"], ["an E", "N", "E", "MY"])).to.deep.equal({ text: "an ENEMY", stopped: false });
  });

  it("shows the held beginning of a stop text when the answer ends with it", () => {
    expect(run(["\n\n"], ["a line\n"])).to.deep.equal({ text: "a line\n", stopped: false });
  });

  it("takes the first of several stop texts", () => {
    expect(run(["zz", "b"], ["ab", "zz"])).to.deep.equal({ text: "a", stopped: true });
  });

  it("does not stop at once for an empty stop text", () => {
    expect(run([""], ["a", "b"])).to.deep.equal({ text: "ab", stopped: false });
  });

  it("gives the same text however the answer is cut into pieces, when each piece is one character", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 20 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 }), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(letters, stops, (text, wanted) => {
        // The first stop text to be complete counts; of those complete at the same character, the one that began first.
        const ends = wanted.filter((stop) => text.includes(stop)).map((stop) => text.indexOf(stop) + stop.length);
        const end = Math.min(...ends);
        const begins = wanted.filter((stop) => text.slice(0, end).endsWith(stop)).map((stop) => end - stop.length);
        const expected =
          ends.length === 0 ? { text, stopped: false } : { text: text.slice(0, Math.min(...begins)), stopped: true };
        expect(run(wanted, text.split(""))).to.deep.equal(expected);
      }),
    );
  });
});
