import { expect } from "chai";
import fc from "fast-check";
import type { Address } from "viem";
import { RoutingStatistics } from "../../../../gateway/routing/statistics/routing-statistics.ts";
import type { WeightStatistic } from "../../../../gateway/routing/types.ts";
import { MemberSlots } from "../../../../gateway/routing/ring/member-slots.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { addressOf } from "../support/registry.ts";
import { statusWith } from "../support/sketches.ts";

const models = ["a", "b"] as const;
const weights: readonly WeightStatistic[] = ["max-input-tps", "last-mean-input-tps"];
/** A few to whom much happens, and many. */
const someone = fc.oneof(fc.nat(3), fc.nat(120));
const rate = fc.constantFrom(undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1, 2.5, 1e6);

const report = fc.record({
  model: fc.constantFrom(...models),
  maxInputTps: rate,
  lastMeanInputTps: rate,
  clusterId: fc.constantFrom(undefined, undefined, "", "engine 1", "engine 2"),
});

const step = fc.oneof(
  fc.record({ kind: fc.constant("join" as const), provider: someone }),
  fc.record({
    kind: fc.constant("report" as const),
    provider: someone,
    models: fc.uniqueArray(report, { maxLength: 2, selector: ({ model }) => model }),
  }),
  fc.record({ kind: fc.constant("leave" as const), provider: someone }),
  fc.record({ kind: fc.constant("silence" as const), ms: fc.constantFrom(1, 999, 1000, 1001) }),
  fc.record({ kind: fc.constant("new ring numbers" as const) }),
);

/** What the reports say of a slot's provider, and what the table by slot says. */
function bothOf(statistics: RoutingStatistics, slots: MemberSlots): readonly [unknown, unknown] {
  const direct: unknown[] = [];
  const table: unknown[] = [];
  for (const model of models) {
    for (const statistic of weights) {
      const bySlot = statistics.slotWeights(model, statistic, slots);
      const every = Array.from({ length: slots.count }, (_, slot) => slot);
      const [own, clusters] = [bySlot.weightsOf(every), bySlot.clustersOf(every)];
      for (let slot = 0; slot < slots.count; slot += 1) {
        const reported = statistics.reported(slots.addressOf(slot), model);
        const weight = statistic === "max-input-tps" ? reported?.maxInputTps : reported?.lastMeanInputTps;
        direct.push([model, statistic, slot, weight ?? 0, weight && reported?.clusterId]);
        table.push([model, statistic, slot, own[slot], own[slot] === 0 ? undefined : clusters?.[slot]]);
      }
    }
  }
  return [direct, table];
}

describe("weights by slot", () => {
  it("are those of the reports at every moment, whoever joins, leaves, comes back, reports or falls silent", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 120, size: "max" }), fc.boolean(), (steps, readsOften) => {
        const clock = new ManualClock();
        const statistics = new RoutingStatistics({ clock, statusStaleAfterMs: 1000 });
        let slots = new MemberSlots();
        for (const one of steps) {
          if (one.kind === "join") slots.slotOf(addressOf(one.provider));
          else if (one.kind === "leave") statistics.forgetReport(addressOf(one.provider));
          else if (one.kind === "silence") clock.advance(one.ms);
          else if (one.kind === "new ring numbers") slots = new MemberSlots();
          else statistics.report(addressOf(one.provider), statusWith(one.models));
          if (!readsOften && one !== steps.at(-1)) continue;
          const [direct, table] = bothOf(statistics, slots);
          expect(table).to.deep.equal(direct);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("stay right while thousands come and go, more than the table had room for", () => {
    const clock = new ManualClock();
    const statistics = new RoutingStatistics({ clock, statusStaleAfterMs: 1000 });
    const slots = new MemberSlots();
    const addresses: Address[] = Array.from({ length: 3000 }, (_, index) => addressOf(index + 1));
    for (let from = 0; from < addresses.length; from += 300) {
      for (const address of addresses.slice(from, from + 300)) {
        slots.slotOf(address);
        statistics.report(address, statusWith([{ model: "a", maxInputTps: from + 1 }]));
      }
      for (const address of addresses.slice(0, from)) statistics.forgetReport(address);
      const [direct, table] = bothOf(statistics, slots);
      expect(table).to.deep.equal(direct);
    }
  });
});
