import { expect } from "chai";
import * as fc from "fast-check";
import { keccak256, numberToHex } from "viem";
import { HexTrie } from "../../../chain/registry-index/hex-trie.ts";

/** Short keys collide often, so that paths split and join. */
const key = fc.integer({ min: 0, max: 0xfff }).map((value) => numberToHex(value, { size: 2 }));
const change = fc.record({ key, value: fc.option(fc.nat(), { nil: undefined }) });

function apply(
  trie: HexTrie<number>,
  changes: readonly { readonly key: string; readonly value: number | undefined }[],
): HexTrie<number> {
  const editor = trie.edit();
  for (const { key, value } of changes) {
    if (value === undefined) editor.delete(key);
    else editor.set(key, value);
  }
  return editor.done();
}

describe("HexTrie", () => {
  it("holds what a map holds after any changes, in the order of keys", () => {
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 30 }), { maxLength: 8 }), (batches) => {
        const model = new Map<string, number>();
        let trie = HexTrie.empty<number>();
        for (const batch of batches) {
          trie = apply(trie, batch);
          for (const { key, value } of batch) {
            if (value === undefined) model.delete(key);
            else model.set(key, value);
          }
          expect([...trie.entries()]).to.deep.equal([...model].toSorted(([a], [b]) => (a < b ? -1 : 1)));
          expect(trie.size).to.equal(model.size);
        }
        for (const [key, value] of model) expect(trie.get(key)).to.equal(value);
      }),
    );
  });

  it("never changes a version that a reader holds, also not when an editor goes on after done", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), fc.array(change, { maxLength: 40 }), (first, second) => {
        const before = apply(HexTrie.empty<number>(), first);
        const seen = [...before.entries()];
        const editor = before.edit();
        for (const { key } of second) editor.set(key, -1);
        const middle = editor.done();
        const seenMiddle = [...middle.entries()];
        for (const { key } of second) editor.delete(key);
        editor.done();
        expect([...before.entries()]).to.deep.equal(seen);
        expect([...middle.entries()]).to.deep.equal(seenMiddle);
      }),
    );
  });

  it("finds keys whatever their case, so that checksummed and plain addresses are one", () => {
    const trie = apply(HexTrie.empty<number>(), [{ key: "0xAbCd", value: 1 }]);
    expect(trie.get("0xaBcD")).to.equal(1);
    expect(apply(trie, [{ key: "0xABCD", value: 2 }]).size).to.equal(1);
  });

  it("refuses keys that are not hexadecimal instead of losing them", () => {
    expect(() => HexTrie.empty<number>().edit().set("0xzz", 1)).to.throw(RangeError);
  });

  it("samples only what is in it, and nothing from nothing", () => {
    expect(HexTrie.empty<number>().sample(() => 0.5)).to.equal(undefined);
    const trie = apply(
      HexTrie.empty<number>(),
      Array.from({ length: 300 }, (_, value) => ({ key: keccak256(numberToHex(value)), value })),
    );
    fc.assert(
      fc.property(fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })), (numbers) => {
        const value = trie.sample(() => numbers.next().value as number);
        expect(value).to.be.within(0, 299);
      }),
    );
  });

  it("copies a few nodes for a change among 100,000, not the map", () => {
    // Well spread, and much cheaper than a hash.
    const spread = (value: number): string => numberToHex((value * 2_654_435_761) % 2 ** 32, { size: 4 });
    const editor = HexTrie.empty<number>().edit();
    for (let value = 0; value < 100_000; value += 1) editor.set(spread(value), value);
    const big = editor.done();
    const start = performance.now();
    let trie = big;
    for (let round = 0; round < 1_000; round += 1) trie = apply(trie, [{ key: spread(round), value: -round }]);
    // A copy of 100,000 entries takes about a millisecond at best; a path takes microseconds.
    expect(performance.now() - start).to.be.lessThan(500);
    expect(big.get(spread(7))).to.equal(7);
    expect(trie.get(spread(7))).to.equal(-7);
  });
});
