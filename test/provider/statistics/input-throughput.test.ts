import { expect } from "chai";
import * as fc from "fast-check";
import { InputThroughput, samplesToPublish } from "../../../provider/statistics/input-throughput.ts";
import { IntervalUnion } from "../../../provider/statistics/interval-union.ts";
import { ModelStatistics } from "../../../provider/statistics/model-statistics.ts";
import { type BoardEntry, StatisticsBoard } from "../../../provider/statistics/statistics-board.ts";

/** One prompt after another: `tokens` in `ms` each. */
function measure(
  throughput: InputThroughput,
  samples: readonly (readonly [tokens: number, ms: number])[],
  from = 0,
): number {
  let now = from;
  for (const [tokens, ms] of samples) {
    const ticket = throughput.submit(now);
    now += ms;
    ticket.firstOutput(now);
    ticket.end(tokens);
  }
  return now;
}

describe("IntervalUnion", () => {
  const interval = fc.tuple(fc.nat({ max: 60 }), fc.nat({ max: 60 }));

  it("adds up to the measure of the union, in whatever order intervals come", () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 20 }), (intervals) => {
        const union = new IntervalUnion();
        const covered = new Set<number>();
        for (const [start, end] of intervals) {
          const before = covered.size;
          for (let unit = start; unit < end; unit += 1) covered.add(unit);
          expect(union.cover(start, end)).to.equal(covered.size - before);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("forgets the past without changing what is added later", () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 20 }), fc.nat({ max: 60 }), (intervals, horizon) => {
        const kept = new IntervalUnion();
        const forgetful = new IntervalUnion();
        for (const [start, end] of intervals) {
          kept.cover(start, end);
          forgetful.cover(start, end);
        }
        forgetful.forgetBefore(horizon);
        for (const [start, end] of intervals) {
          const later = start + horizon;
          expect(forgetful.cover(later, later + end)).to.equal(kept.cover(later, later + end));
        }
      }),
    );
  });
});

describe("InputThroughput", () => {
  it("publishes nothing before five samples, and then all tokens over all time", () => {
    const throughput = new InputThroughput();
    const samples = [
      [100, 100],
      [300, 100],
      [100, 50],
      [200, 150],
      [300, 100],
    ] as const;
    measure(throughput, samples.slice(0, samplesToPublish - 1));
    expect(throughput.read()).to.deep.equal({});
    const fresh = new InputThroughput();
    measure(fresh, samples);
    expect(fresh.read()).to.deep.equal({ lastMeanInputTps: 2000, maxInputTps: 2000 });
  });

  it("counts the time of prompts that the engine works on together once", () => {
    const throughput = new InputThroughput();
    const tickets = [0, 0, 0, 0, 0].map((start) => throughput.submit(start));
    for (const [index, ticket] of tickets.entries()) {
      ticket.firstOutput(100 * (index + 1));
      ticket.end(100);
    }
    expect(throughput.read().lastMeanInputTps).to.equal(1000);
  });

  it("is total tokens over the union of the intervals, for any overlaps and any order of ends", () => {
    const prompt = fc.record({
      start: fc.nat({ max: 2_000 }),
      length: fc.integer({ min: 10, max: 1_000 }),
      tokens: fc.integer({ min: 1, max: 5_000 }),
      order: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(prompt, { minLength: samplesToPublish, maxLength: 30 }), (prompts) => {
        const throughput = new InputThroughput();
        const tickets = prompts.map((one) => ({ one, ticket: throughput.submit(one.start) }));
        for (const { one, ticket } of tickets) ticket.firstOutput(one.start + one.length);
        for (const { one, ticket } of tickets.toSorted((a, b) => a.one.order - b.one.order)) ticket.end(one.tokens);
        // A last prompt apart from all others takes along what was too short for a sample of its own.
        measure(throughput, [[1, 100]], 10_000);
        const busy = new Set<number>();
        for (const { start, length } of prompts) for (let ms = start; ms < start + length; ms += 1) busy.add(ms);
        const mean = throughput.read().lastMeanInputTps;
        const exact = (prompts.reduce((sum, { tokens }) => sum + tokens, 1) * 1000) / (busy.size + 100);
        if (mean !== undefined) expect(mean).to.be.closeTo(exact, exact * 1e-9);
      }),
    );
  });

  it("accumulates samples under 10 ms instead of dividing by a timer's noise", () => {
    const throughput = new InputThroughput();
    measure(
      throughput,
      Array.from({ length: 14 }, () => [10, 4] as const),
    );
    expect(throughput.read(), "fourteen of 4 ms make four of 12 ms and a rest").to.deep.equal({});
    measure(throughput, [[10, 4]], 56);
    expect(throughput.read().lastMeanInputTps).to.equal(2500);
  });

  it("comes to have a value of an engine of which no prompt ever takes 10 ms", () => {
    const throughput = new InputThroughput();
    measure(
      throughput,
      Array.from({ length: 100 }, () => [10, 0.5] as const),
    );
    expect(throughput.read().lastMeanInputTps).to.equal(20_000);
  });

  it("does not count the time of a prompt that never gave output, or whose tokens nobody said", () => {
    const throughput = new InputThroughput();
    const abandoned = throughput.submit(0);
    const unknown = throughput.submit(0);
    measure(
      throughput,
      Array.from({ length: 5 }, () => [100, 100] as const),
      10_000,
    );
    abandoned.end(undefined);
    unknown.firstOutput(9_000);
    unknown.end(undefined);
    expect(throughput.read().lastMeanInputTps).to.equal(1000);
  });

  it("counts a prompt once, however often its end is told", () => {
    const throughput = new InputThroughput();
    const ticket = throughput.submit(0);
    ticket.firstOutput(100);
    ticket.firstOutput(900);
    for (let turn = 0; turn < 10; turn += 1) ticket.end(100);
    expect(throughput.read()).to.deep.equal({});
  });

  it("replaces a configured value by the first measurement, in mean and in maximum, even by a lower one", () => {
    const throughput = new InputThroughput(1_000_000);
    expect(throughput.read()).to.deep.equal({ lastMeanInputTps: 1_000_000, maxInputTps: 1_000_000 });
    measure(
      throughput,
      Array.from({ length: 5 }, () => [100, 100] as const),
    );
    expect(throughput.read()).to.deep.equal({ lastMeanInputTps: 1000, maxInputTps: 1000 });
  });

  it("takes no invalid configured value for a value", () => {
    for (const value of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(new InputThroughput(value).read()).to.deep.equal({});
    }
  });

  it("has the greatest published mean as its maximum: never below the mean, never falling, never a raw sample", () => {
    const samples = fc.array(fc.tuple(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 10, max: 500 })), {
      maxLength: 120,
    });
    fc.assert(
      fc.property(samples, (list) => {
        const throughput = new InputThroughput();
        let now = 0;
        let greatest: number | undefined;
        for (const sample of list) {
          now = measure(throughput, [sample], now);
          const { lastMeanInputTps: mean, maxInputTps: max } = throughput.read();
          if (mean !== undefined) greatest = Math.max(greatest ?? 0, mean);
          expect(max).to.equal(greatest);
        }
      }),
    );
  });

  it("follows an engine that became slower", () => {
    const throughput = new InputThroughput();
    const now = measure(
      throughput,
      Array.from({ length: 60 }, () => [1_000, 100] as const),
    );
    measure(
      throughput,
      Array.from({ length: 60 }, () => [100, 100] as const),
      now,
    );
    expect(throughput.read()).to.deep.equal({ lastMeanInputTps: 1000, maxInputTps: 10_000 });
  });
});

