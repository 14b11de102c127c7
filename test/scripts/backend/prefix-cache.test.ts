import { expect } from "chai";
import { PrefixCache, prefixBlockTokens } from "../../../scripts/backend/prefix-cache.ts";

const tokens = (length: number, from = 0) => Array.from({ length }, (_, index) => from + index);

describe("PrefixCache", () => {
  it("knows whole blocks of a prompt that it has read, and never the last token", () => {
    const cache = new PrefixCache(100);
    expect(cache.read(tokens(3 * prefixBlockTokens))).to.equal(0);
    expect(cache.read(tokens(3 * prefixBlockTokens))).to.equal(2 * prefixBlockTokens);
    expect(cache.read(tokens(3 * prefixBlockTokens + 1))).to.equal(2 * prefixBlockTokens);
    expect(cache.read(tokens(3 * prefixBlockTokens + 1))).to.equal(3 * prefixBlockTokens);
  });

  it("does not take the same block at another place for known", () => {
    const cache = new PrefixCache(100);
    cache.read(tokens(64));
    expect(cache.read([7, ...tokens(63)])).to.equal(0);
    expect(cache.read([...tokens(16, 500), ...tokens(48, 16)])).to.equal(0);
  });

  it("forgets the least recently used first, and ends of prompts before their beginnings", () => {
    const cache = new PrefixCache(4);
    cache.read(tokens(33));
    cache.read(tokens(33, 1000));
    cache.read(tokens(33));
    cache.read(tokens(17, 2000));
    expect(cache.read(tokens(33))).to.equal(32);
    expect(cache.read(tokens(17, 2000))).to.equal(16);
    expect(cache.read(tokens(33, 1000))).to.equal(16);
  });

  it("knows nothing without room", () => {
    const cache = new PrefixCache(0);
    cache.read(tokens(40));
    expect(cache.read(tokens(40))).to.equal(0);
  });
});
