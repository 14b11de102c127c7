import { expect } from "chai";
import { type Hex, pad } from "viem";
import { advance, type AdvanceContext } from "../../../chain/registry-index/advance.ts";
import { RangePacer } from "../../../chain/registry-index/range-pacer.ts";
import { Snapshot } from "../../../chain/registry-index/snapshot.ts";
import { genesisState } from "../../../chain/registry-index/state.ts";
import { Window } from "../../../chain/registry-index/window.ts";
import {
  FakeChain,
  type FakeEvent,
  fakeContracts,
  fakeRating,
  joining,
  registryEvent,
} from "../../support/fake-chain.ts";

const template = joining(1, 1, ["a", "b"]);
const slots = registryEvent("SlotsChanged", { provider: fakeContracts.registry, openJobs: 1, maxConcurrentJobs: 4 });

/** Encoding 10,000 providers' events would take longer than indexing them: only the address differs. */
function of(event: FakeEvent, index: number): FakeEvent {
  // Spread over the whole key space, as real addresses are.
  const address = pad(`0x${((index * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, "0").repeat(5)}`, { size: 32 });
  const [selector, , ...rest] = event.topics;
  return { ...event, topics: [selector as Hex, address, ...rest] };
}

describe("the registry index at scale", function () {
  this.timeout(120_000);

  it("takes in 10,000 providers that join in batches in seconds, then 500 slots in milliseconds each", async () => {
    const providers = 10_000;
    const batch = 100;
    const chain = new FakeChain();
    for (let first = 0; first < providers; first += batch) {
      chain.extend(
        Array.from({ length: batch }, (_, offset) => template.map((event) => of(event, first + offset))).flat(),
      );
    }
    const context: AdvanceContext = {
      reader: chain.reader(),
      contracts: fakeContracts,
      pacer: new RangePacer(1),
      keepBlocks: 256,
      rating: fakeRating,
    };
    const first = await context.reader.block(0);
    let window = Window.from(
      { number: 0, hash: first?.hash ?? "0x", state: genesisState, touched: new Set(), jobLogs: [] },
      256,
    );
    let snapshot = Snapshot.empty(600);
    const catchUp = async (): Promise<void> => {
      for (;;) {
        const step = await advance(context, window, await context.reader.head());
        if (step === undefined) return;
        if (step === "lost") throw new Error("lost");
        ({ window } = step);
        ({ snapshot } = snapshot.next(window.tip.state, step.block, step.touched));
      }
    };
    const start = performance.now();
    await catchUp();
    expect(performance.now() - start, "ms for joining, a snapshot for each block").to.be.lessThan(30_000);
    expect([snapshot.providerCount, snapshot.offers("a").length, snapshot.offers("b").length]).to.deep.equal([
      providers,
      providers,
      providers,
    ]);
    const blocks = 500;
    for (let index = 0; index < blocks; index += 1) chain.extend([of(slots, index)]);
    const startOfSlots = performance.now();
    await catchUp();
    expect((performance.now() - startOfSlots) / blocks, "ms for a block").to.be.lessThan(10);
    expect(window.entries.length).to.equal(256);
  });
});
