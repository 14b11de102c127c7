import { expect } from "chai";
import fc from "fast-check";
import type { Address } from "viem";
import { HashRing } from "../../../../gateway/routing/ring/hash-ring.ts";
import { MemberSlots } from "../../../../gateway/routing/ring/member-slots.ts";
import { virtualPositions } from "../../../../gateway/routing/ring/virtual-nodes.ts";
import { addressOf } from "../support/registry.ts";

const addresses = (count: number, from = 1): Address[] => Array.from({ length: count }, (_, i) => addressOf(from + i));
const ringOf = (members: readonly Address[], slots = new MemberSlots()): HashRing => {
  const ring = HashRing.change(undefined, slots, { add: members, remove: [] });
  if (ring === undefined) throw new Error("no members, no ring");
  return ring;
};
const ownerOf = (ring: HashRing, position: number): Address => ring.walk(position).next()!;
const around = (ring: HashRing, position: number): Address[] => {
  const walk = ring.walk(position);
  const members: Address[] = [];
  for (let member = walk.next(); member !== undefined; member = walk.next()) members.push(member);
  return members;
};
const positions = Array.from({ length: 20_000 }, (_, index) => (index * 2654435761) % 2 ** 32);

describe("HashRing", () => {
  it("is not there without members", () => {
    const slots = new MemberSlots();
    expect(HashRing.change(undefined, slots, { add: [], remove: [] })).to.equal(undefined);
    const ring = ringOf([addressOf(1)], slots);
    expect(HashRing.change(ring, slots, { add: [], remove: [addressOf(1)] })).to.equal(undefined);
  });

  it("walks clockwise over distinct members and stops when all were seen", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(60), { minLength: 1 }), fc.nat(2 ** 32 - 1), (indexes, position) => {
        const members = indexes.map((index) => addressOf(index + 1));
        const points = members
          .flatMap((member) => [...virtualPositions(member)].map((at) => ({ at, member })))
          .toSorted((a, b) => a.at - b.at);
        const clockwise = [...points.filter(({ at }) => at >= position), ...points.filter(({ at }) => at < position)];
        const expected = [...new Set(clockwise.map(({ member }) => member))];
        expect(around(ringOf(members), position)).to.deep.equal(expected);
      }),
    );
  });

  it("is the same after any history of joins and leaves as when built at once", () => {
    const step = fc.record({ add: fc.array(fc.nat(25)), remove: fc.array(fc.nat(25)) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 15 }), (steps) => {
        const slots = new MemberSlots();
        let ring: HashRing | undefined;
        let members = new Set<Address>();
        for (const { add, remove } of steps) {
          const removed = remove.map((index) => addressOf(index + 1));
          const added = add.map((index) => addressOf(index + 1)).filter((address) => !removed.includes(address));
          ring = HashRing.change(ring, slots, { add: added, remove: removed });
          members = new Set([...[...members].filter((address) => !removed.includes(address)), ...added]);
          expect(ring?.size ?? 0).to.equal(members.size);
          if (ring === undefined) continue;
          const fresh = ringOf([...members], slots);
          for (const position of [0, 1e9, 2e9, 4e9]) {
            expect(around(ring, position)).to.deep.equal(around(fresh, position));
          }
          for (const address of addresses(26)) expect(ring.has(address)).to.equal(members.has(address));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("gives a duplicate member one share", () => {
    const [a, b] = [addressOf(1), addressOf(2)];
    const slots = new MemberSlots();
    const ring = HashRing.change(ringOf([a, b, a], slots), slots, { add: [a, a], remove: [] });
    expect(ring?.shares()).to.deep.equal(ringOf([a, b]).shares());
  });

  it("moves only the keys of a member that leaves, and only to a member that joins", () => {
    const slots = new MemberSlots();
    const before = ringOf(addresses(20), slots);
    const left = HashRing.change(before, slots, { add: [], remove: [addressOf(7)] })!;
    const joined = HashRing.change(before, slots, { add: [addressOf(99)], remove: [] })!;
    for (const position of positions) {
      const owner = ownerOf(before, position);
      if (owner !== addressOf(7)) expect(ownerOf(left, position)).to.equal(owner);
      const after = ownerOf(joined, position);
      if (after !== owner) expect(after).to.equal(addressOf(99));
    }
  });

  it("shares the circle within about 1 / sqrt(150) of equal, whatever the case of an address", () => {
    const shares = [...ringOf(addresses(100)).shares().values()];
    const deviation = Math.sqrt(shares.reduce((sum, share) => sum + (share * 100 - 1) ** 2, 0) / 100);
    expect(deviation).to.be.within(0.05, 0.12);
    expect(shares.reduce((sum, share) => sum + share, 0)).to.be.closeTo(1, 1e-9);
    const mixed = addressOf(0xabcdef);
    expect(virtualPositions(mixed)).to.deep.equal(virtualPositions(mixed.toLowerCase() as Address));
  });

  it("gives every gateway the same owner, in whatever order it learnt of the members", () => {
    const one = ringOf(addresses(30));
    const other = ringOf(addresses(30).toReversed());
    for (const position of positions.slice(0, 2000)) expect(ownerOf(one, position)).to.equal(ownerOf(other, position));
  });

  it("walks the same members in portions as one by one, each once, and ends with the last", () => {
    const ring = ringOf(Array.from({ length: 90 }, (_, index) => addressOf(index + 1)));
    const single = ring.walk(0x8000_0000);
    const expected = Array.from({ length: 90 }, () => single.nextSlot());
    const walk = ring.walk(0x8000_0000);
    const portions = [16, 1, 40, 60].map((count) => walk.nextSlots(count));
    expect(portions.flat()).to.deep.equal(expected);
    expect(portions[3], "fewer than asked for at the end").to.have.length(33);
    expect(new Set(expected).size).to.equal(90);
    expect(walk.nextSlots(1)).to.deep.equal([]);
  });
});
