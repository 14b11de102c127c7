import { expect } from "chai";
import { CommonPrefixHash, xxh3, xxh3Unit } from "../../../../gateway/routing/hash/xxh3.ts";

/** Length of an input whose byte i is `131 i + 17 floor(i / 256) + 7`, and its hash by two independent implementations that agreed. */
const vectors: readonly (readonly [number, string])[] = [
  [0, "2d06800538d394c2"],
  [1, "4c5cca45d0f4811f"],
  [2, "29c60963cbfa4e6e"],
  [3, "6e3e2670e61106ac"],
  [4, "5c4c63133443d03f"],
  [5, "49f5eb3111280b63"],
  [7, "46a5c724d51fe43f"],
  [8, "f9fd4dd0b04d78f5"],
  [9, "7c20df9712c26edf"],
  [12, "16d2dff54dc2ee45"],
  [15, "b345a7b2698ba575"],
  [16, "86abf6baccea0858"],
  [17, "b58bf5dc5022d071"],
  [24, "08ce26a7964ba200"],
  [31, "48442fcd5518b086"],
  [32, "e3712ed84c04a66e"],
  [33, "a4dee99b093e1f73"],
  [48, "d8d1caaa06ae1e99"],
  [63, "30ca01f63dcc223b"],
  [64, "1291d2d4042330dd"],
  [65, "97c6bf83217e5ec9"],
  [80, "c50c581cf16b1ed6"],
  [95, "31bc916970f3868d"],
  [96, "81296929fc063365"],
  [97, "f145a45b658ab9dd"],
  [112, "c787b705cf40bb90"],
  [127, "ed4cf62104020db5"],
  [128, "10d17f72c0ccba41"],
  [129, "1648bdc3db49d1a2"],
  [144, "b46dbfc6d9e31aba"],
  [160, "655c8dc33b4b4c4a"],
  [191, "1e15709add65c517"],
  [192, "daf64f63dc7d5e36"],
  [208, "11e00ce03c5ecd6c"],
  [239, "f0d154819adb16cd"],
  [240, "b6cfaf343fab81e6"],
  [241, "956cae592c67279e"],
  [255, "64a6073025eb7929"],
  [256, "b15e550733c5dfac"],
  [257, "c6dea86d5afd33ae"],
  [320, "50c64a131ba9ddea"],
  [512, "31cc4c8456761b50"],
  [1023, "aa76836516a7ea30"],
  [1024, "a1e16f2edf2cbed6"],
  [1025, "0a6d2c17259fe4bb"],
  [1088, "0ef0c0dc0e8682f1"],
  [2047, "9ec85163f94a6b6d"],
  [2048, "1c81a12455515459"],
  [2049, "e54b75096179fb9c"],
  [4096, "48aa0572119e973a"],
];

function inputOf(length: number): DataView {
  return new DataView(Uint8Array.from({ length }, (_, i) => 131 * i + 17 * (i >> 8) + 7).buffer);
}

const hex = (half: number): string => half.toString(16).padStart(8, "0");

describe("xxh3", () => {
  it("gives the published hash at every length class and its borders", () => {
    for (const [length, expected] of vectors) {
      const { high, low } = xxh3(inputOf(length));
      expect(hex(high) + hex(low), `length ${length}`).to.equal(expected);
    }
  });

  it("reads only the bytes it is told to, so that one buffer serves all candidates", () => {
    for (const [length] of vectors) {
      const longer = inputOf(length + 9);
      expect(xxh3(longer, length)).to.deep.equal(xxh3(inputOf(length)));
    }
  });

  it("refuses to read past the end", () => {
    expect(() => xxh3(inputOf(4), 5)).to.throw(RangeError);
  });

  it("turns the top 53 bits into a number strictly between 0 and 1", () => {
    for (const [length, expected] of vectors) {
      const bits = BigInt(`0x${expected}`) >> 11n;
      expect(xxh3Unit(inputOf(length)), `length ${length}`).to.equal((Number(bits) + 0.5) / 2 ** 53);
      expect(xxh3Unit(inputOf(length)))
        .to.be.greaterThan(0)
        .and.lessThan(1);
    }
  });

  it("is the same when the blocks of a common beginning are mixed once", () => {
    for (const common of [0, 7, 16, 40, 64, 100]) {
      const hash = new CommonPrefixHash(common);
      for (const length of [common + 5, common + 20, common + 20, 120, 150, common + 5].filter((it) => it >= common)) {
        for (let variant = 0; variant < 5; variant += 1) {
          const input = inputOf(length);
          for (let at = common; at < length; at += 1) input.setUint8(at, (at * 31 + variant * 7) & 255);
          expect(hash.unit(input, length), `${common} of ${length}`).to.equal(xxh3Unit(input));
        }
      }
    }
  });
});