describe("ModelStatistics", () => {
  it("count a stream as queued until its first output and as running until its end, each once", () => {
    const model = new ModelStatistics("m", "g", undefined);
    const a = model.begin(100, 0);
    const b = model.begin(50, 0);
    expect(model.read()).to.include({ running: 2, queuedInputTokens: 150 });
    a.firstOutput(10);
    a.firstOutput(20);
    expect(model.read()).to.include({ running: 2, queuedInputTokens: 50 });
    a.end(100);
    a.end(100);
    b.end(undefined);
    expect(model.read()).to.include({ running: 0, queuedInputTokens: 0 });
  });
});

describe("StatisticsBoard", () => {
  const entry: BoardEntry = {
    model: "m",
    backendModel: "m",
    backendGeneration: "1",
    initialInputTps: undefined,
    clusterId: undefined,
    kvFreeTokens: undefined,
  };

  function measured(board: StatisticsBoard, of: BoardEntry): void {
    const model = board.of(of);
    for (let at = 0; at < 500; at += 100) {
      const stream = model.begin(100, at);
      stream.firstOutput(at + 100);
      stream.end(100);
    }
  }

  it("starts anew when the backend restarts or the model behind the name is replaced", () => {
    const board = new StatisticsBoard();
    measured(board, entry);
    expect(board.read([entry])[0]).to.include({ generation: "1", lastMeanInputTps: 1000, maxInputTps: 1000 });
    const restarted = { ...entry, backendGeneration: "2" };
    expect(board.read([restarted])[0]).to.deep.equal({ model: "m", generation: "2", running: 0, queuedInputTokens: 0 });
    const replaced = { ...entry, backendModel: "other" };
    expect(board.read([replaced])[0]?.generation).to.equal("1/other");
    expect(board.read([replaced])[0]?.maxInputTps).to.equal(undefined);
  });

  it("does not let streams of the old generation touch the new one's counts", () => {
    const board = new StatisticsBoard();
    const old = board.of(entry).begin(100, 0);
    const restarted = { ...entry, backendGeneration: "2" };
    expect(board.read([restarted])[0]).to.include({ running: 0 });
    old.firstOutput(100);
    old.end(100);
    expect(board.read([restarted])[0]).to.include({ running: 0, queuedInputTokens: 0 });
  });

  it("forgets a model that is no longer offered, with its maximum", () => {
    const board = new StatisticsBoard();
    measured(board, entry);
    expect(board.read([])).to.deep.equal([]);
    expect(board.read([entry])[0]?.maxInputTps).to.equal(undefined);
  });

  it("tells cluster and free cache tokens only where they are known", () => {
    const board = new StatisticsBoard();
    expect(board.read([{ ...entry, clusterId: "c", kvFreeTokens: 9 }])[0]).to.include({
      clusterId: "c",
      kvFreeTokens: 9,
    });
    expect(board.read([entry])[0]).to.not.have.any.keys("clusterId", "kvFreeTokens");
  });
});
