import { expect } from "chai";
import { readHashModule, renderHashModule } from "../../../../scripts/wasm.ts";
import { fieldWords, mostFields, xxh3 } from "../../../../gateway/routing/hash/xxh3.ts";

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

function write(length: number, more = 0): void {
  xxh3.makeRoom(length + more);
  for (let i = 0; i < length + more; i += 1) xxh3.bytes[i] = 131 * i + 17 * (i >> 8) + 7;
}

describe("xxh3", () => {
  it("is what its source gives", async () => {
    expect(await readHashModule()).to.equal(await renderHashModule());
  });

  it("gives the published hash at every length class and its borders", () => {
    for (const [length, expected] of vectors) {
      write(length);
      expect(xxh3.hash(length).toString(16).padStart(16, "0"), `length ${length}`).to.equal(expected);
      expect(xxh3.high(length), `length ${length}`).to.equal(Number.parseInt(expected.slice(0, 8), 16));
    }
  });

  it("reads only the bytes it is told to, so that one message serves all candidates", () => {
    for (const [length, expected] of vectors) {
      write(length, 9);
      expect(xxh3.hash(length).toString(16).padStart(16, "0"), `length ${length}`).to.equal(expected);
    }
  });

  it("turns the top 53 bits into a number strictly between 0 and 1", () => {
    for (const [length, expected] of vectors) {
      write(length);
      const bits = BigInt(`0x${expected}`) >> 11n;
      expect(xxh3.unit(length), `length ${length}`).to.equal((Number(bits) + 0.5) / 2 ** 53);
      expect(xxh3.unit(length)).to.be.greaterThan(0).and.lessThan(1);
    }
  });

  it("is the same for many endings at once, and leaves the beginning as it is", () => {
    for (const prefix of [0, 1, 7, 16, 40, 64, 100, 128, 200, 236, 237, 1500]) {
      for (const count of [0, 1, 3, mostFields]) {
        write(prefix);
        const beginning = xxh3.bytes.slice(0, prefix);
        const endings = Array.from({ length: count }, (_, index) =>
          Uint8Array.from({ length: index % (4 * fieldWords - 3) }, (_byte, at) => 31 * at + 7 * index),
        );
        const fieldBytes = new Uint8Array(xxh3.fields.buffer, xxh3.fields.byteOffset, xxh3.fields.byteLength);
        endings.forEach((ending, index) => {
          xxh3.fields[index * fieldWords] = ending.length;
          fieldBytes.set(ending, 4 * (index * fieldWords + 1));
        });
        xxh3.units(prefix, count);
        const together = [...xxh3.results.subarray(0, count)];
        const alone = endings.map((ending) => {
          xxh3.view.setUint32(prefix, ending.length, true);
          xxh3.bytes.set(ending, prefix + 4);
          return xxh3.unit(prefix + 4 + ending.length);
        });
        expect(together, `${count} behind ${prefix}`).to.deep.equal(alone);
        expect(xxh3.bytes.slice(0, prefix)).to.deep.equal(beginning);
      }
    }
  });

  it("keeps what was written of a message when it makes room for more", () => {
    write(4096);
    const before = xxh3.bytes.length;
    xxh3.makeRoom(before + 100_000);
    expect(xxh3.bytes.length).to.be.at.least(before + 100_000);
    expect(xxh3.hash(4096).toString(16)).to.equal("48aa0572119e973a");
    xxh3.view.setUint8(before + 99_999, 7);
    expect(xxh3.bytes[before + 99_999]).to.equal(7);
  });
});
