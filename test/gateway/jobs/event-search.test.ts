import { expect } from "chai";
import fc from "fast-check";
import { ChainUnavailableError } from "../../../chain/rpc-errors.ts";
import { type EventSearch, searchEvent } from "../../../gateway/jobs/event-search.ts";

/** A node that answers at most so many blocks at once, of a chain with one event, and counts what it is asked. */
function nodeWith(event: bigint | undefined, most: number) {
  const questions: (readonly [bigint, bigint])[] = [];
  const ask: EventSearch<bigint>["ask"] = async (from, to) => {
    questions.push([from, to]);
    if (to - from + 1n > BigInt(most)) throw new Error("block range is too large");
    return event !== undefined && from <= event && event <= to ? event : undefined;
  };
  return { questions, ask };
}

describe("the search for one event", () => {
  it("finds it wherever it is, however few blocks the node answers at once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.bigInt({ min: 0n, max: 9_000n }),
        fc.bigInt({ min: 0n, max: 9_000n }),
        fc.bigInt({ min: 0n, max: 9_000n }),
        fc.constantFrom(100, 500, 1999, 2000, 50_000),
        fc.boolean(),
        async (a, b, event, most, newestFirst) => {
          const [from, to] = a < b ? [a, b] : [b, a];
          const found = await searchEvent({ from, to, newestFirst, ask: nodeWith(event, most).ask });
          expect(found).to.equal(event >= from && event <= to ? event : undefined);
        },
      ),
    );
  });

  it("asks nothing twice, and begins where the event is likely to be", async () => {
    const up = nodeWith(10n, 2000);
    await searchEvent({ from: 0n, to: 1_000_000n, ask: up.ask });
    expect(up.questions).to.have.length(1);
    const down = nodeWith(999_990n, 2000);
    await searchEvent({ from: 0n, to: 1_000_000n, newestFirst: true, ask: down.ask });
    expect(down.questions).to.have.length(1);
    const all = nodeWith(undefined, 2000);
    await searchEvent({ from: 0n, to: 9_999n, ask: all.ask });
    expect(all.questions.map(([from]) => from)).to.deep.equal([0n, 2000n, 4000n, 6000n, 8000n]);
  });

  it("is given up after a bounded number of questions", async () => {
    const node = nodeWith(undefined, 2000);
    expect(await searchEvent({ from: 0n, to: 10n ** 12n, ask: node.ask })).to.equal(undefined);
    expect(node.questions).to.have.length(500);
  });

  it("does not take a node that fails for an event that is not there", async () => {
    const failure = new Error("no");
    const refuses = searchEvent({ from: 0n, to: 9n, ask: async () => await Promise.reject(failure) });
    expect(await refuses.catch((error: unknown) => error)).to.equal(failure);
    let questions = 0;
    const gone = new ChainUnavailableError("node", "eth_getLogs", 3, new Error("refused"));
    const unreachable = searchEvent({
      from: 0n,
      to: 9_999n,
      ask: async () => {
        questions += 1;
        return await Promise.reject(gone);
      },
    });
    expect(await unreachable.catch((error: unknown) => error)).to.equal(gone);
    expect(questions, "a smaller range does not help").to.equal(1);
  });
});
