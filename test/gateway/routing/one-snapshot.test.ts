import { expect } from "chai";
import fc from "fast-check";
import { type Address, createPublicClient, custom } from "viem";
import { ChainMovedError } from "../../../chain/registry-index/advance.ts";
import { Follower } from "../../../chain/registry-index/follower.ts";
import { PageReader } from "../../../chain/registry-index/page-reader.ts";
import { Publisher } from "../../../chain/registry-index/publisher.ts";
import { RangePacer } from "../../../chain/registry-index/range-pacer.ts";
import type { Published } from "../../../chain/registry-index/types.ts";
import { deriveRoutingState, type RoutingState } from "../../../gateway/routing/state.ts";
import { FakeChain, fakeContracts, fakeRating } from "../../support/fake-chain.ts";
import { FakeMarket, type Happening, happeningKinds } from "../../support/fake-market.ts";

const timeToLive = 600;
/** More tries than a chain of a few blocks can move under a reader. */
const mostTries = 200;

const happening: fc.Arbitrary<Happening> = fc.record({
  kind: fc.constantFrom(...happeningKinds, "join", "leave", "return", "offer", "withdraw"),
  who: fc.nat(12),
  what: fc.nat(12),
});

/** Blocks to come, some of them on another fork. */
const blocks = fc.array(
  fc.record({ drop: fc.constantFrom(0, 0, 0, 0, 1, 3), happenings: fc.array(happening, { maxLength: 5 }) }),
  { minLength: 1, maxLength: 25 },
);
/** How many blocks come while the index waits for an answer, or derives: taken in turn. */
const delays = fc.infiniteStream(fc.constantFrom(0, 0, 0, 1, 1, 2, 5));

/** A chain that goes on whenever somebody is slow. */
class RestlessChain {
  readonly chain = new FakeChain();
  #markets: FakeMarket[] = [new FakeMarket()];
  readonly #coming: { readonly drop: number; readonly happenings: readonly Happening[] }[];
  readonly #delays: IterableIterator<number>;

  constructor(
    coming: readonly { readonly drop: number; readonly happenings: readonly Happening[] }[],
    stream: IterableIterator<number>,
  ) {
    this.#coming = [...coming];
    this.#delays = stream;
    this.chain.beforeCall = () => this.pass();
  }

  #next(): number {
    const next: IteratorResult<number, unknown> = this.#delays.next();
    return next.done === true ? 0 : next.value;
  }

  get isOver(): boolean {
    return this.#coming.length === 0;
  }

  /** Time passes: the next few blocks come. */
  pass(count?: number): void {
    const next: number = count ?? this.#next();
    for (const { drop, happenings } of this.#coming.splice(0, next)) {
      if (drop > 0) {
        this.chain.drop(drop);
        this.#markets = this.#markets.slice(0, this.chain.length);
      }
      const market = (this.#markets.at(-1) ?? new FakeMarket()).copy();
      this.chain.extend(happenings.flatMap((each) => market.happen(each)));
      this.#markets.push(market);
    }
  }
}

/** Who is a member by the definition, from the records alone. */
function membersOf({ snapshot }: Published<RoutingState>, modelId: string | undefined): Address[] {
  return [...snapshot.providers()]
    .filter(({ active, lastSeen }) => active && lastSeen + snapshot.timeToLive >= snapshot.blockTimestamp)
    .filter(({ offerings }) => (modelId === undefined ? offerings.size > 0 : offerings.has(modelId)))
    .map(({ address }) => address)
    .toSorted();
}

function expectMembership(published: Published<RoutingState>): void {
  const { snapshot, derived } = published;
  expect(derived.snapshot).to.equal(snapshot);
  for (const modelId of [...snapshot.models(), undefined]) {
    const ring = derived.ring(modelId);
    expect((ring?.members() ?? []).toSorted(), modelId ?? "the wildcard ring").to.deep.equal(
      membersOf(published, modelId),
    );
    const pool = derived.pool(modelId);
    const free = (["seasoned", "newcomer", "poor"] as const).flatMap((place) => [...(pool?.at(place) ?? [])]);
    for (const { provider } of free) {
      const record = snapshot.provider(provider);
      expect(record?.maxConcurrentJobs === 0 || (record?.openJobs ?? 0) < (record?.maxConcurrentJobs ?? 0)).to.equal(
        true,
      );
    }
  }
}

describe("one snapshot", () => {
  it("holds candidates and rings of one version, whatever joins, leaves and moves while the index reads and derives slowly", async () => {
    await fc.assert(
      fc.asyncProperty(blocks, delays, async (coming, stream) => {
        const world = new RestlessChain(coming, stream);
        const versions: number[] = [];
        const held: (readonly [Published<RoutingState>, readonly Address[]])[] = [];
        const publisher = new Publisher<RoutingState>(
          (snapshot, delta, previous) => {
            const seen = publisher.current;
            const derived = deriveRoutingState(snapshot, delta, previous);
            // Deriving takes its time: the chain goes on, and nobody may see what is not whole yet.
            world.pass();
            expect(publisher.current).to.equal(seen);
            return derived;
          },
          (error) => {
            throw error;
          },
        );
        publisher.subscribe((published) => {
          expectMembership(published);
          versions.push(published.derived.version);
          held.push([published, membersOf(published, undefined)]);
        });
        const follower = new Follower({
          context: {
            reader: world.chain.reader(),
            contracts: fakeContracts,
            pacer: new RangePacer(3),
            keepBlocks: 8,
            rating: fakeRating,
          },
          pages: new PageReader(
            createPublicClient({
              transport: custom({ request: () => Promise.reject(new Error("the chain is replayed, not paged")) }),
            }),
            fakeContracts.registry,
          ),
          deployedAtBlock: 0,
          maxReplayBlocks: 1000,
          publish: (publication) => publisher.publish(publication, timeToLive),
        });
        const reader = world.chain.reader();
        let tries = 0;
        for (let isWhole = false; !isWhole; tries += 1) {
          expect(tries).to.be.lessThan(mostTries);
          const wasOver = world.isOver;
          // No answer for long: what is left comes.
          if (tries > mostTries / 2) world.pass(1);
          const head = await reader.head();
          try {
            await follower.follow(head);
            isWhole = wasOver;
          } catch (error) {
            if (!(error instanceof ChainMovedError)) throw error;
          }
        }
        expect(versions, "versions only rise").to.deep.equal([...new Set(versions)].toSorted((a, b) => a - b));
        const last = publisher.current;
        expect(last?.snapshot.blockNumber).to.equal(world.chain.length - 1);
        for (const [published, members] of held) {
          expect((published.derived.ring(undefined)?.members() ?? []).toSorted()).to.deep.equal(members);
        }
      }),
      { numRuns: 120 },
    );
  });
});
