import { expect } from "chai";
import fc from "fast-check";
import type { Address } from "viem";
import type { Published, RegistrySnapshot } from "../../../chain/registry-index/types.ts";
import { deriveRoutingState, type RoutingState } from "../../../gateway/routing/state.ts";
import { MutableRegistry } from "./support/mutable-registry.ts";
import { addressOf, providerRecord, snapshotOf } from "./support/registry.ts";

const models = ["a", "b", "c"];

/** All that routing sees of a state, in a form that can be compared. */
function visible({ derived }: Published<RoutingState>): unknown {
  return [...models, undefined].map((modelId) => {
    const pool = derived.pool(modelId);
    if (pool === undefined) return undefined;
    const places = (["seasoned", "newcomer", "poor", "full", "stale", "inactive"] as const).map((place) => [
      place,
      [...pool.at(place)].map(({ candidates }) => candidates),
    ]);
    return { places, ring: (pool.ring?.members() ?? []).toSorted() };
  });
}

/** Membership by the definition: live providers of a model. */
function live({ snapshot }: Published<RoutingState>, modelId: string | undefined): Address[] {
  return [...snapshot.providers()]
    .filter(({ active, lastSeen }) => active && lastSeen + snapshot.timeToLive >= snapshot.blockTimestamp)
    .filter(({ offerings }) => (modelId === undefined ? offerings.size > 0 : offerings.has(modelId)))
    .map(({ address }) => address)
    .toSorted();
}

const sketch = fc.record({
  address: fc.nat(11).map((index) => addressOf(index + 1)),
  models: fc.dictionary(
    fc.constantFrom(...models),
    fc.record({
      inputPrice: fc.bigInt(1n, 4n),
      outputPrice: fc.bigInt(1n, 4n),
      completed: fc.constantFrom(0, 30),
      failed: fc.constantFrom(0, 10),
    }),
    { noNullPrototype: true },
  ),
  active: fc.boolean(),
  lastSeen: fc.integer({ min: 300, max: 1200 }),
  generation: fc.nat(3),
  maxConcurrentJobs: fc.constantFrom(0, 1, 2),
  openJobs: fc.nat(2),
});

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("put" as const), sketch }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), index: fc.nat(11) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("publish" as const) }) },
  // Time goes on with blocks; a reorganisation may set it back.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("time" as const), by: fc.integer({ min: -200, max: 400 }) }) },
);

describe("deriveRoutingState", () => {
  it("shows, after any history of joins, leaves, re-registrations and model changes, what a fresh start would", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const registry = new MutableRegistry();
        for (const event of [...steps, { kind: "publish" as const }]) {
          if (event.kind === "put") registry.put(event.sketch);
          else if (event.kind === "delete") registry.delete(addressOf(event.index + 1));
          else if (event.kind === "time") registry.timestamp += event.by;
          else {
            const published = registry.publish();
            expect(visible(published)).to.deep.equal(visible(registry.fromNothing()));
            for (const modelId of [...models, undefined]) {
              expect((published.derived.ring(modelId)?.members() ?? []).toSorted()).to.deep.equal(
                live(published, modelId),
              );
            }
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it("never changes what a reader of an older version sees, however slow that reader is", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const registry = new MutableRegistry();
        const seen: (readonly [Published<RoutingState>, unknown])[] = [];
        for (const event of steps) {
          if (event.kind === "put") registry.put(event.sketch);
          else if (event.kind === "delete") registry.delete(addressOf(event.index + 1));
          else if (event.kind === "time") registry.timestamp += event.by;
          else {
            const published = registry.publish();
            seen.push([published, visible(published)]);
          }
        }
        for (const [published, before] of seen) {
          expect(visible(published)).to.deep.equal(before);
          expect(published.derived.version).to.equal(published.snapshot.version);
        }
      }),
      { numRuns: 100 },
    );
  });

  it("has one ring object under both names while there is one model, and keeps the wildcard ring whole when a second comes and goes", () => {
    const registry = new MutableRegistry();
    for (let index = 1; index <= 5; index += 1) registry.put({ address: addressOf(index), models: { a: {} } });
    const one = registry.publish().derived;
    expect(one.ring("a")).to.not.equal(undefined);
    expect(one.ring(undefined)).to.equal(one.ring("a"));
    registry.put({ address: addressOf(1), models: { a: {}, b: {} } });
    registry.put({ address: addressOf(6), models: { b: {} } });
    const two = registry.publish().derived;
    expect(two.ring(undefined)?.size, "one share each, however many models").to.equal(6);
    expect([two.ring("a")?.size, two.ring("b")?.size]).to.deep.equal([5, 2]);
    registry.put({ address: addressOf(1), models: { a: {} } });
    registry.delete(addressOf(6));
    const again = registry.publish().derived;
    expect(again.ring(undefined)).to.equal(again.ring("a"));
    expect(again.ring("b"), "no members, no ring").to.equal(undefined);
  });

  it("leaves the ring alone when only slots are taken or freed", () => {
    const registry = new MutableRegistry();
    for (let index = 1; index <= 4; index += 1) registry.put({ address: addressOf(index), maxConcurrentJobs: 2 });
    const before = registry.publish().derived.ring("test/model");
    registry.put({ address: addressOf(1), maxConcurrentJobs: 2, openJobs: 2 });
    expect(registry.publish().derived.ring("test/model")).to.equal(before);
  });

  it("takes 10,000 providers that join one by one in seconds, because a change costs what changed", function () {
    this.timeout(60_000);
    const joined = Array.from({ length: 10_000 }, (_, index) =>
      providerRecord({ address: addressOf(index + 1), models: { a: { inputPrice: BigInt(index % 7) } } }),
    );
    const places = new Map(joined.map(({ address }, index) => [address, index]));
    let lookups = 0;
    /** The registry after so many joins, without copying it. */
    const after = (count: number): RegistrySnapshot => ({
      ...snapshotOf([], { version: count }),
      providerCount: count,
      provider: (address) => {
        lookups += 1;
        const place = places.get(address) ?? count;
        return place < count ? joined[place] : undefined;
      },
      providers: () => {
        throw new Error("a change must not read all providers");
      },
    });
    let state = deriveRoutingState(snapshotOf([]), { providers: new Set(), models: new Set() }, undefined);
    for (const [index, { address }] of joined.entries()) {
      lookups = 0;
      state = deriveRoutingState(after(index + 1), { providers: new Set([address]), models: new Set(["a"]) }, state);
      expect(lookups).to.be.at.most(2);
    }
    expect(state.ring("a")?.size).to.equal(10_000);
    expect(state.pool(undefined)?.freeSize).to.equal(10_000);
  });
});
