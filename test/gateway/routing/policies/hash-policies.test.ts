import { expect } from "chai";
import type { Address } from "viem";
import { Chooser } from "../support/choose.ts";
import { addressOf } from "../support/registry.ts";
import { fleet } from "../support/sketches.ts";

const keys = Array.from({ length: 1500 }, (_, index) => `conversation ${index}`);
const owners = (chooser: Chooser): (Address | undefined)[] => keys.map((affinityKey) => chooser.first({ affinityKey }));

describe("consistent_hash", () => {
  it("keeps a key on one provider, in every gateway", () => {
    const one = new Chooser({ name: "consistent_hash" }, fleet(8), 1);
    const other = new Chooser({ name: "consistent_hash" }, fleet(8).toReversed(), 2);
    expect(owners(one)).to.deep.equal(owners(one));
    expect(owners(one)).to.deep.equal(owners(other));
  });

  it("moves only the keys of a provider that leaves, each to the next of its ranking", () => {
    const chooser = new Chooser({ name: "consistent_hash" }, fleet(8));
    const before = keys.map((affinityKey) => chooser.ranked({ affinityKey }));
    chooser.replace(fleet(8).filter(({ address }) => address !== addressOf(3)));
    keys.forEach((affinityKey, index) => {
      const [owner, second] = before[index] ?? [];
      expect(chooser.first({ affinityKey })).to.equal(owner === addressOf(3) ? second : owner);
    });
  });

  it("moves to the successor while the owner is full, and back", () => {
    const chooser = new Chooser({ name: "consistent_hash" }, fleet(6));
    const [owner, second] = chooser.ranked({ affinityKey: "k" });
    chooser.replace(
      fleet(6).map((one) => (one.address === owner ? { ...one, maxConcurrentJobs: 1, openJobs: 1 } : one)),
    );
    expect(chooser.first({ affinityKey: "k" })).to.equal(second);
    expect(chooser.select({ affinityKey: "k" }).reason, "who reads it looks for the owner elsewhere").to.equal(
      "ring_successor",
    );
    chooser.replace(fleet(6));
    expect(chooser.first({ affinityKey: "k" })).to.equal(owner);
    expect(chooser.select({ affinityKey: "k" }).reason).to.equal("ring_owner");
  });

  it("walks the same ranking for a retry, with the tried one left out", () => {
    const chooser = new Chooser({ name: "consistent_hash" }, fleet(6));
    const ranked = chooser.ranked({ affinityKey: "k" });
    const again = chooser.ranked({ affinityKey: "k", tried: new Set([ranked[0]!]) });
    expect(again.slice(0, ranked.length - 1)).to.deep.equal(ranked.slice(1));
  });

  it("bounds loads: who is over its share hands on to its successor, not to the least loaded", () => {
    const chooser = new Chooser({ name: "consistent_hash", load_margin: 0 }, fleet(4));
    const [owner, second, third] = chooser.ranked({ affinityKey: "k" }) as [Address, Address, Address];
    chooser.statistics.inFlightOf.set(owner, 5);
    chooser.statistics.inFlightOf.set(second, 2);
    // ceil(1.25 * 8 / 4) = 3
    expect(chooser.first({ affinityKey: "k" })).to.equal(second);
    expect(chooser.select({ affinityKey: "k" }).reason).to.equal("bounded_load");
    chooser.statistics.inFlightOf.set(second, 4);
    expect(chooser.first({ affinityKey: "k" })).to.equal(third);
    expect(chooser.ranked({ affinityKey: "k" }), "the over-loaded stay behind as the last resort").to.have.members(
      fleet(4).map(({ address }) => address),
    );
  });

  it("spreads requests without a key, and never pins them to one provider", () => {
    const chooser = new Chooser({ name: "consistent_hash" }, fleet(4));
    expect(chooser.shares(1000).size).to.equal(4);
    expect(chooser.select().reason).to.equal("no_key");
  });

  it("serves a request without a model from the wildcard ring of all providers", () => {
    const providers = fleet(6, (index) => ({ models: index < 3 ? { a: {} } : { b: {} } }));
    const chooser = new Chooser({ name: "consistent_hash" }, providers);
    const shares = chooser.shares(600, (draw) => ({ modelId: undefined, affinityKey: `${draw}` }));
    expect(shares.size).to.equal(6);
    const chosen = chooser.select({ modelId: undefined, affinityKey: "x" }).ranked[0];
    expect(["a", "b"]).to.include(chosen?.modelId);
    expect(chooser.first({ modelId: undefined, affinityKey: "x" })).to.equal(chosen?.provider);
  });

  it("stays stable when few of many match", () => {
    const providers = fleet(1500, (index) => ({
      models: { "test/model": { contextLength: index % 500 === 7 ? 100_000 : 1000 } },
    }));
    const chooser = new Chooser({ name: "consistent_hash" }, providers);
    const request = { affinityKey: "k", inputTokens: 50_000 };
    const first = chooser.first(request);
    expect([8, 508, 1008].map(addressOf)).to.include(first);
    for (let draw = 0; draw < 20; draw += 1) expect(chooser.first(request)).to.equal(first);
  });
});

describe("prefix_hash", () => {
  it("keeps conversations with the same first 1,024 characters together, whatever follows", () => {
    const chooser = new Chooser({ name: "prefix_hash" }, fleet(8));
    const prefix = "x".repeat(1024);
    const first = chooser.first({ routingText: `${prefix} one` });
    expect(chooser.first({ routingText: `${prefix} two`, affinityKey: "other" })).to.equal(first);
    const shares = chooser.shares(200, (draw) => ({ routingText: `${draw} ${prefix}` }));
    expect(shares.size).to.equal(8);
  });
});
