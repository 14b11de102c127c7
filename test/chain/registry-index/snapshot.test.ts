import { expect } from "chai";
import * as fc from "fast-check";
import { decodeLog, type IndexedLog } from "../../../chain/registry-index/logs.ts";
import { Snapshot } from "../../../chain/registry-index/snapshot.ts";
import { genesisState, type RegistryState } from "../../../chain/registry-index/state.ts";
import { applyLogs } from "../../../chain/registry-index/transition.ts";
import {
  FakeChain,
  type FakeEvent,
  fakeContracts,
  fakeRating,
  joining,
  person,
  registryEvent,
} from "../../support/fake-chain.ts";
import { FakeMarket, type Happening, happeningKinds } from "../../support/fake-market.ts";
import { plainSnapshot } from "../../support/plain-state.ts";

const noBlock = { number: 1, hash: "0x01", timestamp: 1 } as const;
const happening: fc.Arbitrary<Happening> = fc.record({
  kind: fc.constantFrom(...happeningKinds, "join"),
  who: fc.nat(40),
  what: fc.nat(40),
});

async function logsOf(events: readonly FakeEvent[]): Promise<IndexedLog[]> {
  const chain = new FakeChain();
  chain.extend(events);
  const logs = await chain.reader().logsInRange(1, 1);
  return logs.flatMap((log) => decodeLog(fakeContracts, log) ?? []);
}

function fromScratch(state: RegistryState): Snapshot {
  const addresses = [...state.providers.values()].map((record) => record.address);
  return Snapshot.empty(600).next(state, noBlock, addresses).snapshot;
}

describe("a snapshot of the registry", () => {
  it("shows the same whether built step by step or from scratch, and older ones never change", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(happening, { maxLength: 8 }), { maxLength: 8 }), async (batches) => {
        const market = new FakeMarket();
        let state = genesisState;
        let snapshot = Snapshot.empty(600);
        const held: { readonly snapshot: Snapshot; readonly seen: unknown }[] = [];
        for (const batch of batches) {
          const logs = await logsOf(batch.flatMap((each) => market.happen(each)));
          const transition = applyLogs(state, logs, () => 7, fakeRating);
          const next = snapshot.next(transition.state, noBlock, transition.touched);
          expect(plainSnapshot(next.snapshot)).to.deep.equal(plainSnapshot(fromScratch(transition.state)));
          for (const model of new Set([...snapshot.models(), ...next.snapshot.models()])) {
            const changed = snapshot.offers(model) !== next.snapshot.offers(model);
            expect(next.delta.models.has(model), `delta for ${model}`).to.equal(changed);
          }
          for (const record of next.snapshot.providers()) {
            expect(next.delta.providers.has(record.address)).to.equal(snapshot.provider(record.address) !== record);
          }
          ({ snapshot } = next);
          ({ state } = transition);
          held.push({ snapshot, seen: plainSnapshot(snapshot) });
        }
        for (const each of held) expect(plainSnapshot(each.snapshot)).to.deep.equal(each.seen);
      }),
      { numRuns: 60 },
    );
  });

  it("tells what a reorganisation took away", async () => {
    const { state } = applyLogs(genesisState, await logsOf(joining(1, 1, ["a", "b"])), () => 7, fakeRating);
    const full = Snapshot.empty(600).next(state, noBlock, [person(1)]).snapshot;
    const { snapshot, delta } = full.next(genesisState, noBlock, [person(1)]);
    expect(delta.providers).to.deep.equal(new Set([person(1)]));
    expect(delta.models).to.deep.equal(new Set(["a", "b"]));
    expect(snapshot.models()).to.deep.equal([]);
    expect(snapshot.offers("a")).to.deep.equal([]);
    expect(full.offers("a")).to.have.length(1);
    expect(snapshot.version).to.equal(full.version + 1);
  });

  it("leaves out addresses that were touched but did not change", async () => {
    const { state } = applyLogs(genesisState, await logsOf(joining(1, 1, ["a"])), () => 7, fakeRating);
    const full = Snapshot.empty(600).next(state, noBlock, [person(1)]).snapshot;
    const { delta } = full.next(state, noBlock, [person(1), person(2)]);
    expect([delta.providers.size, delta.models.size]).to.deep.equal([0, 0]);
  });

  it("answers for unknown models and providers without complaint", () => {
    const snapshot = Snapshot.empty(600);
    expect(snapshot.offers("nothing")).to.deep.equal([]);
    expect(snapshot.provider(person(1))).to.equal(undefined);
    expect(snapshot.providerCount).to.equal(0);
  });

  it("costs what changed: one slot of one among 50,000 providers of a model takes about one copy of its offers", async () => {
    const count = 50_000;
    const template = await logsOf(joining(1, 1, ["a", "b"]));
    const logs: IndexedLog[] = [];
    const address = (index: number) => `0x${index.toString(16).padStart(8, "0").repeat(5)}` as const;
    for (let index = 0; index < count; index += 1) {
      for (const log of template) logs.push({ ...log, provider: address(index) });
    }
    const transition = applyLogs(genesisState, logs, () => 7, fakeRating);
    let { snapshot } = Snapshot.empty(600).next(transition.state, noBlock, transition.touched);
    expect(snapshot.offers("a")).to.have.length(count);
    let { state } = transition;
    const [slots] = await logsOf([
      registryEvent("SlotsChanged", { provider: person(1), openJobs: 1, maxConcurrentJobs: 4 }),
    ]);
    // The fastest of many rounds: what the machine can do, whatever else it is doing.
    let fastestChange = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 100; round += 1) {
      const startOfRound = performance.now();
      const changed = applyLogs(state, [{ ...slots, provider: address(round * 7) } as IndexedLog], () => 7, fakeRating);
      ({ state } = changed);
      ({ snapshot } = snapshot.next(state, noBlock, changed.touched));
      fastestChange = Math.min(fastestChange, performance.now() - startOfRound);
    }
    expect(snapshot.offers("a")[7]?.provider.openJobs).to.equal(1);
    let fastestVisit = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5; round += 1) {
      const startOfVisit = performance.now();
      let generations = 0;
      for (const record of snapshot.providers()) generations += record.generation;
      expect(generations).to.equal(count);
      fastestVisit = Math.min(fastestVisit, performance.now() - startOfVisit);
    }
    expect(fastestChange, "ms for a change, beside those for visiting every provider once").to.be.lessThan(
      fastestVisit / 5,
    );
  }).timeout(30_000);
});
