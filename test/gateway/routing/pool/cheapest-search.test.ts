import type { Address } from "viem";
import { expect } from "chai";
import fc from "fast-check";
import { CheapestSearch } from "../../../../gateway/routing/pool/cheapest-search.ts";
import { Limits } from "../../../../gateway/routing/pool/limits.ts";
import { type Member, memberOf, memberShape } from "../../../../gateway/routing/pool/member.ts";
import { SortedTree } from "../../../../gateway/routing/pool/sorted-tree.ts";
import { addressOf, providerRecord, testModel } from "../support/registry.ts";
import { requestOf, seeded } from "../support/request.ts";

const long = requestOf({ inputTokens: 9000, outputTokens: 0 });

/** Members of one price, or of a few; those with a name in `holders` hold the long prompt. */
function treeOf(count: number, holders: ReadonlySet<number>, priceOf: (index: number) => bigint = () => 5n) {
  return SortedTree.empty(memberShape).edit((edit) => {
    for (let index = 0; index < count; index += 1) {
      const contextLength = holders.has(index) ? 10_000 : 8000;
      const offer = { inputPrice: priceOf(index), outputPrice: 1n, contextLength };
      const record = providerRecord({ address: addressOf(index + 1), models: { [testModel]: offer } });
      edit.put(memberOf(record, testModel, undefined) as Member);
    }
  });
}

/** Who is found, and how many members the search met for it. */
function find(
  tree: SortedTree<Member>,
  random: () => number,
  isRefused: (provider: Address) => boolean = () => false,
): { readonly found: Address[]; readonly met: number } {
  const limits = new Limits(long);
  let met = 0;
  const search = new CheapestSearch(long, limits, random, 8, (member) => {
    met += 1;
    return isRefused(member.provider) ? undefined : limits.best(member);
  });
  return { found: search.run([tree]).map(({ provider }) => provider), met };
}

const some = (...indices: number[]) => new Set(indices);

describe("CheapestSearch over many members of one price", () => {
  it("finds the few that hold a long prompt without meeting the others: one client could else stop the gateway", () => {
    const random = seeded(1);
    for (const holders of [some(), some(7), some(7, 8, 9), some(0, 1500, 3999)]) {
      const tree = treeOf(4000, holders);
      const expected = [...holders].map((index) => addressOf(index + 1));
      for (let round = 0; round < 20; round += 1) {
        const { found, met } = find(tree, random);
        expect(found).to.have.members(expected);
        expect(met).to.be.lessThan(20);
      }
    }
  });

  it("names each once when fewer fit than are wanted: a post would else name one provider twice", () => {
    const holders = some(1, 33, 65);
    const tree = treeOf(66, holders);
    for (let seed = 0; seed < 20; seed += 1) {
      const { found } = find(tree, seeded(seed));
      expect(found).to.have.members([...holders].map((index) => addressOf(index + 1)));
    }
  });

  it("meets few where one in fifty holds it, and draws each of them as often", () => {
    const holders = new Set(Array.from({ length: 100 }, (_, index) => index * 50));
    const tree = treeOf(5000, holders);
    const random = seeded(2);
    const shares = new Map<Address, number>();
    for (let round = 0; round < 2000; round += 1) {
      const { found, met } = find(tree, random);
      expect(new Set(found).size).to.equal(8);
      expect(met).to.be.lessThan(30);
      for (const provider of found) shares.set(provider, (shares.get(provider) ?? 0) + 1);
    }
    expect(shares.size).to.equal(100);
    // 160 each in the mean, with a spread of 12.
    for (const share of shares.values()) expect(share).to.be.within(100, 220);
  });

  it("names as many as are wanted, the cheapest, as a full scan would, whoever holds the prompt, is refused, or costs the same", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 600 }),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom(2, 9, 70, 300),
        fc.constantFrom(2, 5, 1000),
        fc.nat(),
        (count, prices, holdsOneIn, refusesOneIn, seed) => {
          const random = seeded(seed);
          const indices = Array.from({ length: count }, (_, index) => index);
          const holders = new Set(indices.filter(() => random() * holdsOneIn < 1));
          const refused = new Set(
            indices.filter(() => random() * refusesOneIn < 1).map((index) => addressOf(index + 1)),
          );
          const costs = new Map(
            indices.map((index) => [addressOf(index + 1), BigInt(1 + Math.floor(random() * prices))]),
          );
          const costOf = (provider: Address) => Number(costs.get(provider));
          const tree = treeOf(count, holders, (index) => costs.get(addressOf(index + 1)) as bigint);
          const { found } = find(tree, random, (provider) => refused.has(provider));
          const able = [...holders].map((index) => addressOf(index + 1)).filter((provider) => !refused.has(provider));
          expect(able).to.include.members(found);
          expect(new Set(found).size).to.equal(found.length);
          const cheapest = able.map(costOf).toSorted((a, b) => a - b);
          expect(found.map(costOf)).to.deep.equal(cheapest.slice(0, 8));
        },
      ),
      { numRuns: 300 },
    );
  });
});
